//! For the project's own crates (`service`, `policy`, the command): what they need of the
//! library beside what people use. Nothing is promised of it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tidegate_core::{Amount, DecodeError, Span, Timestamp};
use tidegate_store::{Page, StoreError};
use tidegate_tier::{Tier, TierError};

use crate::decision::Decision;
use crate::error::BuildError;
pub use crate::keep_alive::Pace;
use crate::key::Key;
use crate::lease::Lease;
use crate::lease_id::LeaseId;
use crate::limit::{Limit, LimitError};
use crate::outcome::Outcome;
use crate::pending::Pending;
use crate::pool::{LimitPool, LimitPoolBuilder, Member};
use crate::request::Request;
pub use crate::set::{Differing, Overrides};
use crate::set::{Grant, How, LimitSet, LimitSetBuilder, PageOf};
pub use crate::set::{NodeGrant, TierBound};
pub use tidegate_tier::{NodeId, is_grant, is_reserved};

/// A lease's id of 128 random bits.
#[must_use]
pub fn random_lease_id() -> LeaseId {
    LeaseId(rand::rng().random())
}

/// The limits of a grant, with how much was granted of each.
pub fn granted_limits(grant: &Grant) -> impl Iterator<Item = (&Limit, Amount)> {
    grant.limits()
}

/// A page of what nodes took in advance of the keys of `set`, as its store has it; nothing where
/// it has no tier.
///
/// # Errors
/// A store that cannot list, or a page that is no longer known.
pub fn list_node_grants<'a>(
    set: &'a LimitSet,
    page: PageOf<'a>,
) -> Pending<impl Future<Output = Result<Page<NodeGrant>, StoreError>> + Send> {
    set.node_grants(page)
}

/// What nodes may do with each limit of `set`; nothing where it takes nothing in advance.
#[must_use]
pub fn tier_bounds(set: &LimitSet) -> Vec<TierBound> {
    set.tier_bounds()
}

/// A verb that begins `answer` when it is awaited or waited for.
#[inline]
pub const fn pending<F: Future>(answer: F) -> Pending<F> {
    Pending::new(answer)
}

/// A limit as policies say it, and as it is stored.
pub trait LimitInternals: Sized {
    /// Whether it makes a limit of a set whose keys have these levels.
    ///
    /// # Errors
    /// [`LimitError`]: what is wrong with it.
    fn check(&self, levels: &[String]) -> Result<(), LimitError>;

    /// Whether units of it can be taken in advance as `tier` says, of keys with these levels.
    ///
    /// # Errors
    /// [`TierError::NoBurst`], [`TierError::NoWindow`]. One that makes no sense anyway is none.
    fn check_in(&self, levels: &[String], tier: &Tier) -> Result<(), TierError>;

    /// The position of the level that it is about, of these.
    ///
    /// # Errors
    /// [`LimitError::UnknownLevel`].
    fn level_in(&self, levels: &[String]) -> Result<usize, LimitError>;

    /// What `base`, a limit of a set whose keys have these levels, becomes with this
    /// limit's numbers: an override.
    ///
    /// # Errors
    /// [`LimitError::Unlike`]: what an override cannot change; numbers out of range.
    fn in_place_of(&self, base: &Self, levels: &[String]) -> Result<Self, LimitError>;

    /// So many percent of it: of the amount and the burst, rounded down but at
    /// least one unit.
    #[must_use]
    fn percent(&self, percent: u8) -> Self;

    /// Its algorithm, where its word does not say it.
    fn algorithm_word(&self) -> Option<&'static str>;

    /// How finely it counts, if it says so.
    fn precision(&self) -> impl Iterator<Item = (&'static str, u64)>;

    /// Whether its capacity may change often.
    fn is_adaptive(&self) -> bool;

    /// Limits as bytes.
    fn encode_all(limits: &[Self]) -> Vec<u8>;

    /// The limits that these bytes are.
    ///
    /// # Errors
    /// What no version wrote, or only a newer one.
    fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, DecodeError>;
}

impl LimitInternals for Limit {
    fn check(&self, levels: &[String]) -> Result<(), LimitError> {
        self.plan(0, levels).map(drop)
    }

    fn check_in(&self, levels: &[String], tier: &Tier) -> Result<(), TierError> {
        match self.plan(0, levels) {
            Ok(planned) => tier.store_rule(self.name(), planned.rule).map(drop),
            Err(_) => Ok(()),
        }
    }

    fn level_in(&self, levels: &[String]) -> Result<usize, LimitError> {
        Self::level_in(self, levels)
    }

    fn in_place_of(&self, base: &Self, levels: &[String]) -> Result<Self, LimitError> {
        let limit = self.over(base)?;
        limit.plan(0, levels)?;
        Ok(limit)
    }

    fn percent(&self, percent: u8) -> Self {
        Self::percent(self, percent)
    }

