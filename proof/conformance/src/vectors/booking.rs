//! How an admitted request is charged.

use tidegate_core::Span;

/// Longer than any table: what is not held is given back by no expiry.
pub(super) const LONG: Span = Span::from_secs(3_600);

/// The number of the limit that the table is about.
pub(super) const OWN: u32 = 0;

/// How an admitted request is charged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Booking {
    /// As a lease, which later steps may end.
    Leased,
    /// For good.
    ForGood,
    /// For good, by a take that is answered by its verdict alone; standings come of peeks.
    VerdictOnly,
    /// The same by an atomic bucket, where the store hands one out.
    Pinned,
}
