//! The client of a server: each verb once, waited for on a thread or awaited.
//!
//! Connections and heartbeats are driven by one thread, which is started when the first verb of
//! a process is said.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt};
use tidegate::Unit;
use tidegate_client::{
    Adjustment, Admission, BuildError, Client, Error, Key, LeaseRef, Named, Quantity, Report,
    Request, Settlement, Tls,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::amount::amount;
use crate::awaiting::{Answer as Told, Awaitable};
use crate::blocking;
use crate::error::{exception, invalid};
use crate::fork;
use crate::limit::duration;
use crate::request::{self, one_of_256};

/// What drives connections, and the fork that it is of. That of a parent is left where it is:
/// its thread is not in the child.
static RUNTIME: Mutex<Option<(u64, &'static Runtime)>> = Mutex::new(None);

fn runtime(py: Python<'_>) -> PyResult<&'static Runtime> {
    let mut known = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((generation, runtime)) = *known
        && generation == fork::generation()
    {
        return Ok(runtime);
    }
    let mut builder = Builder::new_multi_thread();
    let made = builder
        .worker_threads(1)
        .thread_name("tidegate-client")
        .enable_all()
        .build();
    let made = made.map_err(|error| exception(py, "ServerUnavailable", (error.to_string(),)))?;
    let runtime: &'static Runtime = Box::leak(Box::new(made));
    *known = Some((fork::generation(), runtime));
    Ok(runtime)
}

/// Work on that thread; dropped, it is dropped, too, unless it is kept: then it goes on.
struct Driven<T> {
    task: JoinHandle<T>,
    is_kept: bool,
}

impl<T> Future for Driven<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let ended = Pin::new(&mut self.task).poll(context);
        ended.map(|ended| ended.expect("it neither panics nor is it aborted while it is awaited"))
    }
}

impl<T> Drop for Driven<T> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.task.abort();
        }
    }
}

/// Says a verb: awaited, or waited for here.
fn run<T: Send + 'static>(
    py: Python<'_>,
    is_awaited: bool,
    verb: impl Future<Output = T> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let runtime = runtime(py)?;
    let begin = move || Driven {
        task: runtime.spawn(verb),
        is_kept: false,
    };
    follow(py, is_awaited, begin, answer)
}

/// As [`run`]; once it is said it goes on, whoever gives up waiting for it.
fn carry_out<T: Send + 'static>(
    py: Python<'_>,
    is_awaited: bool,
    verb: impl Future<Output = T> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let task = runtime(py)?.spawn(verb);
    let begun = Driven {
        task,
        is_kept: true,
    };
    follow(py, is_awaited, move || begun, answer)
}

fn follow<T: Send + 'static>(
    py: Python<'_>,
    is_awaited: bool,
    begin: impl FnOnce() -> Driven<T> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    if !is_awaited {
        let done = blocking::wait(py, begin())?;
        return answer(py, done);
    }
    let awaitable = Awaitable::new(async move {
        let done = begin().await;
        let told: Told = Box::new(move |py| answer(py, done));
        told
    });
    Ok(Py::new(py, awaitable)?.into_any())
}

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
    #[pyo3(signature = (url, token, timeout, *, ca, cert, is_awaited))]
    fn new(
        py: Python<'_>,
        url: String,
        token: Option<String>,
        timeout: f64,
        ca: Option<std::path::PathBuf>,
        cert: Option<(std::path::PathBuf, std::path::PathBuf)>,
        is_awaited: bool,
    ) -> PyResult<Self> {
        let plan = Plan {
            url,
            token,
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
                return Err(invalid(py, "a pool: say which member is meant"));
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

/// What an error of the client is in Python.
fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let name = match error {
        Error::InvalidRequest(_) => "InvalidRequest",
        Error::Never(_) => "ImpossibleRequest",
        Error::Unauthorized(_) => "Unauthorized",
        Error::Forbidden(_) => "Forbidden",
        Error::NotFound(_) => "UnknownPolicy",
        Error::LeaseEnded(_) => "LeaseEnded",
        Error::Busy(_) => "QueueFull",
        Error::Full(_) => "CapacityFull",
        Error::Unavailable(_) => "StoreUnavailable",
        Error::Timeout { .. } => "ServerTimeout",
        _ => "ServerUnavailable",
    };
    exception(py, name, (error.to_string(),))
}

/// Of a lease that the server does not know: it has ended.
fn raised_of_lease(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::NotFound(_) => exception(py, "LeaseEnded", (error.to_string(),)),
        error => raised(py, error),
    }
}

