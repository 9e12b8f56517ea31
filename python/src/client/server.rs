//! A server, and what is asked of it.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate_client::{Admission, BuildError, Client, Error, Exchange, Key, Report, Request, Tls};
use tokio::runtime::Runtime;

use super::answer::answer;
use super::driving::{carry_out, run, runtime};
use super::grant::ServerGrant;
use super::lease::ServerLease;
use super::spender::ServerSpender;
use super::words::{quantities, quantity, raised, raised_of_lease, seconds};
use crate::error::{exception, invalid};
use crate::fork;
use crate::limit::duration;
use crate::request::{self, one_of_256};

/// What was granted and nobody has taken: dropped, it is given back whole.
struct Untaken {
    admission: Option<Admission>,
    runtime: &'static Runtime,
}

impl Untaken {
    fn take(mut self) -> Option<Admission> {
        self.admission.take()
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        if let Some(Admission::Granted(lease)) = self.admission.take() {
            self.runtime.spawn(async move {
                // It expires if the server does not answer.
                let _ = lease.cancel().await;
            });
        }
    }
}

/// A server.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Server {
    opened: fork::Opened<Client>,
    plan: Plan,
    is_awaited: bool,
}

/// What is opened.
struct Plan {
    url: String,
    token: Option<String>,
    namespace: Option<String>,
    timeout: Duration,
    tls: Tls,
}

