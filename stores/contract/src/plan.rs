//! The rules of a limit set, as a store is given them: validated, ordered by
//! level, with a version that grows with every change.

use std::ops::Range;
use std::sync::Arc;

use tidegate_core::{Payment, Rule, Span};

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
}

/// All limits of a set.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    version: u64,
    levels: usize,
    limits: Vec<PlanLimit>,
    /// Where each level's limits stand in `limits`.
    ranges: Vec<Range<usize>>,
    /// How long a finished or expired lease is remembered.
    keep: Span,
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
        Self {
            version,
            levels: levels.max(1),
            limits,
            ranges,
            keep,
        }
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

    /// How long a finished or expired lease is remembered.
    #[must_use]
    pub const fn keep(&self) -> Span {
        self.keep
    }

    /// Whether `other` decides everything alike: it differs in its version at
    /// most.
    #[must_use]
    pub fn decides_as(&self, other: &Self) -> bool {
        self.levels == other.levels && self.keep == other.keep && self.limits == other.limits
    }

    /// Where the limit with `uid` stands.
    #[must_use]
    pub fn position(&self, uid: u32) -> Option<usize> {
        self.limits.iter().position(|limit| limit.uid == uid)
    }
}