/// Who or what is limited.
#[derive(FromPyObject)]
enum Who {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Who> for Key {
    fn from(who: Who) -> Self {
        match who {
            Who::Text(text) => text.into(),
            Who::Bytes(bytes) => Self::bytes(&bytes),
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

/// Amounts by limit.
fn quantities(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<(String, Quantity)>> {
    let given = given.map(request::dictionary).transpose()?;
    let amounts = given.into_iter().flatten().map(|(name, number)| {
        let name: String = name.extract()?;
        let number = quantity(&name, &number)?;
        Ok((name, number))
    });
    amounts.collect()
}

/// A number, as an amount of a limit whose unit the server knows.
fn quantity(limit: &str, number: &Bound<'_, PyAny>) -> PyResult<Quantity> {
    const FINEST: u8 = 9;
    let is_float = number.is_instance_of::<PyFloat>();
    if is_float && number.extract::<f64>()?.fract() != 0.0 {
        let parts = amount(limit, Unit::decimal(FINEST), number)?;
        let one = 10_u64.pow(FINEST.into());
        let written = format!("{}.{:09}", parts / one, parts % one);
        return Ok(Quantity::Decimal(written));
    }
    if is_float || number.is_instance_of::<PyInt>() {
        return Ok(Quantity::Whole(amount(limit, Unit::ONE, number)?));
    }
    // Of a `Decimal` without an exponent.
    let written = number.call_method1("__format__", ("f",));
    let text = match written {
        Ok(written) if !is_float => written.str()?,
        _ => number.str()?,
    };
    let parsed = text.to_cow()?.parse::<Quantity>();
    parsed.map_err(|why| invalid(number.py(), format!("the amount of {limit:?}: {why}")))
}

/// An amount as Python shows it: an `int` where it is whole, else a `float`.
fn number(py: Python<'_>, quantity: &Quantity) -> PyResult<Py<PyAny>> {
    Ok(match quantity {
        Quantity::Whole(whole) => whole.into_pyobject(py)?.into_any().unbind(),
        Quantity::Decimal(text) => {
            let number: f64 = text.parse().unwrap_or(f64::NAN);
            number.into_pyobject(py)?.into_any().unbind()
        }
    })
}

/// In how many seconds it would be admitted.
fn seconds(answer: &tidegate_client::Answer) -> Option<f64> {
    answer.retry_after.map(|wait| wait.as_secs_f64())
}

fn answer(py: Python<'_>, told: Result<tidegate_client::Answer, Error>) -> PyResult<Py<PyAny>> {
    let told = told.map_err(|error| raised(py, &error))?;
    Ok(Py::new(py, Answer(told))?.into_any())
}

fn remaining<'py>(
    py: Python<'py>,
    answer: &tidegate_client::Answer,
) -> PyResult<Bound<'py, PyDict>> {
    let remaining = PyDict::new(py);
    for (name, standing) in answer.limits.iter() {
        remaining.set_item(name, number(py, &standing.remaining)?)?;
    }
    Ok(remaining)
}

/// May it start? A refusal is false.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Answer(tidegate_client::Answer);

#[pymethods]
impl Answer {
    const fn __bool__(&self) -> bool {
        self.0.admitted
    }

    #[getter]
    const fn admitted(&self) -> bool {
        self.0.admitted
    }

    #[getter]
    fn limit(&self) -> Option<&str> {
        self.0.binding.as_deref()
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        seconds(&self.0)
    }

    #[getter]
    const fn degraded(&self) -> bool {
        self.0.degraded
    }

    #[getter]
    const fn shadowed(&self) -> bool {
        self.0.shadowed
    }

    #[getter]
    fn level(&self) -> Option<&str> {
        self.0.level.as_deref()
    }

    #[getter]
    fn member(&self) -> Option<&str> {
        self.0.member.as_deref()
    }

    #[getter]
    fn remaining<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        remaining(py, &self.0)
    }

    #[getter]
    fn debt<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let debt = PyDict::new(py);
        for (name, standing) in self.0.limits.iter() {
            debt.set_item(name, number(py, &standing.debt)?)?;
        }
        Ok(debt)
    }

