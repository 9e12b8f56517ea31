//! What was granted, until it ends; or what was refused, which holds nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use smallvec::SmallVec;
use tidegate::{
    Admission, Decision, Error, Lease, LeaseError, LeaseId, LimitSet, Request, Settlement,
};

use crate::amount::number;
use crate::awaiting::{Answer, Awaitable};
use crate::blocking;
use crate::error::{exception, raised};
use crate::fork;
use crate::holding::{self, Ending, Holding};
use crate::limit::duration;
use crate::limiter::Limiter;
use crate::plan::Target;
use crate::request::{Amounts, Names};
use crate::untaken::Untaken;

/// What was reported of an acquisition, and what came back at its end.
#[derive(Default)]
struct State {
    /// What is taken, by position.
    taken: Amounts,
    usage: Amounts,
    reclaimed: Vec<(String, u64)>,
}

/// In how many seconds a request would be granted. Of what is held nobody can tell.
fn retry_after(decision: &Decision, names: &Names) -> Option<f64> {
    let is_held = decision.binding().is_some_and(|limit| names.is_held(limit));
    match is_held {
        true => None,
        false => Some(decision.retry_after()?.as_secs_f64()),
    }
}

/// More than a limit ever grants.
fn impossible(py: Python<'_>, decision: &Decision, names: &Names) -> PyErr {
    let limit = decision.binding();
    let capacity = decision.most_at_once().zip(limit);
    let capacity = capacity.and_then(|(most, name)| number(py, names.unit(name)?, most).ok());
    let words = match (limit, &capacity) {
        (Some(limit), Some(most)) => {
            format!("limit {limit:?} never grants more than {most} at once")
        }
        _ => "it is more than a limit ever grants".to_owned(),
    };
    exception(py, "ImpossibleRequest", (words, limit, capacity))
}

fn timed_out(py: Python<'_>, decision: &Decision, names: &Names) -> PyErr {
    let (limit, again) = (decision.binding(), retry_after(decision, names));
    let by = limit.map(|limit| format!(" by limit {limit:?}"));
    let then = again.map(|wait| format!("; retry after {wait} s"));
    let words = [
        "not granted in time",
        &by.unwrap_or_default(),
        &then.unwrap_or_default(),
    ];
    exception(py, "AcquireTimeout", (words.concat(), limit, again))
}

/// What was granted, until it ends; or what was refused, which holds nothing and is false.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Acquisition {
    owner: Py<Limiter>,
    /// What was decided, as it was granted or refused.
    decision: Option<Box<Decision>>,
    member: Option<String>,
    fence: Option<u64>,
    successful: bool,
    degraded: bool,
    /// Verbs on it come one after the other.
    lease: fork::Own<tidegate::Mutex<Option<Box<Lease>>>>,
    /// By what it is ended where one of them is under way.
    by_id: Option<ById>,
    is_held: AtomicBool,
    state: Mutex<State>,
    /// In which threads' event loops verbs on it are awaited, one for each.
    awaited: Mutex<Vec<ThreadId>>,
}

/// What names a lease in its set.
struct ById {
    set: LimitSet,
    key: Box<[u8]>,
    id: LeaseId,
}

impl ById {
    fn of(target: &Target, lease: &Lease) -> Option<Self> {
        let set = match (target, lease.source()) {
            (Target::Set(set), _) => set,
            (Target::Pool(_), Some(member)) => member.set(),
            (Target::Pool(_), None) => return None,
        };
        Some(Self {
            set: set.clone(),
            key: lease.key().into(),
            id: lease.id(),
        })
    }

    async fn end(&self, how: Ending, usage: &[(&str, u64)]) -> Result<Settlement, LeaseError> {
        match how {
            Ending::Cancelled => self.set.cancel(&*self.key, self.id).await,
            _ if usage.is_empty() => self.set.release(&*self.key, self.id).await,
            _ => {
                let used = Request::named(usage);
                self.set.settle(&*self.key, self.id, used).await
            }
        }
    }
}

/// A verb that is awaited in this thread's event loop, until it is dropped.
struct Awaited<'a>(&'a Mutex<Vec<ThreadId>>, ThreadId);

