//! What every kernel is told with a charge, and what it answers: when it is decided, who
//! holds what is charged, and where it was booked.

use crate::time::Timestamp;

/// A calendar's window at some instant, and where the next one ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// When this window began.
    pub start: Timestamp,
    /// When it ends and the next one begins.
    pub end: Timestamp,
    /// When the next one ends.
    pub next_end: Timestamp,
}

/// When something is decided, and where the calendar stands then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecisionTime {
    /// The instant of the decision.
    pub now: Timestamp,
    /// The calendar's boundaries, for a window that follows one.
    pub calendar: Option<Bounds>,
}

impl DecisionTime {
    /// An instant without a calendar.
    #[must_use]
    pub const fn at(now: Timestamp) -> Self {
        Self {
            now,
            calendar: None,
        }
    }
}

/// Where a charge was booked, so that a refund finds it: the start of a
/// window, the index of a sub-window, the instant of a log's entry, the number
/// of a bucket's lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChargeReference(pub(crate) i64);

impl ChargeReference {
    /// Of a charge that was more than the state can say: nothing of it is given back,
    /// since nobody could tell it from what others had used.
    pub(crate) const NONE: Self = Self(-(1 << 53));

    /// The reference as a number, for a store to keep.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// The reference that [`as_i64`](Self::as_i64) gave.
    #[must_use]
    pub const fn from_i64(reference: i64) -> Self {
        Self(reference)
    }
}

/// Who holds slots, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTerm {
    /// The lease's id.
    pub id: u128,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// What a charge answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Receipt {
    /// Where it was booked.
    pub reference: ChargeReference,
    /// The fence of a grant of slots; 0 for everything else.
    pub fence: u64,
}

impl Receipt {
    /// Of a charge that was booked there.
    #[inline]
    pub(crate) const fn of(reference: ChargeReference) -> Self {
        Self {
            reference,
            fence: 0,
        }
    }
}
