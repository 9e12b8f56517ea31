//! The rules of a limit set, as a store is given them: validated, ordered by
//! level, with a version that grows with every change.
//!
//! Some keys may have limits of other numbers ([`Overrides`]). They are part of
//! the plan: a key that is given one, or loses it, is a change of the plan like
//! any other, and who was told an older version is told so. Which rules decide
//! about a key, [`Plan::at`] says, and nobody else.

use std::ops::Range;
use std::sync::Arc;

use tidegate_core::{Amount, Bucket, Payment, Rule, Span, Timestamp};

use crate::key::KeyPath;
use crate::keymap::KeyMap;
use crate::owned::OwnedKey;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::usage::Hour;

/// Keys (and ancestors) whose limits are not the plan's: each with the
/// [variant](Plan::variant) that its row goes by. Many keys share one.
pub type Overrides = KeyMap<Arc<Plan>>;

/// One limit of a set.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanLimit {
    /// Its name, unique in the set.
    pub name: Arc<str>,
    /// A number that is never given to another limit of the same set: how a
    /// lease finds the limit after others were added or removed.
    pub uid: u32,
    /// Its arithmetic.
    pub rule: Rule,
    /// Which ancestor it is about, outermost first.
    pub level: usize,
    /// How a cost is admitted.
    pub payment: Payment,
    /// Decide and record, but refuse nobody.
    pub shadow: bool,
    /// Give rate amounts back when a lease expires unsettled.
    pub refund_on_expiry: bool,
    /// Its capacity may be another one from one command to the next; `None`: it is its
    /// rule's.
    pub adaptive: Option<Adaptive>,
}

/// A capacity that changes often: one that is learnt, or a share of a fleet's. It travels
/// with each command, so that to change it is no new version of the limits: nothing is
/// carried over, and what is in use stays counted. Clones share it, so that a request that
/// waits already goes by the newest, too.
///
/// It is its caller's own. Others who ask the same store may go by another one.
#[derive(Clone, Debug, Default)]
pub struct Adaptive(Arc<AtomicU64>);

/// What a plan is does not depend on the capacity of the moment.
impl PartialEq for Adaptive {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Adaptive {
    /// The capacity of the moment; `None` until one was [set](Self::set): the rule's.
    #[must_use]
    pub fn capacity(&self) -> Option<Amount> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            capacity => Some(capacity),
        }
    }

    /// From the next decision on. One that no rule can have (0, or more than 2^53 - 1)
    /// is not gone by.
    pub fn set(&self, capacity: Amount) {
        self.0.store(capacity, Ordering::Release);
    }
}

impl PlanLimit {
    /// The level at which what is charged of it is [counted](crate::usage): none where it is held.
    pub(crate) const fn counted_at(&self) -> Option<u8> {
        match self.rule.is_held() {
            true => None,
            false => Some(self.level as u8),
        }
    }

    /// Whether it is its rule and nothing else: what is taken must fit, and an expired
    /// lease gives nothing back. Stores have faster ways for those.
    #[must_use]
    pub const fn is_simple(&self) -> bool {
        matches!(self.payment, Payment::Prepaid)
            && !self.shadow
            && !self.refund_on_expiry
            && self.adaptive.is_none()
    }

    /// Whether a store keeps both alike: all but whether they are adaptive is the same.
    fn is_kept_as(&self, other: &Self) -> bool {
        let Self {
            name,
            uid,
            rule,
            level,
            payment,
            shadow,
            refund_on_expiry,
            adaptive: _,
        } = self;
        (name, uid, rule, level) == (&other.name, &other.uid, &other.rule, &other.level)
            && (*payment, *shadow) == (other.payment, other.shadow)
            && *refund_on_expiry == other.refund_on_expiry
    }

    /// Its rule with the capacity of the moment, if it has one.
    #[must_use]
    pub fn adapted(&self) -> Option<Rule> {
        let capacity = self.adaptive.as_ref()?.capacity()?;
        self.rule.with_capacity(capacity).ok()
    }

    /// Its bucket, if it is [nothing else](Self::is_simple).
    #[must_use]
    pub const fn simple_bucket(&self) -> Option<&Bucket> {
        match &self.rule {
            Rule::Bucket(bucket) if self.is_simple() => Some(bucket),
            _ => None,
        }
    }
}

/// All limits of a set.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    version: u64,
    /// The version in which the limits became what they are.
    since: u64,
    levels: usize,
    limits: Vec<PlanLimit>,
    /// Where each level's limits stand in `limits`.
    ranges: Vec<Range<usize>>,
    /// How long a finished or expired lease is remembered.
    keep: Span,
    overrides: Overrides,
    /// Whether a limit of it is adaptive.
    adapts: bool,
    /// For how long what was used is kept; `None`: it is not counted.
    usage: Option<Span>,
}