    fn algorithm_word(&self) -> Option<&'static str> {
        Self::algorithm_word(self)
    }

    fn precision(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::precision(self)
    }

    fn is_adaptive(&self) -> bool {
        self.is_adaptive()
    }

    fn encode_all(limits: &[Self]) -> Vec<u8> {
        Self::encode_all(limits)
    }

    fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        Self::decode_all(bytes)
    }
}

/// What a request says of its wait, its lease and its place.
pub trait RequestInternals<'a> {
    /// The longest that it waits; `None` if it does not say.
    fn longest_wait(&self) -> Option<Duration>;

    /// Whether it waits at all.
    fn is_patient(&self) -> bool;

    /// `ttl`, unless it says one itself.
    #[must_use]
    fn ttl_or(self, ttl: Option<Duration>) -> Self;

    /// A pool asks all members but these for it, of which there is one at least; a set asks itself.
    #[must_use]
    fn passing_over(self, members: &'a [&'a str]) -> Self;
}

impl<'a> RequestInternals<'a> for Request<'a> {
    fn longest_wait(&self) -> Option<Duration> {
        self.within
    }

    fn is_patient(&self) -> bool {
        Self::is_patient(self)
    }

    fn ttl_or(self, ttl: Option<Duration>) -> Self {
        Self::ttl_or(self, ttl)
    }

    fn passing_over(mut self, members: &'a [&'a str]) -> Self {
        self.passed_over = members;
        self
    }
}

/// A decision that was made in place of the store.
pub trait DecisionInternals {
    /// The same, decided while the store could not tell: it is
    /// [`degraded`](Decision::degraded).
    #[must_use]
    fn mark_degraded(self) -> Self;
}

impl DecisionInternals for Decision {
    fn mark_degraded(self) -> Self {
        Self::mark_degraded(self)
    }
}

/// A lease on its way to its holder.
pub trait LeaseInternals {
    /// As [`Lease::detach`], but it stays its member's load: whoever has it now tells the
    /// member when it ends.
    #[must_use]
    fn hand_over(self) -> LeaseId;

    /// For how long it is surely held from now on, if it is not renewed.
    #[must_use]
    fn left(&self) -> Span;

    /// Gives all of it back, since nobody was told of it. It goes on by itself: nobody waits for the
    /// answer, and what fails comes back at its expiry. One that is repeated stays its first holder's.
    fn cancel_unseen(self);
}

impl LeaseInternals for Lease {
    fn hand_over(self) -> LeaseId {
        Self::hand_over(self)
    }

    fn left(&self) -> Span {
        Self::left(self)
    }

    fn cancel_unseen(self) {
        Self::cancel_unseen(self);
    }
}

/// A member whose leases are held elsewhere.
pub trait MemberInternals {
    /// `decision`, as its own.
    #[must_use]
    fn decided(&self, decision: Decision) -> Decision;

    /// A lease that was given here and [handed over](LeaseInternals::hand_over) has ended.
    fn ended(&self, outcome: Outcome);

    /// A lease that was given here and handed over lasts until `until`.
    fn renewed(&self, id: LeaseId, until: Timestamp);

    /// A lease that was given here is held no more: its request is a new one from now on.
    fn forgets(&self, id: LeaseId);
}

impl MemberInternals for Member {
    fn decided(&self, decision: Decision) -> Decision {
        Self::decided(self, decision)
    }

    fn ended(&self, outcome: Outcome) {
        Self::ended(self, outcome);
    }

    fn renewed(&self, id: LeaseId, until: Timestamp) {
        Self::renewed(self, id, until);
    }

    fn forgets(&self, id: LeaseId) {
        Self::forgets(self, id);
    }
}

/// A pool that takes the place of another.
pub trait PoolBuilderInternals {
    /// Goes on where `pool` stands: members of the same name and set keep their
    /// load and their cool-down, and what the pool has counted stays.
    #[must_use]
    fn after(self, pool: &LimitPool) -> Self;
}

impl PoolBuilderInternals for LimitPoolBuilder {
    fn after(self, pool: &LimitPool) -> Self {
        Self::after(self, pool)
    }
}

/// A set whose overrides are its service's.
pub trait SetBuilderInternals {
    /// Leaves the overrides of the set to whoever serves it, by
    /// [`give`](SetInternals::give) and [`replace_all`](SetInternals::replace_all). It begins
    /// with `given`: what is counted of a limit that only some keys have is lost when the limit
    /// is missing for a moment.
    #[must_use]
    fn governed(self, given: Overrides) -> Self;
}

impl SetBuilderInternals for LimitSetBuilder {
    fn governed(self, given: Overrides) -> Self {
        Self::governed(self, given)
    }
}

/// A set that is served.
pub trait SetInternals {
    /// Whether both are the same set.
    fn is_same(&self, other: &Self) -> bool;

    /// Whether other processes use its store, too.
    fn is_shared(&self) -> bool;

