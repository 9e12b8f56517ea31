//! How far two clocks may disagree about a length of time.

use crate::time::{Span, Timestamp};

/// Two clocks agree on a length of time to one part in this many.
pub const DRIFT: u64 = 1_000;

/// Until when something surely lasts that a store's clock ends at `until`, for one who
/// counts by a clock of its own and began `length` before: a thousandth of that earlier.
#[must_use]
pub fn sure_until(until: Timestamp, length: Span) -> Timestamp {
    until - Span::from_micros(length.as_micros() / DRIFT)
}