impl Plan {
    /// A plan of `limits` over `levels` levels (at least 1; a limit's level is
    /// below it).
    #[must_use]
    pub fn new(version: u64, levels: usize, mut limits: Vec<PlanLimit>, keep: Span) -> Self {
        limits.sort_by_key(|limit| limit.level);
        let range = |level| {
            let start = limits.partition_point(|l| l.level < level);
            start..limits.partition_point(|l| l.level <= level)
        };
        let ranges = (0..levels.max(1)).map(range).collect();
        let adapts = limits.iter().any(|limit| limit.adaptive.is_some());
        Self {
            version,
            since: version,
            levels: levels.max(1),
            limits,
            ranges,
            keep,
            overrides: Overrides::default(),
            adapts,
            usage: None,
        }
    }

    /// The same plan, in which these keys have limits of their own.
    #[must_use]
    pub fn with_overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// The same plan, which has what is used [counted](crate::usage), and kept for so long
    /// after its hour; `None`: not counted.
    #[must_use]
    pub const fn counting_usage(mut self, keep: Option<Span>) -> Self {
        self.usage = keep;
        self
    }

    /// The same limits as a later version, in which other keys have limits of
    /// their own.
    #[must_use]
    pub fn going_on(&self, version: u64, overrides: Overrides) -> Self {
        let mut plan = self.clone().with_overrides(overrides);
        plan.version = version;
        plan
    }

    /// Whether this is another version of the same limits: what keys have of
    /// their own may differ.
    #[must_use]
    pub const fn goes_on_from(&self, other: &Self) -> bool {
        self.since == other.since && self.levels == other.levels
    }

    /// The keys that have limits of their own.
    #[must_use]
    pub const fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// This plan with other rules: `rule` answers those of the limits that have
    /// one. Everything else about a limit, and about the plan, stays.
    #[must_use]
    pub fn variant(&self, mut rule: impl FnMut(&PlanLimit) -> Option<Rule>) -> Self {
        let mut variant = self.clone().with_overrides(Overrides::default());
        for limit in &mut variant.limits {
            if let Some(rule) = rule(limit) {
                limit.rule = rule;
            }
        }
        variant
    }

    /// The same plan, whose limits have the capacities of the moment that `adaptive` answers;
    /// `None`: those of their rules.
    #[must_use]
    pub fn with_capacities(
        &self,
        mut adaptive: impl FnMut(&PlanLimit) -> Option<Adaptive>,
    ) -> Self {
        let mut plan = self.clone();
        for limit in &mut plan.limits {
            limit.adaptive = adaptive(limit);
        }
        plan.adapts = plan.limits.iter().any(|limit| limit.adaptive.is_some());
        plan
    }

    /// The plan that the row of `key` goes by.
    #[inline]
    #[must_use]
    pub fn of_row(&self, key: &[u8]) -> &Self {
        if self.overrides.is_empty() {
            return self;
        }
        self.overrides.get(key).map_or(self, |variant| variant)
    }

    /// The plan that `path` is decided by, if that is not this one: each level
    /// has the limits of the row that is there; a row without limits of its own has the
    /// plan's, the adaptive ones with the capacity of the moment.
    #[inline]
    #[must_use]
    pub fn at(&self, path: &KeyPath<'_>) -> Option<Arc<Self>> {
        if self.overrides.is_empty() && !self.adapts {
            return None;
        }
        self.adapted(self.combined(path), path)
    }

    /// `own`, what the rows of `path` have for themselves, with the capacities of the
    /// moment where they have nothing of their own.
    fn adapted(&self, mut own: Option<Arc<Self>>, path: &KeyPath<'_>) -> Option<Arc<Self>> {
        for (position, limit) in self.limits.iter().enumerate() {
            if let Some(rule) = limit.adapted()
                && limit.level < path.depth()
                && self.own_limits(path, limit.level).is_none()
            {
                let plan = own.get_or_insert_with(|| Arc::new(self.clone()));
                Arc::make_mut(plan).limits[position].rule = rule;
            }
        }
        own
    }

    /// The plan with the limits that the row of `path` at `level` has for itself, if it
    /// has any.
    #[must_use]
    pub fn own_limits(&self, path: &KeyPath<'_>, level: usize) -> Option<&Arc<Self>> {
        let range = self.range(level);
        let variant = self.overrides.get(&path.row(level))?;
        (variant.limits[range.clone()] != self.limits[range]).then_some(variant)
    }

