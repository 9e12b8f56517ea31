//! How a set is made.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::Span;
use tidegate_store::sync::atomic::AtomicU64;
use tidegate_store::{Plan, Store, StoreError, Table, TableBounds, key::MAX_LEVELS};
use tidegate_tier::{Tier, Tiered, tiered};

use super::cooling::Cooling;
use super::differing;
use super::inner::{Inner, LimitSet, Metadata};
use super::kept::Kept;
use super::override_store::OverrideStore;
use super::uid::{numbered, uid_in};
use super::variants::{self, Overrides};
use super::versions::Versions;
use super::view::{View, lease_span};
use super::waiters::Waiters;
use crate::clock::{Clock, TierTimer};
use crate::error::BuildError;
use crate::limit::Limit;
use crate::statistics::Counters;

/// How many may wait at once unless said otherwise.
const MAX_WAITING: usize = 10_000;

/// So many of them may be of one root unless it is said otherwise, however few may wait.
const LEAST_WAITING_PER_ROOT: usize = 8;

/// For how long a set that keeps usage keeps it, at least: an hour.
pub const SHORTEST_USAGE: Duration = Duration::from_secs(3_600);
/// For how long a set that keeps usage keeps it, at most: ten years.
pub const LONGEST_USAGE: Duration = Duration::from_secs(3_660 * 86_400);

/// Makes a [`LimitSet`]; [`LimitSet::builder`] begins one.
#[derive(Clone, Default)]
pub struct LimitSetBuilder {
    pub(super) name: Option<String>,
    pub(super) limits: Vec<Limit>,
    pub(super) unlimited: bool,
    pub(super) governed: Option<Overrides>,
    pub(super) levels: Vec<String>,
    pub(super) partial_keys: bool,
    pub(super) bounds: TableBounds,
    pub(super) remember: Option<Duration>,
    pub(super) keep_usage: Option<Duration>,
    pub(super) max_waiting: Option<usize>,
    pub(super) max_waiting_per_root: Option<usize>,
    pub(super) clock: Clock,
    pub(super) metadata: Metadata,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) tier: Option<Tier>,
}

