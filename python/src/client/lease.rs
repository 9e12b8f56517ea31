//! What a server granted, until it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use tidegate::Unit;
use tidegate_client::{
    Adjustment, Admission, Client, Error, LeaseRef, Named, Quantity, Report, Settlement,
};

use super::answer::remaining;
use super::driving::{carry_out, run};
use super::words::{number, quantities, quantity, raised_of_lease, seconds};
use crate::awaiting::{Answer as Told, Awaitable};
use crate::error::{exception, invalid};
use crate::fork;
use crate::limit::duration;

/// What a server granted, until it ends; or what it refused, which holds nothing and is false.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct ServerLease {
    answer: tidegate_client::Answer,
    fence: Option<u64>,
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
    pub(super) fn new(client: Client, admission: Admission) -> Self {
        let answer = admission.answer().clone();
        let lease = admission.lease();
        Self {
            answer,
            fence: lease.as_ref().and_then(tidegate_client::Lease::fence),
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
            (true, false) => {
                "it was admitted while the server's store did not answer: nothing is held"
            }
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

    fn renew_as(slf: &Bound<'_, Self>, is_awaited: bool, ttl: f64) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let ttl = duration(py, ttl)?;
        if ttl.is_zero() {
            return Err(invalid(py, "a lease is renewed for 0.001 seconds or more"));
        }
        let lease = slf.get().lease();
        let renewed = lease.and_then(|lease| lease.as_ref().map(|lease| lease.renew(ttl)));
        let renewed = renewed.ok_or_else(|| slf.get().ended(py))?;
        run(py, is_awaited, renewed, |py, done| {
            done.map_err(|error| raised_of_lease(py, &error))?;
            Ok(py.None())
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
    const fn fence(&self) -> Option<u64> {
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

    fn renew(slf: &Bound<'_, Self>, ttl: f64) -> PyResult<Py<PyAny>> {
        Self::renew_as(slf, false, ttl)
    }

    fn async_renew(slf: &Bound<'_, Self>, ttl: f64) -> PyResult<Py<PyAny>> {
        Self::renew_as(slf, true, ttl)
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
            (true, true, _) => "<ServerLease: held>".to_owned(),
            (true, false, _) if self.answer.degraded => "<ServerLease: degraded>".to_owned(),
            (true, false, _) => "<ServerLease: ended>".to_owned(),
            (false, _, Some(limit)) => format!("<ServerLease: refused by {limit:?}>"),
            (false, _, None) => "<ServerLease: refused>".to_owned(),
        }
    }
}
