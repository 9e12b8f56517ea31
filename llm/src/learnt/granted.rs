//! What was counted when a call was granted.

use tidegate_core::{Amount, Standing, Timestamp};

/// The place of a call among all calls of an account: when its store granted it, and, of one
/// instant, which it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Order {
    /// When it was granted, by its store's clock.
    pub at: Timestamp,
    /// A number that grows with each call of the same gateway.
    pub nth: u64,
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// It was let in: the provider has counted it.
    Accepted,
    /// The provider refused it for a rate, and has not counted it.
    Refused,
    /// Another error; it is not counted.
    Failed,
}

/// What was counted when a call was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its place.
    pub order: Order,
    /// How much it took.
    pub(super) amount: Amount,
    /// What was used and held then, its own amount included.
    pub(super) used: Amount,
    /// How much of that was charged because others had used it, as far as is known.
    pub(super) charged: Amount,
    /// From then on nothing of it is counted any more.
    pub(super) until: Timestamp,
}

/// What is used and held of a limit that stands so.
pub(super) const fn used(standing: &Standing) -> Amount {
    let fits = standing.limit.saturating_sub(standing.remaining);
    fits.saturating_add(standing.debt)
}
