//! Limits added, replaced and removed while in use.
//!
//! A change makes a new view under a new version; it applies at the next
//! decision of every key, which carries its state over (see the kernels'
//! `adopt`): nobody is reset, and raising a limit delays no one.

use std::sync::Arc;

use tidegate_core::Amount;
use tidegate_store::sync::atomic::Ordering;
use tidegate_store::{Command, Execution, Op, Out, Reply, StoreFuture};

use super::inner::{Inner, LimitSet};
use super::uid::{numbered, uid_in};
use super::variants::{self, Overrides, Variants};
use super::versions::Ledger;
use super::view::View;
use crate::error::{BuildError, RequestError};
use crate::limit::{Limit, LimitId, LimitName};

impl LimitSet {
    /// The limits as they are now.
    #[must_use]
    pub fn limits(&self) -> Vec<Limit> {
        self.inner().limits()
    }

    /// The limit called `name`, found once: it goes wherever a name goes.
    ///
    /// # Errors
    /// [`RequestError::UnknownLimit`].
    pub fn limit(&self, name: &str) -> Result<LimitId, RequestError> {
        self.inner().view.load().id(name)
    }

    /// Adds a limit, or replaces the one of that name; from the next decision
    /// on, for every key.
    ///
    /// # Errors
    /// A limit that makes no sense, or is [added](Limit::added); then nothing changes.
    pub fn put_limit(&self, limit: Limit) -> Result<(), BuildError> {
        self.inner().change(|limits| {
            let found = limits.iter_mut().find(|old| old.name() == limit.name());
            match found {
                Some(old) => *old = limit,
                None => limits.push(limit),
            }
        })
    }

    /// Goes over to exactly these limits, in one step; from the next decision
    /// on, for every key. A limit that keeps its name keeps what was used.
    ///
    /// # Errors
    /// Limits that make no sense, one that is [added](Limit::added), or none; then nothing
    /// changes.
    pub fn replace_limits(&self, limits: &[Limit]) -> Result<(), BuildError> {
        if limits.is_empty() {
            return Err(BuildError::Nothing("limit"));
        }
        if self.inner().has_limits(limits) {
            return Ok(());
        }
        self.inner().change(|all| *all = limits.to_vec())
    }

    /// Gives the [adaptive](Limit::adaptive) limit called `name` another capacity: 1 to
    /// 2^53 - 1, in its unit's parts. From the next decision of this set on, for every key
    /// without limits of its own; requests that wait here go by it, too.
    ///
    /// It travels with each command. So it is no change of the limits: it costs the store
    /// nothing, however often it happens, and what is in use stays counted. More than the
    /// capacity in use is debt, until it was given back or its time has come. Other sets on
    /// the same store, in other processes too, have capacities of their own; who starts
    /// anew begins with the limit's.
    ///
    /// ```
    /// use tidegate::{Limit, LimitSet};
    /// let set = LimitSet::new([Limit::concurrency("upstream", 10).adaptive()])?;
    /// let held = set.try_acquire("eu", &[("upstream", 10)]).wait()?.granted();
    /// set.set_capacity("upstream", 4)?;
    /// assert_eq!(set.peek("eu", ()).wait()?.standing("upstream").unwrap().debt, 6);
    /// # drop(held);
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    ///
    /// # Errors
    /// An unknown name; [`BuildError::NotAdaptive`]; a capacity out of range. Nothing changes.
    pub fn set_capacity(&self, name: &str, capacity: Amount) -> Result<(), BuildError> {
        self.inner().set_capacity(name, capacity)
    }

    /// The most that the limit called `name` grants at once, as of now: what was
    /// [set](Self::set_capacity) last, or its own. Nothing if there is no such limit.
    #[must_use]
    pub fn capacity<'n>(&self, name: impl Into<LimitName<'n>>) -> Option<Amount> {
        let view = self.inner().view.load();
        let position = view.find(name).filter(|&at| !view.is_absent(at))?;
        Some(view.capacity(position))
    }

    /// Removes the limit called `name`; from the next decision on, for every key.
    ///
    /// # Errors
    /// An unknown name, or the last limit; then nothing changes.
    pub fn remove_limit(&self, name: &str) -> Result<(), BuildError> {
        self.inner().view.load().its_own(name)?;
        self.inner()
            .change(|limits| limits.retain(|limit| limit.name() != name))
    }
}

impl Inner {
    fn limits(&self) -> Vec<Limit> {
        self.view.load().own().cloned().collect()
    }

    fn has_limits(&self, limits: &[Limit]) -> bool {
        let now = self.limits();
        now.len() == limits.len() && limits.iter().all(|limit| now.contains(limit))
    }

    /// Goes over to these limits and overrides in one step.
    ///
    /// # Errors
    /// Limits that make no sense, or none; then nothing changes.
    pub(crate) fn replace_all(&self, limits: &[Limit], given: Overrides) -> Result<(), BuildError> {
        let ledger = self.versions.ledger.lock();
        let same = *ledger.variants.given() == given;
        drop(ledger);
        if same && self.has_limits(limits) {
            return Ok(());
        }
        self.change_with(
            |all| *all = limits.to_vec(),
            |variants| variants.give_all(&self.versions.levels, given),
        )
    }