impl<'a> Awaited<'a> {
    fn new(by: &'a Mutex<Vec<ThreadId>>) -> Self {
        let here = thread::current().id();
        locked(by).push(here);
        Self(by, here)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let mut threads = locked(self.0);
        if let Some(at) = threads.iter().position(|thread| *thread == self.1) {
            threads.swap_remove(at);
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Acquisition {
    /// What was answered, in Python's words.
    ///
    /// # Errors
    /// What the library says; `ImpossibleRequest`; of one that `waits`, a refusal.
    pub(crate) fn new(
        owner: &Bound<'_, Limiter>,
        (target, taken): (&Target, Amounts),
        untaken: Result<Untaken, Error>,
        waits: bool,
    ) -> PyResult<Self> {
        let py = owner.py();
        let untaken = untaken.map_err(|error| raised(py, &error))?;
        let (refusal, lease) = match untaken.take() {
            Admission::Granted(lease) => (None, Some(Box::new(lease))),
            Admission::Refused(decision) => {
                let names = owner.get().names()?;
                if decision.is_never() {
                    return Err(impossible(py, &decision, names));
                }
                if waits {
                    return Err(timed_out(py, &decision, names));
                }
                (Some(Box::new(decision)), None)
            }
        };
        let member = match &lease {
            Some(lease) => lease.member(),
            None => refusal.as_deref().and_then(Decision::member),
        };
        let member = member.map(str::to_owned);
        let decision = match &lease {
            Some(lease) => lease.decision().cloned().map(Box::new),
            None => refusal,
        };
        Ok(Self {
            owner: owner.clone().unbind(),
            member,
            successful: lease.is_some(),
            degraded: decision.as_deref().is_some_and(Decision::degraded),
            fence: lease.as_ref().and_then(|lease| lease.fence()),
            is_held: AtomicBool::new(lease.is_some()),
            by_id: lease.as_ref().and_then(|lease| ById::of(target, lease)),
            lease: fork::Own::new(tidegate::Mutex::new(lease)),
            state: Mutex::new(State {
                taken,
                ..State::default()
            }),
            awaited: Mutex::default(),
            decision,
        })
    }

    fn names(&self) -> PyResult<&Names> {
        self.owner.get().names()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// What was decided, if it was refused.
    fn refusal(&self) -> Option<&Decision> {
        self.decision.as_deref().filter(|_| !self.successful)
    }

    /// Whether a verb on it is awaited in this thread's event loop: it does not go on while this
    /// thread waits.
    fn is_awaited_here(&self) -> bool {
        locked(&self.awaited).contains(&thread::current().id())
    }

    fn ended(&self, py: Python<'_>) -> PyErr {
        let why = match self.successful {
            true => "the acquisition has ended; acquire again",
            false => "nothing was acquired",
        };
        exception(py, "LeaseEnded", (why,))
    }
}

/// How a lease has ended, and the rate of which nothing was reported though it is to be.
pub(crate) struct Ended {
    settlement: Option<Result<Settlement, LeaseError>>,
    unreported: Option<String>,
}

/// An end that has begun: nobody else ends it any more.
struct End {
    how: Ending,
    usage: Amounts,
    unreported: Option<String>,
}

impl End {
    /// What is said to have been used.
    fn used<'n>(&self, names: &'n Names) -> SmallVec<[(&'n str, u64); 4]> {
        let mut used = names.named(&self.usage);
        if self.how == Ending::Failed {
            used.extend(names.refunded(&used));
        }
        used
    }

    fn with(self, settlement: Result<Settlement, LeaseError>) -> Ended {
        Ended {
            settlement: Some(settlement),
            unreported: self.unreported,
        }
    }
}

impl Acquisition {
    /// From here on it is not held. `None`: it was not.
    fn begin_end(&self, how: Ending) -> Option<End> {
        let names = self.names().ok()?;
        if !self.is_held.swap(false, Ordering::SeqCst) {
            return None;
        }
        let mut state = self.state();
        let usage = std::mem::take(&mut state.usage);
        let unreported = names.unreported(&state.taken, &usage);
        let unreported = unreported
            .filter(|_| how == Ending::Done)
            .map(str::to_owned);
        Some(End {
            how,
            usage,
            unreported,
        })
    }

    /// Ends the lease, which this has to itself: given up before it begins, it changes nothing.
    async fn ended_with(&self, held: &mut Option<Box<Lease>>, how: Ending) -> Option<Ended> {
        let end = self.begin_end(how)?;
        let used = end.used(self.names().ok()?);
        // Dropped amid its end, or failed, it is given back.
        let mut lease = held.take()?;
        let settlement = settle(&mut lease, how, &used).await;
        Some(end.with(settlement))
    }
}

impl Holding for Acquisition {
    type Ended = Ended;

    async fn end(&self, how: Ending) -> Option<Ended> {
        let lease = self.lease.get()?;
        let _awaited = Awaited::new(&self.awaited);
        let mut held = lease.lock().await;
        self.ended_with(&mut held, how).await
    }

    async fn end_here(&self, how: Ending) -> Option<Ended> {
        let lease = self.lease.get()?;
        if let Some(mut held) = lease.try_lock() {
            return self.ended_with(&mut held, how).await;
        }
        if let (true, Some(by_id)) = (self.is_awaited_here(), &self.by_id) {
            let end = self.begin_end(how)?;
            let settlement = by_id.end(how, &end.used(self.names().ok()?)).await;
            return Some(end.with(settlement));
        }
        let mut held = lease.lock().await;
        self.ended_with(&mut held, how).await
    }

    /// Notes how it ended.
    fn told(&self, py: Python<'_>, ended: Ended) -> PyResult<()> {
        if let Some(name) = ended.unreported {
            let words = format!("how much of {name:?} was used? call update(usage={{...}})");
            return Err(exception(py, "UnreportedUsage", (words,)));
        }
        let Some(settlement) = ended.settlement else {
            return Ok(());
        };
        let settlement = settlement.map_err(|error| raised(py, &error.into()))?;
        let usages = settlement.usages();
        let back = usages.filter(|(_, usage)| usage.taken > usage.used);
        let back = back.map(|(name, usage)| (name.to_owned(), usage.taken - usage.used));
        self.state().reclaimed = back.collect();
        Ok(())
    }
}

async fn settle(
    lease: &mut Lease,
    how: Ending,
    usage: &[(&str, u64)],
) -> Result<Settlement, LeaseError> {
    if how == Ending::Failed {
        lease.fail();
    }
    match how {
        Ending::Cancelled => lease.cancel().await,
        _ if usage.is_empty() => lease.release().await,
        _ => lease.settle(Request::named(usage)).await,
    }
}

/// A change of a lease that goes on.
enum Change {
    Adjust { to: Amounts, overdraw: bool },
    Renew(Duration),
}

impl Change {
    /// Whether it was admitted; `None`: the lease has ended.
    async fn run(&self, lease: &mut Lease, names: &Names) -> Result<bool, LeaseError> {
        match self {
            Self::Adjust { to, overdraw } => {
                let to = names.named(to);
                let request = Request::named(&to);
                let changed = match overdraw {
                    true => lease.overdraw(request).await,
                    false => lease.adjust(request).await,
                };
                changed.map(|decision| decision.admitted())
            }
            Self::Renew(ttl) => lease.renew(*ttl).await.map(|_| true),
        }
    }

    /// What Python is told of it.
    fn answer(&self, py: Python<'_>, is_admitted: bool) -> Py<PyAny> {
        match self {
            Self::Adjust { .. } => PyBool::new(py, is_admitted).to_owned().into_any().unbind(),
            Self::Renew(_) => py.None(),
        }
    }
}

/// A lease that is being changed. One that was [ended by its id](ById) meanwhile is let go of when
/// the change is over, or given up.
struct Changing<'a> {
    lease: tidegate::MutexGuard<Option<Box<Lease>>, &'a tidegate::Mutex<Option<Box<Lease>>>>,
    is_held: &'a AtomicBool,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if !self.is_held.load(Ordering::SeqCst) {
            self.lease.take();
        }
    }
}

impl Acquisition {
    fn adjustment(&self, requested: &Bound<'_, PyAny>, overdraw: bool) -> PyResult<Change> {
        let to = self.names()?.amounts(Some(requested))?;
        Ok(Change::Adjust { to, overdraw })
    }