impl Plan {
    fn open(&self, py: Python<'_>) -> PyResult<Client> {
        let mut builder = Client::builder(&self.url)
            .deadline(self.timeout)
            .tls(self.tls.clone());
        if let Some(token) = &self.token {
            builder = builder.token(token);
        }
        if let Some(namespace) = &self.namespace {
            builder = builder.namespace(namespace);
        }
        let built = py.detach(|| builder.build());
        built.map_err(|error| match error {
            BuildError::System(why) => exception(py, "ServerUnavailable", (why,)),
            error => PyValueError::new_err(error.to_string()),
        })
    }
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (url, token, timeout, *, ca, cert, namespace, is_awaited))]
    #[expect(
        clippy::too_many_arguments,
        reason = "those of the Python class above it"
    )]
    fn new(
        py: Python<'_>,
        url: String,
        token: Option<String>,
        timeout: f64,
        ca: Option<std::path::PathBuf>,
        cert: Option<(std::path::PathBuf, std::path::PathBuf)>,
        namespace: Option<String>,
        is_awaited: bool,
    ) -> PyResult<Self> {
        let plan = Plan {
            url,
            token,
            namespace,
            timeout: duration(py, timeout)?,
            tls: Tls {
                authorities: ca,
                certificate: cert,
            },
        };
        Ok(Self {
            opened: fork::Opened::new(plan.open(py)?),
            plan,
            is_awaited,
        })
    }

    fn check(&self, py: Python<'_>, asked: Asked<'_>) -> PyResult<Py<PyAny>> {
        let (client, request) = (self.client(py)?, asked.request()?);
        let verb = async move { client.check(&request).await };
        run(py, self.is_awaited, verb, answer)
    }

    fn check_many(&self, py: Python<'_>, asked: Vec<Asked<'_>>) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        let checks = asked.into_iter().map(Asked::request);
        let checks = checks.collect::<PyResult<Vec<_>>>()?;
        let verb = async move { client.check_many(&checks).await };
        run(py, self.is_awaited, verb, |py, answers| {
            let answers = answers.map_err(|error| raised(py, &error))?;
            let answers = answers.into_iter().map(|one| match one {
                Ok(one) => answer(py, Ok(one)),
                Err(error) => Ok(raised(py, &error).into_value(py).into_any()),
            });
            let answers = answers.collect::<PyResult<Vec<_>>>()?;
            Ok(answers.into_pyobject(py)?.unbind())
        })
    }

    fn peek(&self, py: Python<'_>, asked: Asked<'_>) -> PyResult<Py<PyAny>> {
        let (client, request) = (self.client(py)?, asked.request()?);
        let verb = async move { client.peek(&request).await };
        run(py, self.is_awaited, verb, answer)
    }

    fn debit(&self, py: Python<'_>, asked: Asked<'_>) -> PyResult<Py<PyAny>> {
        let (client, request) = (self.client(py)?, asked.request()?);
        let verb = async move { client.debit(&request).await };
        run(py, self.is_awaited, verb, answer)
    }

    fn forecast(&self, py: Python<'_>, asked: Asked<'_>) -> PyResult<Py<PyAny>> {
        let (client, request) = (self.client(py)?, asked.request()?);
        let verb = async move { client.forecast(&request).await };
        run(py, self.is_awaited, verb, |py, forecasts| {
            let forecasts = forecasts.map_err(|error| raised(py, &error))?;
            if !forecasts.members.is_empty() {
                return Err(invalid(py, "member is missing: the policy is a pool"));
            }
            let fit = PyDict::new(py);
            for (name, forecast) in forecasts.limits.iter() {
                fit.set_item(name, forecast.spendable)?;
            }
            Ok(fit.into_any().unbind())
        })
    }

    fn reset(&self, py: Python<'_>, policy: String, who: Who) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        let verb = async move { client.reset(policy, Key::from(who)).await };
        run(py, self.is_awaited, verb, |py, done| {
            done.map_err(|error| raised(py, &error))?;
            Ok(py.None())
        })
    }

    /// A request of the protocol as it is: at `path`, below it at each of `names`, with a body of
    /// JSON, and only if this version is there. Answers the JSON that comes.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of the Python functions above it"
    )]
    fn exchange(
        &self,
        py: Python<'_>,
        method: &str,
        path: &str,
        names: Vec<String>,
        query: Vec<(String, String)>,
        body: Option<String>,
        if_version: Option<u64>,
    ) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        let query: Vec<_> = query
            .iter()
            .map(|(name, said)| (&**name, &**said))
            .collect();
        let exchange = begun(py, method, path, body)?.query(&query);
        let exchange = names.iter().fold(exchange, |it, name| it.of(name));
        let exchange = match if_version {
            Some(version) => exchange.if_version(version),
            None => exchange,
        };
        let verb = async move {
            let reply = client.exchange(&exchange).await?;
            let text = reply.body.to_string();
            reply.done().map(|()| text)
        };
        run(py, self.is_awaited, verb, |py, told| {
            let text = told.map_err(|error: Error| raised(py, &error))?;
            let read = py.import("json")?.call_method1("loads", (text,))?;
            Ok(read.unbind())
        })
    }

    /// `least` by limit; `hold` in seconds.
    fn grant(
        &self,
        py: Python<'_>,
        asked: Asked<'_>,
        least: Option<Bound<'_, PyAny>>,
        hold: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let (client, mut request) = (self.client(py)?, asked.request()?);
        for (name, number) in quantities(least.as_ref())? {
            request = request.least(name, number);
        }
        if let Some(hold) = hold {
            request = request.hold(duration(py, hold)?);
        }
        let verb = async move { client.grant(&request).await };
        run(py, self.is_awaited, verb, |py, granted| {
            let granted = granted.map_err(|error| raised(py, &error))?;
            Ok(Py::new(py, ServerGrant::new(granted))?.into_any())
        })
    }

    fn return_grant(
        &self,
        py: Python<'_>,
        grant: &ServerGrant,
        used: Option<Bound<'_, PyAny>>,
        cost: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        let Some(lease) = grant.lease().cloned() else {
            return Err(exception(py, "LeaseEnded", ("nothing was granted",)));
        };
        let mut report = Report::new();
        for (name, number) in quantities(used.as_ref())? {
            report = report.used(name, number);
        }
        if let Some(cost) = cost {
            report = report.cost(quantity("cost", &cost)?);
        }
        let verb = async move { client.return_grant(&lease, report).await };
        carry_out(py, self.is_awaited, verb, |py, returned| {
            returned.map_err(|error| raised_of_lease(py, &error))?;
            Ok(py.None())
        })
    }

    /// `batch` by limit; `hold` and `idle` in seconds; `low_water` in hundredths.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of the Python class above it"
    )]
    fn spender(
        &self,
        py: Python<'_>,
        policy: String,
        who: Who,
        batch: Bound<'_, PyAny>,
        hold: Option<f64>,
        low_water: i64,
        idle: f64,
    ) -> PyResult<ServerSpender> {
        let client = self.client(py)?;
        let low_water = match u8::try_from(low_water) {
            Ok(hundredths) if hundredths <= 100 => hundredths,
            _ => {
                return Err(invalid(
                    py,
                    "low_water is from 0 to 100, in hundredths of a batch",
                ));
            }
        };
        let mut builder = client.spender(policy, Key::from(who)).low_water(low_water);
        for (name, number) in quantities(Some(&batch))? {
            builder = builder.batch(name, number);
        }
        if let Some(hold) = hold {
            builder = builder.hold(duration(py, hold)?);
        }
        let builder = builder.idle(duration(py, idle)?);
        ServerSpender::new(py, builder, self.is_awaited)
    }

    /// `timeout`: how many seconds it waits; `None`: it does not, and a refusal is an answer.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of the Python class above it"
    )]
    fn acquire(
        &self,
        py: Python<'_>,
        asked: Asked<'_>,
        timeout: Option<f64>,
        priority: i64,
        ttl: Option<f64>,
        wait_for_refunds: bool,
        idempotency_key: Option<String>,
    ) -> PyResult<Py<PyAny>> {
        let (client, waits) = (self.client(py)?, timeout.is_some());
        let within = request::within(py, timeout.or(Some(0.0)))?;
        let mut request = asked.request()?.within(within);
        request = request.priority(one_of_256(py, priority)?);
        if let Some(ttl) = ttl {
            request = request.ttl(duration(py, ttl)?);
        }
        if wait_for_refunds {
            request = request.wait_for_refunds();
        }
        if let Some(text) = idempotency_key {
            request = request.idempotency_key(text);
        }
        let runtime = runtime(py)?;
        let asked = client.clone();
        let verb = async move {
            let admission = asked.acquire(&request).await;
            admission.map(|admission| Untaken {
                admission: Some(admission),
                runtime,
            })
        };
        run(py, self.is_awaited, verb, move |py, untaken| {
            let untaken = untaken.map_err(|error| raised(py, &error))?;
            let admission = untaken.take().expect("it was put in just now");
            if let (Admission::Refused(answer), true) = (&admission, waits) {
                return Err(timed_out(py, answer));
            }
            Ok(Py::new(py, ServerLease::new(client, admission))?.into_any())
        })
    }
}