    /// Whether `limit` can be one of the set's own, in its tier.
    ///
    /// # Errors
    /// A limit that makes no sense, or of which the tier leaves nothing.
    pub(crate) fn check_limit(&self, limit: &Limit) -> Result<(), BuildError> {
        let planned = self.view.load().planned(limit, 0, &self.versions.levels);
        planned.map(drop)
    }

    /// The table goes over to the newest view, as of now.
    pub(super) fn adopt(&self) {
        let adopted = self.begin_adoption();
        // What could not be written now, the next command writes.
        let _ = adopted.pending().map(StoreFuture::wait);
    }

    /// The same, under way. Who waits at the table asks again.
    fn begin_adoption(&self) -> Execution {
        let (view, now) = (self.view.load(), self.clock.now());
        let command = Command {
            plan: &view.plan,
            now,
            calendars: &view.calendars(now),
            op: Op::Adopt,
            patience: None,
        };
        self.table.execute(&command, Out::new(&mut Ok(Reply::Done)))
    }

    fn set_capacity(&self, name: &str, capacity: Amount) -> Result<(), BuildError> {
        // A change of the limits that is under way takes it along, or has it before.
        let ledger = self.versions.ledger.lock();
        let view = self.view.load();
        let limit = &view.plan.limits()[view.its_own(name)?];
        let Some(adaptive) = &limit.adaptive else {
            return Err(BuildError::NotAdaptive(name.into()));
        };
        limit
            .rule
            .with_capacity(capacity)
            .map_err(|source| BuildError::Limit {
                limit: name.into(),
                source: source.into(),
            })?;
        adaptive.set(capacity);
        // In this order: who begins to wait looks whether one was set since it asked,
        // after it has joined the waiters.
        self.versions.capacities.fetch_add(1, Ordering::SeqCst);
        drop(ledger);
        if self.waiters.len() > 0 {
            self.ask_again();
        }
        Ok(())
    }

    /// Whoever waits asks again. It goes on by itself.
    #[cold]
    pub(super) fn ask_again(&self) {
        drop(self.begin_adoption());
    }

    fn change(&self, edit: impl FnOnce(&mut Vec<Limit>)) -> Result<(), BuildError> {
        self.change_with(edit, |_| {})
    }

    /// Changes the limits, and what keys were given, in one step.
    pub(super) fn change_with(
        &self,
        edit: impl FnOnce(&mut Vec<Limit>),
        give: impl FnOnce(&mut Variants),
    ) -> Result<(), BuildError> {
        let mut ledger = self.versions.ledger.lock();
        let old = self.view.load_full();
        let mut limits: Vec<_> = old.own().cloned().collect();
        let had_none = limits.is_empty();
        edit(&mut limits);
        if limits.is_empty() && !had_none {
            return Err(BuildError::Nothing("limit"));
        }
        variants::check_own(&limits)?;
        // What makes no sense is found before anything is given.
        drop(self.next_view(&old, limits.clone())?);
        give(&mut ledger.variants);
        self.go_over_to(&mut ledger, &old, limits)
    }

    /// Goes over to these limits, and those that only some keys have.
    pub(super) fn go_over_to(
        &self,
        ledger: &mut Ledger,
        old: &View,
        mut limits: Vec<Limit>,
    ) -> Result<(), BuildError> {
        let levels = &self.versions.levels;
        limits.extend(ledger.variants.absent(&limits, levels, Some(old)));
        let view = self.next_view(old, limits)?;
        view.plan.keep_capacities(&old.plan);
        let variants = ledger.variants.all(&view, levels);
        let version = view.plan.version();
        self.go_over(view.with_variants(version, variants));
        Ok(())
    }

    fn next_view(&self, old: &View, limits: Vec<Limit>) -> Result<View, BuildError> {
        View::new(
            (self.versions.set, old.plan.version() + 1),
            &self.versions.levels,
            numbered(limits, |name| uid_in(old.plan.limits(), name)),
            (self.versions.kept, self.versions.tier.as_ref()),
            Some(old),
        )
    }

    /// From here on `view` decides. The caller holds the ledger, so that tables
    /// are told of versions in their order.
    pub(super) fn go_over(&self, view: View) {
        let version = view.version();
        self.view.store(Arc::new(view));
        self.version.store(version, Ordering::Release);
        self.adopt();
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use std::time::Duration;

    use super::*;

    fn uids(set: &LimitSet) -> Vec<(String, u32)> {
        let view = set.inner().view.load();
        let limits = view.plan.limits().iter();
        limits.map(|l| (l.name.to_string(), l.uid)).collect()
    }

    fn hourly(name: &str) -> Limit {
        Limit::calls(name, 5, Duration::from_secs(3_600))
    }

    /// A server that has seen a limit go counts what is added then as one does that
    /// was started after it.
    #[test]
    fn sets_of_different_age_number_a_limit_that_is_added_alike() {
        let old = LimitSet::builder().limits([hourly("a"), hourly("b")]);
        let old = old.build().expect("sound limits");
        old.remove_limit("b").expect("not the last");
        let young = LimitSet::builder().limit(hourly("a")).build();
        let young = young.expect("a sound limit");
        for set in [&old, &young] {
            set.put_limit(hourly("c")).expect("a sound limit");
        }
        assert_eq!(uids(&old), uids(&young));
    }
}
