//! The verbs of a set, by key.

use std::fmt;
use std::sync::Arc;

use tidegate_contract::sync::atomic::Ordering;
use tidegate_contract::{Detail, KeyPath, Verb, key};
use tidegate_core::{Amount, Forecast, MAX_AMOUNT, Timestamp, Verdict};

use super::builder::LimitSetBuilder;
use super::handle::Handle;
use super::inner::{Inner, Wanted};
use super::recent;
use super::view::View;
use crate::ask::Ask;
use crate::decision::{Admission, Decision};
use crate::error::Error;
use crate::key::Key;
use crate::limit::Limit;
use crate::statistics::Statistics;
use crate::wait;

/// Limits taken together, all or nothing, from any thread or task. Cloning
/// shares it.
///
/// Verbs that may change something refuse (never err) when a limit is used up,
/// and an ask that fits is refused while earlier asks wait for the same key:
/// nobody overtakes the queue.
#[derive(Clone)]
pub struct LimitSet(Arc<Inner>);

impl LimitSet {
    /// A set of `limits` in the embedded store.
    ///
    /// # Errors
    /// As [`LimitSetBuilder::build`].
    #[cfg(feature = "memory")]
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Result<Self, Error> {
        Self::builder().limits(limits).build()
    }

    /// A set without limits, in the embedded store, for code that wants one
    /// though there is nothing to limit: it admits whatever is asked, by
    /// whatever names, and its leases are leases like any other. A limit put
    /// into it holds from then on.
    ///
    /// ```
    /// let set = tidegate::LimitSet::unlimited()?;
    /// let lease = set.try_acquire("alice", &[("tokens", 4_000)])?.granted();
    /// lease.expect("nothing refuses").settle(&[("tokens", 3_000)])?;
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`LimitSetBuilder::build`].
    #[cfg(feature = "memory")]
    pub fn unlimited() -> Result<Self, Error> {
        Self::builder().unlimited().build()
    }

    /// Begins a set.
    #[must_use]
    pub fn builder() -> LimitSetBuilder {
        LimitSetBuilder::default()
    }

    pub(super) const fn of(inner: Arc<Inner>) -> Self {
        Self(inner)
    }

    pub(crate) const fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// The verbs for one key, without look-up.
    ///
    /// # Errors
    /// A key that cannot be one.
    pub fn handle<'k>(&self, key: impl Into<Key<'k>>) -> Result<Handle, Error> {
        Handle::new(self.clone(), key.into().bytes())
    }

    /// The verdict alone on `cost` units of every rate (and one of every call
    /// limit): the leanest check.
    ///
    /// # Errors
    /// [`Error`]; nothing was changed.
    #[inline]
    pub fn admit<'k>(&self, key: impl Into<Key<'k>>, cost: Amount) -> Result<Verdict, Error> {
        let key = key.into().bytes();
        key::check(key)?;
        if self.0.has_waiters() || cost == 0 || cost > MAX_AMOUNT {
            return self.check(key, cost).map(|decision| decision.verdict());
        }
        let now = self.0.clock.now();
        if self.0.lone.load(Ordering::Relaxed)
            && let Some(verdict) = recent::admit(&self.0, key, cost, now)
        {
            return Ok(verdict);
        }
        match self.admit_by_table(key, cost, now)? {
            // `check` says it in full.
            Verdict::Never => self.check(key, cost).map(|decision| decision.verdict()),
            verdict => Ok(verdict),
        }
    }

    fn admit_by_table(&self, key: &[u8], cost: Amount, now: Timestamp) -> Result<Verdict, Error> {
        let lone = |view: &Arc<View>| {
            let by_table = || self.0.table.admit_one(&view.plan, key, cost, now);
            view.lone.then(by_table).transpose().map_err(Error::from)
        };
        if let Some(verdict) = self.0.with_view(lone)? {
            return Ok(verdict);
        }
        self.0.with_view_at(key, |view, path| {
            let amounts = view.amounts(&Ask::from(cost))?;
            view.check_unheld(&amounts)?;
            let wanted = Wanted::Charge(Detail::Verdict);
            Ok(self.0.take(view, path, &amounts, wanted, now)?.verdict)
        })
    }

    /// Takes what `ask` says, if it fits, without a lease.
    ///
    /// # Errors
    /// [`Error`]; nothing was changed. [`Error::NeedsLease`] for concurrency.
    pub fn check<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Decision, Error> {
        let decision = self.check_uncounted(key.into().bytes(), &ask.into())?;
        self.0.counters.decided(decision.admitted());
        Ok(decision)
    }

    pub(crate) fn check_uncounted(&self, key: &[u8], ask: &Ask<'_>) -> Result<Decision, Error> {
        if self.0.has_waiters() {
            return wait::check_in_line(&self.0, key, ask);
        }
        self.0.with_view_at(key, |view, path| {
            let amounts = view.amounts(ask)?;
            view.check_unheld(&amounts)?;
            let (wanted, now) = (Wanted::Charge(Detail::Always), self.0.clock.now());
            if let (true, &[amount]) = (view.lone, amounts.as_slice())
                && let Some(lean) = self.0.table.check_one(&view.plan, key, amount, now)?
            {
                return Ok(Decision::of_one(lean, Arc::clone(view)));
            }
            let answer = self.0.take(view, path, &amounts, wanted, now)?;
            Ok(Decision::new(answer, Arc::clone(view)))
        })
    }

    /// As [`check`](Self::check), for each key by itself, in order.
    ///
    /// # Errors
    /// The first error; the keys before it were decided.
    pub fn check_many<'k, 'a, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Vec<Decision>, Error> {
        let ask = ask.into();
        keys.into_iter().map(|key| self.check(key, ask)).collect()
    }

    /// What [`check`](Self::check) would answer now; changes nothing.
    ///
    /// # Errors
    /// [`Error`].
    pub fn peek<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Decision, Error> {
        let (key, ask) = (key.into().bytes(), ask.into());
        self.0.with_view_at(key, |view, path| {
            let amounts = view.amounts(&ask)?;
            self.answer(view, path, Verb::Peek { amounts: &amounts })
        })
    }

    /// For every limit that `ask` takes: how many such asks fit now, when one
    /// does, and the standing. Changes nothing.
    ///
    /// # Errors
    /// [`Error`].
    pub fn forecast<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Vec<(String, Forecast)>, Error> {
        let (key, ask) = (key.into().bytes(), ask.into());
        self.0.with_view_at(key, |view, path| {
            let amounts = view.amounts(&ask)?;
            let mut forecasts = Vec::new();
            for (position, &amount) in amounts.iter().enumerate().filter(|(_, a)| **a > 0) {
                let mut one = amounts.clone();
                one.fill(0);
                one[position] = amount;
                let peeked = self.answer(view, path, Verb::Peek { amounts: &one })?;
                let name = view.limits[position].name();
                if let Some(standing) = peeked.standing(name) {
                    let forecast = Forecast {
                        spendable: standing.remaining / amount,
                        verdict: peeked.verdict(),
                        standing,
                    };
                    forecasts.push((name.to_owned(), forecast));
                }
            }
            Ok(forecasts)
        })
    }

    /// Charges what was used already, whether it fits or not; the answer says
    /// whether any more may start.
    ///
    /// # Errors
    /// [`Error`]; nothing was changed.
    pub fn debit<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Decision, Error> {
        let (key, ask) = (key.into().bytes(), ask.into());
        self.0.with_view_at(key, |view, path| {
            let amounts = view.debits(&ask)?;
            self.answer(view, path, Verb::Debit { amounts: &amounts })
        })
    }

    pub(super) fn answer(
        &self,
        view: &Arc<View>,
        path: &KeyPath<'_>,
        verb: Verb<'_>,
    ) -> Result<Decision, Error> {
        let answer = self.0.decide(view, path, verb, self.0.clock.now())?;
        Ok(Decision::new(answer, Arc::clone(view)))
    }

    /// Takes what `ask` says as a lease, if it fits now.
    ///
    /// # Errors
    /// [`Error`]; nothing was changed.
    pub fn try_acquire<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Admission, Error> {
        wait::try_acquire(&self.0, key.into().bytes(), &ask.into())
    }

    /// Takes what `ask` says as a lease, and waits for it: first come, first
    /// served within a priority, to the ask's deadline.
    ///
    /// # Errors
    /// [`Error`]; nothing was changed. [`Error::QueueFull`].
    pub fn acquire<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Admission, Error> {
        wait::block_on(self.acquire_async(key, ask))
    }

    /// As [`acquire`](Self::acquire), on any async runtime. Dropping the
    /// future gives back what it took and its place in the queue.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_async<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        ask: impl Into<Ask<'a>>,
    ) -> Result<Admission, Error> {
        let (key, ask) = (key.into().bytes(), ask.into());
        match wait::acquire(&self.0, key, &ask)? {
            wait::Begun::Decided(admission) => Ok(admission),
            wait::Begun::Waiting(turn) => turn.await,
        }
    }

    /// Forgets `key` (not its ancestors), as if never seen. Leases stay.
    ///
    /// # Errors
    /// [`Error`].
    pub fn reset<'k>(&self, key: impl Into<Key<'k>>) -> Result<(), Error> {
        self.0.reset(key.into().bytes())
    }

    /// What it has decided so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let waiting = &self.0.waiting;
        let waiting = waiting.load(Ordering::Relaxed);
        self.0.counters.read(waiting)
    }

    /// Answers everyone who waits with [`Error::Stopped`]: a server closes.
    pub fn stop_waiting(&self) {
        self.0.lines.stop_all();
    }

    /// The time by its clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Whether whoever changes something is held up until a disk has it.
    #[cfg(feature = "gate")]
    pub(crate) fn holds_up(&self) -> bool {
        self.0.table.holds_up()
    }

    /// How many keys its table holds.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.0.table.len()
    }

    /// The words that come with its leases.
    #[must_use]
    pub fn metadata(&self) -> &super::Metadata {
        &self.0.metadata
    }
}

impl fmt::Debug for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.limits();
        let names = limits.iter().map(Limit::name);
        f.debug_struct("LimitSet")
            .field("limits", &names.collect::<Vec<_>>())
            .field("keys", &self.keys())
            .finish_non_exhaustive()
    }
}
