//! The verbs of a set, by key.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Amount, Forecast, Timestamp, Verdict};
use tidegate_store::sync::atomic::Ordering;
use tidegate_store::{
    self as store, Command, Count, Item, KeyPath, Op, Out, Reply, StoreError, Verb,
};
use tidegate_tier::TierStatistics;

use super::commands::Asking;
use super::inner::{Inner, LimitSet};
use super::view::View;
use crate::admission::Admission;
use crate::decision::Decision;
use crate::error::{DecisionError, RequestError};
use crate::key::Key;
use crate::limit::Limit;
use crate::pending::Pending;
use crate::request::Request;
use crate::statistics::Statistics;

impl LimitSet {
    /// The verdict alone on `cost` units of every rate (and one of every call limit).
    ///
    /// Take [`check`](Self::check), unless a hot loop wants to know nothing but whether it may
    /// go on: this one says neither which limit refuses nor what remains, and is counted in no
    /// [statistics](Self::statistics). By key it saves two fifths of the time, by a
    /// [handle](Self::handle) three quarters.
    ///
    /// # Errors
    /// [`DecisionError`]; nothing was changed.
    /// [`RequestError::NeedsLease`] for concurrency.
    #[inline]
    pub fn admit<'k>(
        &self,
        key: impl Into<Key<'k>>,
        cost: Amount,
    ) -> Pending<impl Future<Output = Result<Verdict, DecisionError>> + Send> {
        let key = key.into().bytes();
        Pending::new(async move { self.0.admit(key, &Request::from(cost)).await })
    }

    /// Takes what `request` says, if it fits, without a lease.
    ///
    /// # Errors
    /// [`DecisionError`]; nothing was changed.
    /// [`RequestError::NeedsLease`] for concurrency.
    #[inline]
    pub fn check<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, DecisionError>> + Send> {
        let (key, request) = (key.into().bytes(), request.into());
        Pending::new(async move {
            let counters = Some(&self.0.counters);
            self.0.check(key, &request, counters).await
        })
    }

    /// As [`check`](Self::check), of many keys, each with what it asks for; each by itself, in
    /// order: an answer to each. What makes no sense is an error there alone.
    ///
    /// All are decided at one instant where the set's clock decides. A store with a clock of its
    /// own decides the keys of one root (their first segment) at one instant, and each sees
    /// what those before it took; different roots are asked at once, each at its own instant. Redis,
    /// PostgreSQL, MariaDB and DynamoDB do so in one step for each root, of up to 250
    /// (DynamoDB: about 98) keys: of more, or where something else is due first, the next step decides
    /// by the instant of the first, but by none before what others have written since.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Limit, LimitSet};
    /// let set = LimitSet::new([Limit::rate("tpm", 100, Duration::from_secs(60))])?;
    /// let answers = set.check_many([("alice", 70), ("bob", 70), ("alice", 70)]).wait()?;
    /// let admitted = answers.into_iter().map(|one| one.is_ok_and(|one| one.admitted()));
    /// assert!(admitted.eq([true, true, false]));
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    ///
    /// # Errors
    /// The store, for all of them; each answer has errors of its own.
    pub fn check_many<'k, 'a, K: Into<Key<'k>>, A: Into<Request<'a>>>(
        &self,
        items: impl IntoIterator<Item = (K, A)>,
    ) -> Pending<
        impl Future<Output = Result<Vec<Result<Decision, DecisionError>>, DecisionError>> + Send,
    > {
        let items = items.into_iter();
        let items: Vec<_> = items
            .map(|(key, request)| (key.into(), request.into()))
            .collect();
        Pending::new(async move {
            let answers = self.0.check_many(&items).await?;
            self.count_all(&answers);
            Ok(answers)
        })
    }

    fn count_all(&self, answers: &[Result<Decision, DecisionError>]) {
        for decision in answers.iter().flatten() {
            self.0.counters.decided(decision);
        }
    }

    /// What [`check`](Self::check) would answer now; changes nothing. A request may ask for nothing
    /// (a cost of 0): it is admitted, and every limit's standing tells where the key stands.
    ///
    /// # Errors
    /// [`DecisionError`].
    pub fn peek<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, DecisionError>> + Send> {
        let (key, request) = (key.into().bytes(), request.into());
        Pending::new(async move { self.0.peek(key, &request).await })
    }

    /// For every limit that `request` takes: how many such requests fit now, when one
    /// does, and the standing. Changes nothing.
    ///
    /// # Errors
    /// [`DecisionError`].
    pub fn forecast<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Vec<(String, Forecast)>, DecisionError>> + Send> {
        let (key, request) = (key.into().bytes(), request.into());
        Pending::new(async move { self.0.forecast(key, &request).await })
    }

    /// Charges what was used already, whether it fits or not; the answer says
    /// whether any more may start. Unlike elsewhere, calls that `request` does not name are
    /// not charged.
    ///
    /// # Errors
    /// [`DecisionError`]; nothing was changed.
    /// [`RequestError::NeedsLease`] for concurrency that is
    /// named, [`RequestError::NothingRequested`] where nothing is
    /// left to charge.
    pub fn debit<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Decision, DecisionError>> + Send> {
        let (key, request) = (key.into().bytes(), request.into());
        Pending::new(async move { self.0.debit(key, &request).await })
    }

    /// Takes what `request` says as a lease, if it fits now.
    ///
    /// # Errors
    /// [`DecisionError`]; nothing was changed.
    #[inline]
    pub fn try_acquire<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission, DecisionError>> + Send> {
        self.acquire(key, request.into().within(Duration::ZERO))
    }

    /// Takes what `request` says as a lease, and waits for it: first come, first
    /// served, where one of a higher [priority](Request::priority) counts as having come
    /// earlier; for as long as the request [says](Request::within), and
    /// [30 seconds](crate::DEFAULT_WAIT) if it says nothing; then it is refused. Given up
    /// before its end, it gives back what it took and its place in the queue.
    ///
    /// # Errors
    /// [`DecisionError`]; nothing was changed. [`DecisionError::QueueFull`].
    #[inline]
    pub fn acquire<'k, 'a>(
        &self,
        key: impl Into<Key<'k>>,
        request: impl Into<Request<'a>>,
    ) -> Pending<impl Future<Output = Result<Admission, DecisionError>> + Send> {
        let (key, request) = (key.into().bytes(), request.into());
        Pending::new(self.0.acquire(key.into(), request))
    }

    /// Forgets `key` (not its ancestors), as if never seen. Leases stay.
    ///
    /// # Errors
    /// [`DecisionError`].
    pub fn reset<'k>(
        &self,
        key: impl Into<Key<'k>>,
    ) -> Pending<impl Future<Output = Result<(), DecisionError>> + Send> {
        let key = key.into().bytes();
        Pending::new(async move { self.0.reset(key).await })
    }

    /// What it has decided so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.counters.read(self.0.waiters.len())
    }

    /// What its [tier](crate::LimitSetBuilder::tier) has counted; `None` if it has none.
    #[must_use]
    pub fn tier_statistics(&self) -> Option<TierStatistics> {
        self.0.tier.as_ref().map(|tier| tier.statistics())
    }

    pub(crate) fn is_same_tier(&self, other: &Self) -> bool {
        match (&self.0.tier, &other.0.tier) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Gives back to the store what its [tier](crate::LimitSetBuilder::tier) holds, and ends when
    /// that has answered: a server that closes leaves nothing behind that others could use. What
    /// the tier takes after that goes back at once. Without a tier there is nothing to do.
    pub fn return_grants(&self) -> Pending<impl Future<Output = ()> + Send + use<>> {
        let answered = self.0.tier.as_ref().map(|tier| tier.give_back());
        Pending::new(async move {
            if let Some(answered) = answered {
                answered.await;
            }
        })
    }

    /// How often each limit has refused since the set was built, by name, the most
    /// frequent first: of several that did not admit, the one that
    /// [binds](Decision::binding). `admit` is not counted.
    #[must_use]
    pub fn refusals(&self) -> Vec<(String, u64)> {
        self.0.counters.refusals()
    }

    /// Answers everyone who waits with [`DecisionError::Stopped`]: a server closes.
    pub fn stop_waiting(&self) {
        self.0.waiters.stop_all();
    }

    /// The time by its clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// How much its table holds: keys, and leases that are held or remembered.
    ///
    /// # Errors
    /// The store.
    pub fn count(&self) -> Pending<impl Future<Output = Result<Count, StoreError>> + Send> {
        Pending::new(self.0.count())
    }

    /// The words that come with its leases.
    #[must_use]
    pub fn metadata(&self) -> &super::Metadata {
        &self.0.metadata
    }
}

