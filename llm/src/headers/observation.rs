//! What one answer said of one limit.

use std::borrow::Cow;

use tidegate_core::{Amount, Span, Timestamp};

use crate::provider::Unit;

/// More of them than this in one answer are not read.
pub const MOST_OBSERVATIONS: usize = 16;

/// What one answer said of one limit. Any part may be missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The provider's own name of it: `requests`, `input-tokens`, `tokens-minute`. What is beside
    /// the account's limits has one of its own: `priority-input-tokens`, `unified-5h`.
    pub name: Cow<'static, str>,
    /// What it counts.
    pub unit: Unit,
    /// How long its window is, where the provider says so.
    pub window: Option<Span>,
    /// How much there is when it is full.
    pub limit: Option<Amount>,
    /// How much is left, at least: of a number that the provider rounds, the least it can be.
    pub remaining: Option<Amount>,
    /// When it is full again (the IETF draft: when there is more), by the caller's clock.
    pub reset_at: Option<Timestamp>,
}

impl Observation {
    pub(super) fn of(name: &'static str, unit: Unit, window: Option<Span>) -> Self {
        Self {
            name: Cow::Borrowed(name),
            unit,
            window,
            limit: None,
            remaining: None,
            reset_at: None,
        }
    }

    /// Whether it says how much.
    pub(super) const fn says_something(&self) -> bool {
        self.limit.is_some() || self.remaining.is_some()
    }
}
