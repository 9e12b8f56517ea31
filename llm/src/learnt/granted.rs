//! What was counted when a call was granted.

use tidegate_core::{Amount, Standing, Timestamp};

use super::charged::Charged;
use super::room::Sent;

/// The place of a call among all calls of an account: when its store granted it, or when it was sent,
/// and, of one instant, which it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Order {
    /// When that was, by its store's clock.
    pub at: Timestamp,
    /// A number that grows with each call of the same gateway.
    pub nth: u64,
}

impl Order {
    /// The next place.
    pub(super) const fn next(self) -> Self {
        Self {
            nth: self.nth.saturating_add(1),
            ..self
        }
    }
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
    /// Nobody knows whether the provider has carried it out and counted it: here it counts as used.
    Lost,
}

/// What was counted when a call was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// When it was granted.
    pub order: Order,
    /// How much it took.
    pub(super) amount: Amount,
    /// The most that the limit granted then.
    pub(super) capacity: Amount,
    /// What was used and held then, its own amount included.
    pub(super) used: Amount,
    /// What was charged for others by then, as far as was known.
    pub(super) charged: Charged,
    /// From then on nothing of it is counted any more.
    pub(super) until: Timestamp,
    /// When it was sent.
    pub(super) sent: Option<Sent>,
    /// Whether one that was granted later was sent before it. The provider had counted that by then,
    /// and what was used here when it was granted had not.
    pub(super) is_overtaken: bool,
}

impl Granted {
    /// How much the call took, in units of the limit.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        self.amount
    }

    /// Its place among all calls of an account by which answers are merged: when it was sent.
    pub(super) fn place(&self) -> Order {
        Order {
            at: self.sent.map_or(self.order.at, |sent| sent.at),
            ..self.order
        }
    }
}

/// What is used and held of a limit that stands so.
pub(super) const fn used(standing: &Standing) -> Amount {
    let fits = standing.limit.saturating_sub(standing.remaining);
    fits.saturating_add(standing.debt)
}
