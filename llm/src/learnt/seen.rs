//! What one answer said of one limit.

use tidegate_core::{Amount, Span, Timestamp};

use crate::headers::Observation;

/// What one answer said of one limit, in that limit's units. Any part may be missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// How much there is when it is full.
    pub limit: Option<Amount>,
    /// How much is left, once this call was counted.
    pub remaining: Option<Amount>,
    /// When it is full again.
    pub reset_at: Option<Timestamp>,
}

impl Seen {
    /// What the observations that are about a limit over `period` say of it: where several are
    /// (of the project and of the account), the least of each. A limit over an unknown length of
    /// time is none of this one, unless nothing else is said; what is left of it counts all the same.
    pub fn of<'o>(
        observations: impl Iterator<Item = &'o Observation> + Clone,
        period: Span,
    ) -> Self {
        let fits = |seen: &&Observation| seen.window.is_none_or(|window| window == period);
        let fitting = observations.filter(fits);
        let exact = fitting.clone().filter(|seen| seen.window.is_some());
        let limit = exact.filter_map(|seen| seen.limit).min();
        let limit = limit.or_else(|| fitting.clone().filter_map(|seen| seen.limit).min());
        let least = fitting.filter(|seen| seen.remaining.is_some());
        let least = least.min_by_key(|seen| seen.remaining);
        Self {
            // Of none at all there is nothing to be learnt.
            limit: limit.filter(|limit| *limit > 0),
            remaining: least.and_then(|seen| seen.remaining),
            reset_at: least.and_then(|seen| seen.reset_at),
        }
    }

    /// The same in another unit.
    #[must_use]
    pub fn map(self, unit: impl Fn(Amount) -> Amount) -> Self {
        Self {
            limit: self.limit.map(&unit),
            remaining: self.remaining.map(&unit),
            reset_at: self.reset_at,
        }
    }

    /// Whether it says how much.
    #[must_use]
    pub const fn says_something(&self) -> bool {
        self.limit.is_some() || self.remaining.is_some()
    }
}