    fn __repr__(&self) -> String {
        match (self.0.admitted, &self.0.binding) {
            (true, _) => "<Answer: admitted>".to_owned(),
            (false, Some(limit)) => format!("<Answer: refused by {limit:?}>"),
            (false, None) => "<Answer: refused>".to_owned(),
        }
    }
}

/// What a server granted, until it ends; or what it refused, which holds nothing and is false.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct ServerLease {
    answer: tidegate_client::Answer,
    fence: u64,
    metadata: Named<String>,
    /// A forked child has none of its parent's.
    lease: fork::Own<Mutex<Option<tidegate_client::Lease>>>,
    client: fork::Own<Client>,
    /// How it is being ended, until the server has said that it has.
    ending: Arc<Mutex<Option<Ending>>>,
    reclaimed: Mutex<Vec<(String, Quantity, Quantity)>>,
    was_held: AtomicBool,
}

impl ServerLease {
    fn new(client: Client, admission: Admission) -> Self {
        let answer = admission.answer().clone();
        let lease = admission.lease();
        Self {
            answer,
            fence: lease.as_ref().map_or(0, tidegate_client::Lease::fence),
            metadata: lease
                .as_ref()
                .map_or_else(Named::default, |lease| lease.metadata().clone()),
            was_held: AtomicBool::new(lease.is_some()),
            lease: fork::Own::new(Mutex::new(lease)),
            client: fork::Own::new(client),
            ending: Arc::default(),
            reclaimed: Mutex::default(),
        }
    }

    fn lease(&self) -> Option<MutexGuard<'_, Option<tidegate_client::Lease>>> {
        Some(locked(self.lease.get()?))
    }

    fn has_lease(&self) -> bool {
        self.lease().is_some_and(|lease| lease.is_some())
    }

    /// Whether an end was said that the server has not answered.
    fn is_ending(&self) -> bool {
        self.lease.get().is_some() && locked(&self.ending).is_some()
    }

    fn ended(&self, py: Python<'_>) -> PyErr {
        let why = match (self.answer.admitted, self.was_held.load(Ordering::Relaxed)) {
            (true, false) => "it was admitted while the server's store is away: nothing is held",
            (true, true) => "it has ended; acquire again",
            (false, _) => "nothing was acquired",
        };
        exception(py, "LeaseEnded", (why,))
    }

    /// Ends it; one that has ended stays so. An end that the server has not answered is said
    /// again: as it was said before, unless `how` says it otherwise.
    fn end(
        slf: &Bound<'_, Self>,
        is_awaited: bool,
        how: How,
        is_quiet: bool,
        told: Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let (py, own) = (slf.py(), slf.clone().unbind());
        let this = slf.get();
        let begun = match this.lease().and_then(|mut lease| lease.take()) {
            Some(lease) => {
                let of = lease.lease_ref().clone();
                Some((Some(lease), Ending { of, how }))
            }
            None if this.is_ending() => {
                let before = locked(&this.ending).clone();
                before.map(|before| (None, before.said_as(how)))
            }
            None => None,
        };
        let (client, unanswered) = (this.client.get().cloned(), Arc::clone(&this.ending));
        if let Some((_, ending)) = &begun {
            *locked(&unanswered) = Some(ending.clone());
        }
        let verb = async move {
            let (lease, ending) = begun?;
            // Renewed no more; whoever says it again has no lease to end.
            drop(lease.map(tidegate_client::Lease::detach));
            let ended = ending.clone().carry_out(&client?).await;
            let again = ended.as_ref().err();
            *locked(&unanswered) = again.and_then(|error| ending.after(error));
            Some(ended)
        };
        carry_out(py, is_awaited, verb, move |py, ended| {
            match ended {
                Some(Ok(settlement)) => own.get().note(&settlement),
                Some(Err(error)) if !is_quiet => return Err(raised_of_lease(py, &error)),
                Some(Err(_)) | None => {}
            }
            Ok(told)
        })
    }

    fn note(&self, settlement: &Settlement) {
        let limits = settlement.limits.iter();
        let usages =
            limits.map(|(name, usage)| (name.to_owned(), usage.taken.clone(), usage.used.clone()));
        *locked(&self.reclaimed) = usages.collect();
    }

    fn settle_as(
        slf: &Bound<'_, Self>,
        is_awaited: bool,
        (usage, cost): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
        (outcome, cool_down): (&str, Option<f64>),
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let report = report(py, (usage, cost), (outcome, cool_down))?;
        let this = slf.get();
        if !this.has_lease() && !this.is_ending() && !this.answer.degraded {
            return Err(slf.get().ended(py));
        }
        Self::end(slf, is_awaited, How::Settle(report), false, py.None())
    }

    fn adjust_as(
        slf: &Bound<'_, Self>,
        is_awaited: bool,
        requested: &Bound<'_, PyAny>,
        overdraw: bool,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let mut to = Adjustment::new();
        for (name, number) in quantities(Some(requested))? {
            to = to.amount(name, number);
        }
        if overdraw {
            to = to.overdraw();
        }
        let lease = slf.get().lease();
        let adjusted = lease.and_then(|lease| lease.as_ref().map(|lease| lease.adjust(to)));
        let adjusted = adjusted.ok_or_else(|| slf.get().ended(py))?;
        run(py, is_awaited, adjusted, |py, answer| {
            let answer = answer.map_err(|error| raised_of_lease(py, &error))?;
            Ok(PyBool::new(py, answer.admitted)
                .to_owned()
                .into_any()
                .unbind())
        })
    }

    fn exit(
        slf: &Bound<'_, Self>,
        is_awaited: bool,
        kind: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let has_failed = !kind.is_none();
        let outcome = match has_failed {
            true => tidegate::Outcome::Ignored,
            false => tidegate::Outcome::Succeeded,
        };
        let how = How::Leave(Report::new().outcome(outcome));
        let no = PyBool::new(slf.py(), false).to_owned().into_any().unbind();
        // The body's own exception comes first.
        Self::end(slf, is_awaited, how, has_failed, no)
    }
}