    /// `None`: it has ended, or is another process's.
    async fn changed(&self, change: &Change) -> Option<Result<bool, LeaseError>> {
        let mut changing = Changing {
            lease: self.lease.get()?.lock().await,
            is_held: &self.is_held,
        };
        if !self.is_held.load(Ordering::SeqCst) {
            return None;
        }
        let lease = changing.lease.as_mut()?;
        let changed = change.run(lease, self.names().ok()?).await;
        if let (Change::Adjust { to, .. }, Ok(true)) = (change, &changed) {
            self.state().taken.update(to.clone());
        }
        Some(changed)
    }

    fn changed_so(
        &self,
        py: Python<'_>,
        change: &Change,
        changed: Option<Result<bool, LeaseError>>,
    ) -> PyResult<Py<PyAny>> {
        let changed = changed.ok_or_else(|| self.ended(py))?;
        let is_admitted = changed.map_err(|error| raised(py, &error.into()))?;
        Ok(change.answer(py, is_admitted))
    }

    fn change(&self, py: Python<'_>, change: &Change) -> PyResult<Py<PyAny>> {
        if self.is_awaited_here() {
            let words = "a verb on this acquisition is awaited in this event loop, which would wait for \
                         itself; await this one, too (async_adjust, async_renew)";
            return Err(PyRuntimeError::new_err(words));
        }
        let changed = blocking::wait(py, self.changed(change))?;
        self.changed_so(py, change, changed)
    }

    fn change_later(slf: &Bound<'_, Self>, change: Change) -> Awaitable {
        let own = slf.clone().unbind();
        Awaitable::new(async move {
            let changed = {
                let _awaited = Awaited::new(&own.get().awaited);
                own.get().changed(&change).await
            };
            let answer: Answer = Box::new(move |py| own.get().changed_so(py, &change, changed));
            answer
        })
    }
}

#[pymethods]
impl Acquisition {
    #[getter]
    const fn successful(&self) -> bool {
        self.successful
    }