impl Inner {
    /// Whether keys with fewer levels are let in from here on: a policy has changed.
    pub(crate) fn let_partial_keys_in(&self, partial_keys: bool) {
        let is_partial = &self.versions.partial_keys;
        is_partial.store(partial_keys, Ordering::Relaxed);
    }

    /// What a check of `request` would be answered.
    pub(crate) async fn foresee(
        &self,
        key: &[u8],
        request: &Request<'_>,
    ) -> Result<Decision, DecisionError> {
        let begin = |view: &View, asking: Asking<'_>| {
            let amounts = view.amounts(request)?;
            asking.check_reach(&amounts)?;
            Ok(asking.verb(Verb::Peek { amounts: &amounts }))
        };
        self.decide(key, begin).await
    }

    /// The same; of a request for nothing, where the key stands.
    pub(crate) async fn peek(
        &self,
        key: &[u8],
        request: &Request<'_>,
    ) -> Result<Decision, DecisionError> {
        match self.foresee(key, request).await {
            Err(DecisionError::Request(RequestError::NothingRequested)) => self.standing(key).await,
            foreseen => foreseen,
        }
    }

    /// As [`peek`](Self::peek), of the limits below the key's root alone.
    pub(crate) async fn peek_below_root(
        &self,
        key: &[u8],
        request: &Request<'_>,
    ) -> Result<Decision, DecisionError> {
        let begin = |view: &View, asking: Asking<'_>| {
            let mut amounts = view.amounts(request)?;
            let limits = amounts.iter_mut().zip(view.plan.limits());
            let of_root = limits.filter(|(_, limit)| limit.level == 0);
            of_root.for_each(|(amount, _)| *amount = 0);
            Ok(asking.verb(Verb::Peek { amounts: &amounts }))
        };
        self.decide(key, begin).await
    }

    async fn debit(&self, key: &[u8], request: &Request<'_>) -> Result<Decision, DecisionError> {
        let begin = |view: &View, asking: Asking<'_>| {
            let amounts = view.debits(request)?;
            asking.check_reach(&amounts)?;
            Ok(asking.verb(Verb::Debit { amounts: &amounts }))
        };
        self.decide(key, begin).await
    }

    /// Where the row of this name stands, and what is above it and known.
    pub(super) async fn standing(&self, row: &[u8]) -> Result<Decision, DecisionError> {
        let begin = |view: &View, asking: Asking<'_>| {
            let nothing: super::Amounts = view.limits.iter().map(|_| 0).collect();
            Ok(asking.verb(Verb::Peek { amounts: &nothing }))
        };
        Ok(self.decide(row, begin).await?.at_levels_of(row))
    }

    /// By one command, which is sent again if the limits change meanwhile.
    async fn forecast(
        &self,
        key: &[u8],
        request: &Request<'_>,
    ) -> Result<Vec<(String, Forecast)>, DecisionError> {
        loop {
            let (mut answer, now) = (Ok(Reply::Batch(Vec::new())), self.clock.now());
            let (later, view, amounts) = self.begin_forecast(key, request, now, &mut answer)?;
            if let Some(later) = later {
                answer = later.await;
            }
            let Reply::Batch(answers) = answer? else {
                return Err(StoreError::Mismatch.into());
            };
            if answers.contains(&Err(StoreError::StalePlan)) {
                continue;
            }
            let limits = view.limits.iter().zip(amounts);
            let asked: Vec<_> = limits.filter(|(_, amount)| *amount > 0).collect();
            if answers.len() != asked.len() {
                return Err(StoreError::Mismatch.into());
            }
            let mut forecasts = Vec::new();
            for ((limit, amount), answer) in asked.into_iter().zip(answers) {
                let peeked = decided(answer, Arc::clone(&view), now)?;
                if let Some(standing) = peeked.standing(limit.name()) {
                    let forecast = Forecast {
                        spendable: standing.remaining / amount,
                        verdict: peeked.verdict(),
                        standing,
                    };
                    forecasts.push((limit.name().to_owned(), forecast));
                }
            }
            return Ok(forecasts);
        }
    }

    /// A look at each limit of which something is asked, all at one instant: under way when this
    /// returns. The limits, and how much of each is asked.
    fn begin_forecast(
        &self,
        key: &[u8],
        request: &Request<'_>,
        now: Timestamp,
        answer: &mut store::Answer,
    ) -> Result<(Option<store::StoreFuture>, Arc<View>, super::Amounts), DecisionError> {
        let newest = self.view.load_full();
        let path = KeyPath::new(key, newest.plan.levels())?;
        let view = newest.at(&path).unwrap_or_else(|| Arc::clone(&newest));
        let amounts = view.amounts(request)?;
        self.versions.check_depth(&path, &view)?;
        view.check_reach(&path, &amounts)?;
        let alone = |(at, amount): (usize, &u64)| {
            let mut one: super::Amounts = amounts.iter().map(|_| 0).collect();
            one[at] = *amount;
            one
        };
        let asked = amounts
            .iter()
            .enumerate()
            .filter(|(_, amount)| **amount > 0);
        let asked: Vec<_> = asked.map(alone).collect();
        if asked.is_empty() {
            return Ok((None, view, amounts));
        }
        let items = asked.iter().map(|amounts| (path, Verb::Peek { amounts }));
        let items: Vec<Item<'_>> = items.collect();
        let later = self.begin_batch(&newest, now, &items, answer);
        Ok((later, view, amounts))
    }

    /// Those that the limits change under are asked again, and no other: what was
    /// charged is charged once.
    async fn check_many(
        &self,
        items: &[(Key<'_>, Request<'_>)],
    ) -> Result<Vec<Result<Decision, DecisionError>>, DecisionError> {
        let mut decisions: Vec<_> = items.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..items.len()).collect();
        while !left.is_empty() {
            let asked: Vec<_> = left.iter().map(|&at| items[at]).collect();
            let answers = match self.ask_many(&asked).await {
                Ok(answers) => answers,
                Err(error) if left.len() == items.len() => return Err(error),
                // Others are decided already: it is told to those that are left.
                Err(error) => {
                    left.iter()
                        .for_each(|&at| decisions[at] = Some(Err(error.clone())));
                    break;
                }
            };
            let mut stale = Vec::new();
            for (at, answered) in left.into_iter().zip(answers) {
                match answered {
                    Ok((Err(StoreError::StalePlan), _)) => stale.push(at),
                    Ok((answer, view)) => {
                        decisions[at] = Some(decided(answer, view, self.clock.now()))
                    }
                    Err(error) => decisions[at] = Some(Err(error)),
                }
            }
            left = stale;
        }
        Ok(decisions.into_iter().flatten().collect())
    }

    /// One batch of takes: the answer to each, and its limits.
    async fn ask_many(
        &self,
        items: &[(Key<'_>, Request<'_>)],
    ) -> Result<Vec<Result<(store::Answer, Arc<View>), DecisionError>>, DecisionError> {
        let mut answer = Ok(Reply::Batch(Vec::new()));
        let (later, views) = self.begin_many(items, &mut answer)?;
        if let Some(later) = later {
            answer = later.await;
        }
        let sound = views.iter().flatten().count();
        let Reply::Batch(answers) = answer? else {
            return Err(StoreError::Mismatch.into());
        };
        if answers.len() != sound {
            return Err(StoreError::Mismatch.into());
        }
        let mut answers = answers.into_iter();
        let answered = views.into_iter().map(|view| {
            let view = view?;
            Ok((answers.next().unwrap_or(Err(StoreError::Mismatch)), view))
        });
        Ok(answered.collect())
    }

    /// What is sound is under way when this returns.
    fn begin_many(
        &self,
        items: &[(Key<'_>, Request<'_>)],
        answer: &mut store::Answer,
    ) -> Result<(Option<store::StoreFuture>, Views), DecisionError> {
        let newest = self.view.load_full();
        let levels = newest.plan.levels();
        let mut takes = Vec::with_capacity(items.len());
        let views = items.iter().map(|(key, request)| {
            let path = KeyPath::new(key.bytes(), levels)?;
            let view = newest.at(&path).unwrap_or_else(|| Arc::clone(&newest));
            let mut amounts = view.amounts(request)?;
            view.leave_out_held(request, &mut amounts)?;
            view.check_unheld(&amounts)?;
            self.versions.check_depth(&path, &view)?;
            view.check_reach(&path, &amounts)?;
            takes.push((path, amounts));
            Ok(view)
        });
        let views: Views = views.collect();
        if takes.is_empty() {
            return Ok((None, views));
        }
        let take = |amounts| Verb::Take {
            amounts,
            lease: None,
            detail: store::Detail::Always,
        };
        let items = takes.iter().map(|(path, amounts)| (*path, take(amounts)));
        let items: Vec<Item<'_>> = items.collect();
        let later = self.begin_batch(&newest, self.clock.now(), &items, answer);
        Ok((later, views))
    }

    /// Gives a batch to the table, by these limits.
    fn begin_batch(
        &self,
        newest: &View,
        now: Timestamp,
        items: &[Item<'_>],
        answer: &mut store::Answer,
    ) -> Option<store::StoreFuture> {
        let command = Command {
            plan: &newest.whole,
            now,
            calendars: &newest.calendars(now),
            op: Op::Batch(items),
            patience: None,
        };
        self.table.execute(&command, Out::new(answer)).pending()
    }

    pub(super) async fn count(&self) -> Result<Count, StoreError> {
        match self.about(Op::Count).await? {
            Reply::Count(count) => Ok(count),
            _ => Err(StoreError::Mismatch),
        }
    }
}

/// The limits of each of many, or why it makes no sense.
type Views = Vec<Result<Arc<View>, RequestError>>;

fn decided(
    answer: store::Answer,
    view: Arc<View>,
    now: Timestamp,
) -> Result<Decision, DecisionError> {
    Decision::of_reply(&mut answer?, view, now)
}

impl fmt::Debug for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.limits();
        let names = limits.iter().map(Limit::name);
        f.debug_struct("LimitSet")
            .field("limits", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