/// How it ends.
#[derive(Clone)]
enum How {
    Settle(Report),
    /// By the end of a `with`, unless its holder has said otherwise.
    Leave(Report),
    Cancel,
}

/// The end of a lease, until the server has answered it.
#[derive(Clone)]
struct Ending {
    of: LeaseRef,
    how: How,
}

impl Ending {
    /// The same end, or another that its holder says in its place.
    fn said_as(self, how: How) -> Self {
        match (&self.how, how) {
            (How::Settle(_) | How::Cancel, How::Leave(_)) => self,
            (_, how) => Self { how, ..self },
        }
    }

    /// What may still be said after this error. What makes no sense is not said again.
    fn after(self, error: &Error) -> Option<Self> {
        match error {
            Error::NotFound(_) | Error::LeaseEnded(_) => None,
            Error::InvalidRequest(_) | Error::Never(_) => {
                let how = How::Leave(Report::new());
                Some(Self { how, ..self })
            }
            _ => Some(self),
        }
    }

    async fn carry_out(self, client: &Client) -> Result<Settlement, Error> {
        match self.how {
            How::Settle(report) | How::Leave(report) => client.settle(&self.of, report).await,
            How::Cancel => client.cancel(&self.of, Report::new()).await,
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report(
    py: Python<'_>,
    (usage, cost): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>),
    (outcome, cool_down): (&str, Option<f64>),
) -> PyResult<Report> {
    let mut report = Report::new().outcome(match outcome {
        "succeeded" => tidegate::Outcome::Succeeded,
        "ignored" => tidegate::Outcome::Ignored,
        "dropped" => tidegate::Outcome::Dropped,
        other => {
            let words = format!("an outcome is succeeded, ignored or dropped, not {other:?}");
            return Err(invalid(py, words));
        }
    });
    for (name, used) in quantities(usage)? {
        report = report.used(name, used);
    }
    if let Some(cost) = cost {
        report = report.cost(quantity("cost", cost)?);
    }
    Ok(match cool_down {
        Some(seconds) => report.cool_down(duration(py, seconds)?),
        None => report,
    })
}

/// What came back of what was taken, if anything did.
fn difference(taken: &Quantity, used: &Quantity) -> Option<Quantity> {
    let parts = |quantity: &Quantity| Unit::decimal(9).parse(&quantity.to_string()).ok();
    match (taken, used) {
        (Quantity::Whole(taken), Quantity::Whole(used)) => {
            (taken > used).then(|| Quantity::Whole(taken - used))
        }
        _ => {
            let back = parts(taken)?.checked_sub(parts(used)?)?;
            let one = 1_000_000_000;
            (back > 0).then(|| Quantity::Decimal(format!("{}.{:09}", back / one, back % one)))
        }
    }
}

#[pymethods]
impl ServerLease {
    const fn __bool__(&self) -> bool {
        self.answer.admitted
    }

    #[getter]
    const fn successful(&self) -> bool {
        self.answer.admitted
    }

    #[getter]
    fn is_held(&self) -> bool {
        let lease = self.lease();
        lease.is_some_and(|lease| lease.as_ref().is_some_and(tidegate_client::Lease::is_held))
    }

    #[getter]
    const fn fence(&self) -> u64 {
        self.fence
    }

    #[getter]
    fn member(&self) -> Option<&str> {
        self.answer.member.as_deref()
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        for (name, word) in self.metadata.iter() {
            metadata.set_item(name, word)?;
        }
        Ok(metadata)
    }

    #[getter]
    fn limit(&self) -> Option<&str> {
        self.answer.binding.as_deref()
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        seconds(&self.answer)
    }

    #[getter]
    const fn degraded(&self) -> bool {
        self.answer.degraded
    }

    #[getter]
    fn remaining<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        remaining(py, &self.answer)
    }

    #[getter]
    fn reclaimed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let reclaimed = PyDict::new(py);
        let noted = locked(&self.reclaimed);
        for (name, taken, used) in noted.iter() {
            if let Some(back) = difference(taken, used) {
                reclaimed.set_item(name, number(py, &back)?)?;
            }
        }
        Ok(reclaimed)
    }