    const fn __bool__(&self) -> bool {
        self.successful
    }

    #[getter]
    fn config(&self, py: Python<'_>) -> Py<PyAny> {
        self.owner.get().config(py, self.member.as_deref())
    }

    #[getter]
    fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    #[getter]
    const fn fence(&self) -> Option<u64> {
        self.fence
    }

    #[getter]
    fn limit(&self) -> Option<&str> {
        self.refusal()?.binding()
    }

    #[getter]
    const fn degraded(&self) -> bool {
        self.degraded
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        retry_after(self.refusal()?, self.names().ok()?)
    }

    #[getter]
    fn remaining<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (remaining, names) = (PyDict::new(py), self.names()?);
        for (name, standing) in self
            .decision
            .iter()
            .flat_map(|decision| decision.standings())
        {
            let unit = names.unit(name).unwrap_or_default();
            remaining.set_item(name, number(py, unit, standing.remaining)?)?;
        }
        for name in names.infinite() {
            remaining.set_item(name, f64::INFINITY)?;
        }
        Ok(remaining)
    }

    #[getter]
    fn reclaimed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (reclaimed, names) = (PyDict::new(py), self.names()?);
        for (name, amount) in &self.state().reclaimed {
            let unit = names.unit(name).unwrap_or_default();
            reclaimed.set_item(name, number(py, unit, *amount)?)?;
        }
        Ok(reclaimed)
    }

    /// Reports what was really used: charged at the end in place of what was taken.
    fn update(&self, py: Python<'_>, usage: &Bound<'_, PyAny>) -> PyResult<()> {
        let usage = self.names()?.amounts(Some(usage))?;
        if !self.is_held.load(Ordering::SeqCst) {
            return Err(self.ended(py));
        }
        self.state().usage.update(usage);
        Ok(())
    }

    /// Changes how much is taken; `False` if more does not fit.
    #[pyo3(signature = (requested, *, overdraw=false))]
    fn adjust(
        &self,
        py: Python<'_>,
        requested: &Bound<'_, PyAny>,
        overdraw: bool,
    ) -> PyResult<Py<PyAny>> {
        self.change(py, &self.adjustment(requested, overdraw)?)
    }

    #[pyo3(signature = (requested, *, overdraw=false))]
    fn async_adjust(
        slf: &Bound<'_, Self>,
        requested: &Bound<'_, PyAny>,
        overdraw: bool,
    ) -> PyResult<Awaitable> {
        let change = slf.get().adjustment(requested, overdraw)?;
        Ok(Self::change_later(slf, change))
    }

    /// Holds it for `ttl` seconds from now on.
    fn renew(&self, py: Python<'_>, ttl: f64) -> PyResult<Py<PyAny>> {
        self.change(py, &Change::Renew(duration(py, ttl)?))
    }

    fn async_renew(slf: &Bound<'_, Self>, ttl: f64) -> PyResult<Awaitable> {
        let change = Change::Renew(duration(slf.py(), ttl)?);
        Ok(Self::change_later(slf, change))
    }

    /// Ends it: what is held comes back, and what was reported is charged.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        holding::end(py, self, Ending::Done)
    }

    /// Ends it and gives everything back: the work did not start.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        holding::end(py, self, Ending::Cancelled)
    }

    fn async_release(slf: Py<Self>) -> Awaitable {
        holding::end_later(slf, Ending::Done)
    }

    fn async_cancel(slf: Py<Self>) -> Awaitable {
        holding::end_later(slf, Ending::Cancelled)
    }

    const fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        holding::exit(self, kind)
    }

    fn __aenter__(slf: Py<Self>) -> Awaitable {
        holding::enter_later(slf)
    }

    fn __aexit__(
        slf: Py<Self>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Awaitable {
        holding::exit_later(slf, kind)
    }

    /// A config may refer to what was acquired with it.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut words = match (self.successful, self.is_held.load(Ordering::SeqCst)) {
            (true, true) => "held".to_owned(),
            (true, false) => "ended".to_owned(),
            (false, _) => "refused".to_owned(),
        };
        let names = self.names()?;
        let taken = names.named(&self.state().taken);
        for (name, amount) in taken {
            let unit = names.unit(name).unwrap_or_default();
            words += &format!(", {name} {}", number(py, unit, amount)?);
        }
        if let Some(member) = &self.member {
            words += &format!(", from {member}");
        }
        if let Some(fence) = self.fence {
            words += &format!(", fence {fence}");
        }
        if let Some(limit) = self.limit() {
            words += &format!(", by limit {limit}");
        }
        if let Some(seconds) = self.retry_after() {
            words += &format!(", retry after {seconds} s");
        }
        Ok(format!("<Acquisition: {words}>"))
    }
}