impl LimitSetBuilder {
    /// What its store calls it (`default` if not said): sets of one name on
    /// one store share their state.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a limit.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Adds limits.
    #[must_use]
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        self.limits.extend(limits);
        self
    }

    /// Lets it be built without any limit: see [`LimitSet::unlimited`].
    #[must_use]
    pub fn unlimited(mut self) -> Self {
        self.unlimited = true;
        self
    }

    /// Leaves its overrides to the caller, who keeps them and gives them by
    /// [`Inner::give`] and [`Inner::replace_all`]; the store keeps none for it.
    /// It begins with `given`.
    pub(crate) fn governed(mut self, given: Overrides) -> Self {
        self.governed = Some(given);
        self
    }

    /// Names the levels of its keys, outermost first; at most 8. Keys are then
    /// paths such as `acme/search/alice`, with a segment for each level; a `/` within one
    /// is written `%2F` ([`Key::path`](crate::Key::path) does so). Any other key is
    /// [`RequestError::KeyDepth`](crate::RequestError::KeyDepth): one that is too short would
    /// skip limits.
    #[must_use]
    pub fn levels<S: Into<String>>(mut self, levels: impl IntoIterator<Item = S>) -> Self {
        self.levels = levels.into_iter().map(Into::into).collect();
        self
    }

    /// Lets keys with fewer levels in, too: they are decided by the limits of the levels
    /// that they have.
    #[must_use]
    pub fn partial_keys(mut self) -> Self {
        self.partial_keys = true;
        self
    }

    /// The most keys whose state matters at once (1,048,576 if not said), where
    /// the store keeps its state in this process.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.bounds.max_keys = Some(max_keys);
        self
    }

    /// The most keys under one root (their first segment) whose state matters at
    /// once, where keys have [levels](Self::levels): half of
    /// [`max_keys`](Self::max_keys) and 8 at least if not said; where the store keeps
    /// its state in this process.
    #[must_use]
    pub fn max_keys_per_root(mut self, max_keys_per_root: usize) -> Self {
        self.bounds.max_keys_per_root = Some(max_keys_per_root);
        self
    }

    /// The most leases held at once (1,048,576 if not said), where the store keeps
    /// its state in this process.
    #[must_use]
    pub fn max_leases(mut self, max_leases: usize) -> Self {
        self.bounds.max_leases = Some(max_leases);
        self
    }

    /// The most leases that the keys of one root (their first segment; of a flat
    /// key, all of it) hold at once: half of [`max_leases`](Self::max_leases) and
    /// at most 65,536 if not said; where the store keeps its state in this process.
    #[must_use]
    pub fn max_leases_per_root(mut self, max_leases_per_root: usize) -> Self {
        self.bounds.max_leases_per_root = Some(max_leases_per_root);
        self
    }

    /// The most leases that are remembered after their end (262,144 if not said),
    /// where the store keeps its state in this process. Those that would be
    /// forgotten next give way first; no lease is refused for them.
    #[must_use]
    pub fn max_remembered_leases(mut self, max_remembered_leases: usize) -> Self {
        self.bounds.max_remembered_leases = Some(max_remembered_leases);
        self
    }

    /// How long a lease is remembered that has ended or expired, so that a retry
    /// gets the first answer and late use is still charged: as long as a lease
    /// lasts, and a minute at least, if not said. From a millisecond to 400 days.
    #[must_use]
    pub fn remember(mut self, remember: Duration) -> Self {
        self.remember = Some(remember);
        self
    }

    /// Counts what is used of each key, ancestor and limit, hour by hour, and keeps that for so
    /// long after the hour, from an hour to 3,660 days: [`LimitSet::list_usage`] reads it. It
    /// is not counted if not said. A change holds from the next opening on; a lease that was
    /// granted before it was counted is not counted.
    #[must_use]
    pub fn keep_usage(mut self, keep_usage: Duration) -> Self {
        self.keep_usage = Some(keep_usage);
        self
    }

    /// The most requests that may wait at once (10,000 if not said).
    #[must_use]
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = Some(max_waiting);
        self
    }

    /// The most requests that may wait at once by keys of one root (their first segment; of a
    /// flat key, all of it): half of [`max_waiting`](Self::max_waiting) and 8 at least if not
    /// said.
    #[must_use]
    pub fn max_waiting_per_root(mut self, max_waiting_per_root: usize) -> Self {
        self.max_waiting_per_root = Some(max_waiting_per_root);
        self
    }

    /// Reads the time from `clock`.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// A word that comes with every lease.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Keeps its state in `store` instead of the embedded one.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Decides near the caller. [`Tier::leased`] takes units from the store in advance, and
    /// decides `check` and `admit` by them without asking it; what that may admit beyond the
    /// limits is [stated](Tier::hold). [`Tier::refusals`] remembers what was refused a moment
    /// ago. All else is the store's.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Limit, LimitSet, Tier};
    ///
    /// let set = LimitSet::builder()
    ///     .limit(Limit::calls("rpm", 6_000, Duration::from_secs(60)))
    ///     .tier(Tier::leased(100))
    ///     .build()?;
    /// assert!(set.check("alice", ()).wait()?.admitted());
    /// assert_eq!(set.tier_statistics().expect("it has one").granted, 1);
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    #[must_use]
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tier = Some(tier);
        self
    }

    /// The set.
    ///
    /// # Errors
    /// A limit that makes no sense or is [added](Limit::added), named; two of one name; none at all, unless
    /// it is to be [`unlimited`](Self::unlimited); too many levels; a length of
    /// time that is none; a store that cannot do it.
    pub fn build(self) -> Result<LimitSet, BuildError> {
        if self.levels.len() > MAX_LEVELS {
            return Err(BuildError::TooManyLevels(self.levels.len()));
        }
        Ok(LimitSet::of(Inner::open(self)?))
    }

    /// How many requests may wait, and how many of them by keys of one root.
    pub(super) fn waiting_bounds(&self) -> (usize, usize) {
        let most = self.max_waiting.unwrap_or(MAX_WAITING);
        let share = (most / 2).max(LEAST_WAITING_PER_ROOT);
        (most, self.max_waiting_per_root.unwrap_or(share))
    }

    #[cfg(feature = "memory")]
    pub(super) fn take_store(&mut self) -> Result<Arc<dyn Store>, BuildError> {
        Ok(self.store.take().unwrap_or_else(crate::embedded::store))
    }

    #[cfg(not(feature = "memory"))]
    pub(super) fn take_store(&mut self) -> Result<Arc<dyn Store>, BuildError> {
        let none = BuildError::Nothing("store (or enable the feature `memory`)");
        self.store.take().ok_or(none)
    }
}

impl LimitSet {
    /// A set of `limits` in the embedded store.
    ///
    /// # Errors
    /// As [`LimitSetBuilder::build`].
    #[cfg(feature = "memory")]
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Result<Self, BuildError> {
        Self::builder().limits(limits).build()
    }

