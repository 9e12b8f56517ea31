//! What a limit answers.

use crate::amount::Amount;
use crate::time::{Span, Timestamp};

/// May this work start? A refusal is an answer, not an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Yes, now.
    Admit,
    /// Not now. If nothing else happens it is admitted at exactly this
    /// instant, and refused one microsecond before.
    NotUntil(Timestamp),
    /// Not ever: more than the limit could grant when full.
    Never,
}

impl Verdict {
    /// Whether the work may start.
    #[must_use]
    pub const fn admitted(self) -> bool {
        matches!(self, Self::Admit)
    }

    /// Whether `self` keeps the work out for longer than `other`.
    #[must_use]
    pub fn outlasts(self, other: Self) -> bool {
        self.rank() > other.rank()
    }

    /// Of *not now*: how long to wait, as of `now`. Never nothing: whoever was refused
    /// just now is not to come back at once.
    #[must_use]
    pub fn retry_after(self, now: Timestamp) -> Option<Span> {
        match self {
            Self::NotUntil(at) => Some(at.since(now).max(Span::from_micros(1))),
            Self::Admit | Self::Never => None,
        }
    }

    /// The same, but not before `until`.
    #[must_use]
    pub fn put_off(self, until: Timestamp) -> Self {
        let off = Self::NotUntil(until);
        if off.outlasts(self) { off } else { self }
    }

    /// When the work may start: the beginning of time if now, `MAX` if never.
    fn rank(self) -> (u8, Timestamp) {
        match self {
            Self::Admit => (0, Timestamp::MIN),
            Self::NotUntil(at) => (1, at),
            Self::Never => (2, Timestamp::MAX),
        }
    }
}

/// Where a limit stands for one key at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The most that could ever be granted at once.
    pub limit: Amount,
    /// Whole units that could be granted now.
    pub remaining: Amount,
    /// Units used beyond the limit and not yet paid back (rounded up).
    pub debt: Amount,
    /// When `remaining` next grows by itself; `None` if it is full.
    pub replenish_at: Option<Timestamp>,
    /// When everything is available again; `None` if it is.
    pub full_at: Option<Timestamp>,
}

impl Standing {
    /// A limit of `limit` units of which nothing is used.
    #[must_use]
    pub const fn full(limit: Amount) -> Self {
        Self {
            limit,
            remaining: limit,
            debt: 0,
            replenish_at: None,
            full_at: None,
        }
    }
}

/// What could be asked for, and when, without asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// How many requests for the given amount would be admitted now.
    pub spendable: Amount,
    /// When one request for the given amount would be admitted.
    pub verdict: Verdict,
    /// The standing it is derived from.
    pub standing: Standing,
}