impl Server {
    /// In a forked child, made anew: its parent's connections are its parent's.
    fn client(&self, py: Python<'_>) -> PyResult<Client> {
        self.opened.get(|| self.plan.open(py))
    }
}

/// A request of the protocol with this body, if it has one.
fn begun(py: Python<'_>, method: &str, path: &str, body: Option<String>) -> PyResult<Exchange> {
    let wrong = |why: &dyn ToString| invalid(py, why.to_string());
    let json = body
        .as_deref()
        .map(serde_json::from_str::<serde_json::Value>);
    let json = json.transpose().map_err(|error| wrong(&error))?;
    Ok(match (method, json) {
        ("GET", None) => Exchange::get(path),
        // Asked twice, the second time it is not there any more.
        ("DELETE", None) => Exchange::delete(path).repeatable(false),
        ("PUT", Some(json)) => Exchange::put(path, "application/json", json.to_string()),
        ("POST", Some(json)) => Exchange::post(path, &json),
        ("PATCH", Some(json)) => Exchange::patch(path, &json),
        _ => return Err(wrong(&"an unknown method")),
    })
}

/// Who waits is granted or raises.
fn timed_out(py: Python<'_>, answer: &tidegate_client::Answer) -> PyErr {
    let (limit, retry_after) = (answer.binding.clone(), seconds(answer));
    let by = limit.as_ref().map(|limit| format!(" by limit {limit:?}"));
    let again = retry_after.map(|wait| format!("; retry after {wait} s"));
    let words = format!(
        "not granted in time{}{}",
        by.unwrap_or_default(),
        again.unwrap_or_default()
    );
    exception(py, "AcquireTimeout", (words, limit, retry_after))
}

/// Who or what is limited: by a key, or an entity by its id.
#[derive(FromPyObject)]
enum Who {
    Text(String),
    Bytes(Vec<u8>),
    Entity((String,)),
}

impl From<Who> for Key {
    fn from(who: Who) -> Self {
        match who {
            Who::Text(text) => text.into(),
            Who::Bytes(bytes) => Self::bytes(&bytes),
            Who::Entity((id,)) => Self::entity(id),
        }
    }
}

/// What is asked: of which policy, for whom, how much of which limit, and of all others, of
/// which member.
#[derive(FromPyObject)]
struct Asked<'py>(
    String,
    Who,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Option<String>,
);

impl Asked<'_> {
    fn request(self) -> PyResult<Request> {
        let Self(policy, who, requested, cost, member) = self;
        let mut request = Request::new(policy, Key::from(who));
        for (name, number) in quantities(requested.as_ref())? {
            request = request.amount(name, number);
        }
        if let Some(cost) = cost {
            request = request.cost(quantity("cost", &cost)?);
        }
        Ok(match member {
            Some(member) => request.member(member),
            None => request,
        })
    }
}