    /// The limits that have another capacity in `deciding`, what [`at`](Self::at) answered
    /// for `path`, than their rows go by. Each with its position.
    pub fn moved<'d>(
        &'d self,
        deciding: &'d Self,
        path: &'d KeyPath<'_>,
    ) -> impl Iterator<Item = (usize, &'d PlanLimit)> {
        let limits = deciding.limits.iter().enumerate();
        limits.filter(move |(position, limit)| {
            self.adapts
                && limit.level < path.depth()
                && limit.rule != self.limits[*position].rule
                && self.own_limits(path, limit.level).is_none()
        })
    }

    /// Goes on with the capacities of the moment that `old` has for the same limits.
    pub fn keep_capacities(&self, old: &Self) {
        for limit in &self.limits {
            let before = old.position(limit.uid).map(|at| &old.limits[at].adaptive);
            if let (Some(new), Some(Some(before))) = (&limit.adaptive, before)
                && let Some(capacity) = before.capacity()
            {
                new.set(capacity);
            }
        }
    }

    #[cold]
    fn combined(&self, path: &KeyPath<'_>) -> Option<Arc<Self>> {
        let levels = (0..path.depth().min(self.levels)).filter_map(|level| {
            let variant = self.overrides.get(&path.row(level))?;
            Some((level, variant))
        });
        let mut combined: Option<Arc<Self>> = None;
        for (level, variant) in levels {
            match &mut combined {
                None => combined = Some(Arc::clone(variant)),
                Some(plan) => {
                    let range = self.range(level);
                    let limits = &mut Arc::make_mut(plan).limits[range.clone()];
                    limits.clone_from_slice(&variant.limits[range]);
                }
            }
        }
        combined
    }

    /// Grows with every change.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// How many levels a key may have.
    #[must_use]
    pub const fn levels(&self) -> usize {
        self.levels
    }

    /// The limits, outermost level first.
    #[must_use]
    pub fn limits(&self) -> &[PlanLimit] {
        &self.limits
    }

    /// The positions in [`limits`](Self::limits) of one level's.
    #[must_use]
    pub fn range(&self, level: usize) -> Range<usize> {
        self.ranges[level].clone()
    }

    /// The position of the first of one level's limits.
    #[inline]
    pub(crate) fn start(&self, level: usize) -> usize {
        match level {
            0 => 0,
            level => self.ranges[level].start,
        }
    }

    /// How long a finished or expired lease is remembered.
    #[must_use]
    pub const fn keep(&self) -> Span {
        self.keep
    }

    /// For how long what was used in an hour is kept after it; `None`: usage is not
    /// counted.
    #[inline]
    #[must_use]
    pub const fn usage(&self) -> Option<Span> {
        self.usage
    }

    /// Whether what was used in an hour is over by this plan at `now`: told no more, however
    /// long it was to be kept when it was noted.
    #[must_use]
    pub fn usage_is_over(&self, hour: Hour, now: Timestamp) -> bool {
        self.usage.is_some_and(|keep| hour.over_at(keep) <= now)
    }

    /// The bucket that a plan is that has one level, one bucket that is
    /// [nothing else](PlanLimit::is_simple), and counts no usage: stores have faster ways
    /// for it.
    #[must_use]
    pub fn single_bucket(&self) -> Option<&Bucket> {
        match &self.limits[..] {
            [limit] if self.levels == 1 && self.usage.is_none() => limit.simple_bucket(),
            _ => None,
        }
    }

    /// Whether the rows of both are alike, but for keys that have limits of their own: it
    /// differs from `other` at most in its version, and in which limits are adaptive. (A
    /// capacity travels with each command. What was read back from a store's bytes does not
    /// know of any.)
    #[must_use]
    pub fn has_limits_of(&self, other: &Self) -> bool {
        self.levels == other.levels
            && (self.keep, self.usage) == (other.keep, other.usage)
            && self.limits.len() == other.limits.len()
            && (self.limits.iter().zip(&other.limits)).all(|(one, other)| one.is_kept_as(other))
    }

    /// The keys whose rows go by other limits than they do in `old`, which
    /// this one [goes on from](Self::goes_on_from).
    #[must_use]
    pub fn differing_from<'a>(&'a self, old: &'a Self) -> Vec<&'a OwnedKey> {
        let alike =
            |new: &Arc<Self>, old: &Arc<Self>| Arc::ptr_eq(new, old) || new.limits == old.limits;
        let mut keys = self.overrides.differing(&old.overrides, alike);
        // To have the plan's own limits is to have none of one's own.
        keys.retain(|key| self.of_row(key.bytes()).limits != old.of_row(key.bytes()).limits);
        keys
    }

    /// As [`position`](Self::position), looked for at `near` first.
    #[inline]
    #[must_use]
    pub fn position_near(&self, uid: u32, near: usize) -> Option<usize> {
        match self.limits.get(near) {
            Some(limit) if limit.uid == uid => Some(near),
            _ => self.position(uid),
        }
    }

    /// Where the limit with `uid` stands.
    #[must_use]
    pub fn position(&self, uid: u32) -> Option<usize> {
        self.limits.iter().position(|limit| limit.uid == uid)
    }
}