    /// A set without limits, in the embedded store, for code that wants one
    /// though there is nothing to limit: it admits whatever is asked, by
    /// whatever names, and its leases are leases like any other. A limit put
    /// into it holds from then on.
    ///
    /// ```
    /// let set = tidegate::LimitSet::unlimited()?;
    /// let lease = set.try_acquire("alice", &[("tokens", 4_000)]).wait()?.granted();
    /// lease.expect("nothing refuses").settle(&[("tokens", 3_000)]).wait()?;
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`LimitSetBuilder::build`].
    #[cfg(feature = "memory")]
    pub fn unlimited() -> Result<Self, BuildError> {
        Self::builder().unlimited().build()
    }

    /// Begins a set.
    #[must_use]
    pub fn builder() -> LimitSetBuilder {
        LimitSetBuilder::default()
    }
}

/// How long ended leases are remembered.
fn remembered(length: Duration) -> Result<Span, BuildError> {
    lease_span(length).ok_or(BuildError::LeaseLength(length))
}

/// For how long usage is kept.
fn kept(length: Duration) -> Result<Span, BuildError> {
    match (SHORTEST_USAGE..=LONGEST_USAGE).contains(&length) {
        true => Ok(Span::from(length)),
        false => Err(BuildError::UsageLength(length)),
    }
}

impl Inner {
    fn open(mut builder: LimitSetBuilder) -> Result<Arc<Self>, BuildError> {
        let limits = std::mem::take(&mut builder.limits);
        if limits.is_empty() && !builder.unlimited {
            return Err(BuildError::Nothing("limit"));
        }
        variants::check_own(&limits)?;
        let name = builder.name.as_deref().unwrap_or("default").to_owned();
        let store = builder.take_store()?;
        let last = store.last_plan(&name)?;
        let known = last.as_deref().map_or(&[][..], Plan::limits);
        let abilities = store.abilities();
        if builder.keep_usage.is_some() && !abilities.counts_usage {
            return Err(StoreError::CannotCount.into());
        }
        let kept = Kept {
            remember: builder.remember.map(remembered).transpose()?,
            usage: builder.keep_usage.map(kept).transpose()?,
        };
        if let Some(tier) = &builder.tier {
            tier.check()?;
        }
        let leased = builder.tier.clone().filter(Tier::is_leased);
        let versions = Versions::new(
            builder.levels.clone(),
            builder.partial_keys,
            kept,
            leased.map(Arc::new),
        );
        let version = last.as_ref().map_or(0, |plan| plan.version() + 1);
        let view = |limits: Vec<Limit>| {
            let limits = numbered(limits, |name| uid_in(known, name));
            let as_said = (kept, versions.tier.as_ref());
            View::new(
                (versions.set, version),
                &builder.levels,
                limits,
                as_said,
                None,
            )
        };
        let override_store =
            (builder.governed.is_none()).then(|| OverrideStore::new(Arc::clone(&store), &name));
        let given = match &override_store {
            Some(override_store) => override_store.given()?,
            None => builder.governed.take().unwrap_or_default(),
        };
        let view = versions.begin(&limits, given, |absent| {
            view(limits.iter().cloned().chain(absent).collect())
        })?;
        let there = last.as_deref().filter(|_| abilities.shared);
        let differing = there.map(|there| {
            let mut differing = differing::between(&view.plan, there);
            // What only some keys have is no server's own.
            differing.retain(|one| view.added().all(|limit| limit.name() != one.limit));
            differing
        });
        if let Some(tier) = &builder.tier {
            tier.check_for(&view.plan)?;
        }
        let bounds = TableBounds {
            steady_clock: true,
            ..builder.bounds
        };
        let mut table = store.open_within(&name, &view.plan, &bounds)?;
        let tier = builder.tier.take().map(|tier| {
            let timer = Arc::new(TierTimer(builder.clock.clone()));
            let own_clock = abilities.own_clock;
            let table = Arc::clone(&table);
            tiered(table, tier, timer, own_clock, &view.plan)
        });
        if let Some(tier) = &tier {
            table = Arc::<dyn Tiered>::clone(tier) as Arc<dyn Table>;
        }
        let clock = builder.clock.clone();
        let inner = Arc::new(Self {
            version: AtomicU64::new(view.version()),
            view: ArcSwap::from_pointee(view),
            table,
            tier,
            waiters: {
                let (most, most_per_root) = builder.waiting_bounds();
                Waiters::new(most, most_per_root)
            },
            timer: Arc::new(builder.clock.clone()),
            clock: builder.clock,
            metadata: builder.metadata,
            counters: Counters::default(),
            shared: abilities.shared,
            has_own_clock: abilities.own_clock,
            loses_answers: abilities.answers_can_be_lost,
            renewals: OnceLock::new(),
            versions,
            override_store,
            differing: differing.unwrap_or_default(),
            cooling: Cooling::new(clock, name, store),
        });
        inner.adopt();
        if let Some(override_store) = &inner.override_store {
            override_store.follow(Arc::<Self>::downgrade(&inner));
        }
        Ok(inner)
    }
}
