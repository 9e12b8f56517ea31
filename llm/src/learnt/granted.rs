//! What was counted when a call was granted.

use tidegate_core::{Amount, Standing, Timestamp};

use super::charged::Charged;

/// The place of a call among all calls of an account: when its store granted it, and, of one
/// instant, which it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Order {
    /// When it was granted, by its store's clock.
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
    /// Its place.
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
}

/// The sending of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    /// By its store's clock.
    pub(super) at: Timestamp,
    /// How much this gateway has sent ever, the call included. The sum may wrap around.
    pub(super) total: Amount,
}

impl Sent {
    /// How much was sent after another call, if that was before.
    pub(super) fn since(&self, other: &Self) -> Option<Amount> {
        let since = self.total.wrapping_sub(other.total);
        (since <= Amount::MAX / 2).then_some(since)
    }
}

impl Granted {
    /// How much the call took, in units of the limit.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        self.amount
    }
}

/// What is used and held of a limit that stands so.
pub(super) const fn used(standing: &Standing) -> Amount {
    let fits = standing.limit.saturating_sub(standing.remaining);
    fits.saturating_add(standing.debt)
}