    #[pyo3(signature = (usage=None, *, cost=None, outcome="succeeded", cool_down=None))]
    fn settle(
        slf: &Bound<'_, Self>,
        usage: Option<&Bound<'_, PyAny>>,
        cost: Option<&Bound<'_, PyAny>>,
        outcome: &str,
        cool_down: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        Self::settle_as(slf, false, (usage, cost), (outcome, cool_down))
    }

    #[pyo3(signature = (usage=None, *, cost=None, outcome="succeeded", cool_down=None))]
    fn async_settle(
        slf: &Bound<'_, Self>,
        usage: Option<&Bound<'_, PyAny>>,
        cost: Option<&Bound<'_, PyAny>>,
        outcome: &str,
        cool_down: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        Self::settle_as(slf, true, (usage, cost), (outcome, cool_down))
    }

    #[pyo3(signature = (requested, *, overdraw=false))]
    fn adjust(
        slf: &Bound<'_, Self>,
        requested: &Bound<'_, PyAny>,
        overdraw: bool,
    ) -> PyResult<Py<PyAny>> {
        Self::adjust_as(slf, false, requested, overdraw)
    }

    #[pyo3(signature = (requested, *, overdraw=false))]
    fn async_adjust(
        slf: &Bound<'_, Self>,
        requested: &Bound<'_, PyAny>,
        overdraw: bool,
    ) -> PyResult<Py<PyAny>> {
        Self::adjust_as(slf, true, requested, overdraw)
    }

    fn release(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::end(
            slf,
            false,
            How::Settle(Report::new()),
            false,
            slf.py().None(),
        )
    }

    fn async_release(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::end(
            slf,
            true,
            How::Settle(Report::new()),
            false,
            slf.py().None(),
        )
    }

    fn cancel(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::end(slf, false, How::Cancel, false, slf.py().None())
    }

    fn async_cancel(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::end(slf, true, How::Cancel, false, slf.py().None())
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        Self::exit(slf, false, kind)
    }

    fn __aenter__(slf: Py<Self>) -> Awaitable {
        let told: Told = Box::new(move |_| Ok(slf.into_any()));
        Awaitable::new(std::future::ready(told))
    }

    fn __aexit__(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        Self::exit(slf, true, kind)
    }

    fn __repr__(&self) -> String {
        match (self.answer.admitted, self.has_lease(), &self.answer.binding) {
            (true, true, _) => "<Lease: held>".to_owned(),
            (true, false, _) if self.answer.degraded => "<Lease: degraded>".to_owned(),
            (true, false, _) => "<Lease: ended>".to_owned(),
            (false, _, Some(limit)) => format!("<Lease: refused by {limit:?}>"),
            (false, _, None) => "<Lease: refused>".to_owned(),
        }
    }
}