    /// Its limits that the store, which others use, too, had otherwise when it was made.
    fn differing(&self) -> &[Differing];

    /// Whether keys with fewer levels are let in from here on: a policy has changed.
    fn let_partial_keys_in(&self, partial_keys: bool);

    /// The most that the limit called `name` grants `key` at once, as of now: what is in force for
    /// it, in the unit's parts. Nothing if there is no such limit.
    fn capacity_for<'k>(&self, key: impl Into<Key<'k>>, name: &str) -> Option<Amount>;

    /// How long a lease of `key` lasts whose request does not say.
    fn lease_length<'k>(&self, key: impl Into<Key<'k>>) -> Duration;

    /// Gives all of a lease back that nobody will use. It goes on by itself: nobody
    /// waits for the answer, and what fails comes back at the lease's expiry.
    fn cancel_unseen<'k>(&self, key: impl Into<Key<'k>>, id: LeaseId);

    /// Goes over to these limits and overrides in one step.
    ///
    /// # Errors
    /// Limits that make no sense, or none; then nothing changes.
    fn replace_all(&self, limits: &[Limit], given: Overrides) -> Result<(), BuildError>;

    /// Whether `limit` can be one of its own, in its tier.
    ///
    /// # Errors
    /// A limit that makes no sense, or of which the tier leaves nothing.
    fn check_limit(&self, limit: &Limit) -> Result<(), BuildError>;

    /// Gives `key` these limits, or takes them, as far as they have an effect; for who
    /// keeps the overrides of a [governed](SetBuilderInternals::governed) set.
    ///
    /// # Errors
    /// A key that cannot be one; [`BuildError::TooManyOverrides`].
    fn give(&self, key: &[u8], limits: Option<Arc<[Limit]>>) -> Result<(), BuildError>;

    /// Whether `own` can be given to `key`.
    ///
    /// # Errors
    /// As [`LimitSet::set_override`].
    fn check_override(&self, key: &[u8], own: &Limit) -> Result<(), BuildError>;

    /// Whether there is room for the names of the limits among `given` that are
    /// [added](Limit::added).
    ///
    /// # Errors
    /// [`BuildError::TooManyAdded`].
    fn check_added_names(&self, given: &[Limit]) -> Result<(), BuildError>;

    /// Whether `own`, if `key` is given it, has an effect on it as the limits are.
    fn has_effect(&self, key: &[u8], own: &Limit) -> bool;

    /// Whether what its keys were last given elsewhere holds here, too. (What is given
    /// on one server of the store holds on every one, within the time that the store
    /// says.)
    ///
    /// # Errors
    /// What of it cannot be read, such as what a newer version wrote, or cannot be given
    /// to a key here: then the key has what it had.
    fn check_overrides(&self) -> Result<(), BuildError>;
}

impl SetInternals for LimitSet {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.inner(), other.inner())
    }

    fn is_shared(&self) -> bool {
        self.inner().shared
    }

    fn differing(&self) -> &[Differing] {
        &self.inner().differing
    }

    fn let_partial_keys_in(&self, partial_keys: bool) {
        self.inner().let_partial_keys_in(partial_keys);
    }

    fn capacity_for<'k>(&self, key: impl Into<Key<'k>>, name: &str) -> Option<Amount> {
        self.inner().capacity_for(key.into().bytes(), name)
    }

    fn lease_length<'k>(&self, key: impl Into<Key<'k>>) -> Duration {
        self.inner().lease_length(key.into().bytes()).as_duration()
    }

    fn cancel_unseen<'k>(&self, key: impl Into<Key<'k>>, id: LeaseId) {
        let key = key.into().bytes();
        self.inner().end_unseen(key, id.0, How::Cancel);
    }

    fn replace_all(&self, limits: &[Limit], given: Overrides) -> Result<(), BuildError> {
        self.inner().replace_all(limits, given)
    }

    fn check_limit(&self, limit: &Limit) -> Result<(), BuildError> {
        self.inner().check_limit(limit)
    }

    fn give(&self, key: &[u8], limits: Option<Arc<[Limit]>>) -> Result<(), BuildError> {
        self.inner().give(key, limits)
    }

    fn check_override(&self, key: &[u8], own: &Limit) -> Result<(), BuildError> {
        self.inner().check_override(key, own)
    }

    fn check_added_names(&self, given: &[Limit]) -> Result<(), BuildError> {
        self.inner().check_added_names(given)
    }

    fn has_effect(&self, key: &[u8], own: &Limit) -> bool {
        self.inner().has_effect(key, own)
    }

    fn check_overrides(&self) -> Result<(), BuildError> {
        self.inner().check_overrides()
    }
}

/// Whether two handles spend what the same tier holds: then it counts on.
#[must_use]
pub fn is_same_tier(one: &LimitSet, other: &LimitSet) -> bool {
    one.is_same_tier(other)
}
