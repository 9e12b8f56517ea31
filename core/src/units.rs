//! What a node was granted in advance, and may spend without asking: units of several
//! limits, taken together and good until one instant.
//!
//! Each grant is counted by itself. What is left of one is never added to another: the other
//! may have been charged in a later window, and end later. So a request is covered by one
//! grant, or by none.

use alloc::boxed::Box;

use crate::amount::Amount;
use crate::time::Timestamp;

/// Units of one grant, in the order of its limits. See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Units {
    granted: Box<[Amount]>,
    spent: Box<[Amount]>,
    end: Timestamp,
}

impl Units {
    /// So many of each limit, good until just before `end`.
    #[must_use]
    pub fn new(granted: &[Amount], end: Timestamp) -> Self {
        Self {
            granted: granted.into(),
            spent: granted.iter().map(|_| 0).collect(),
            end,
        }
    }

    /// From when on nothing of it is spent.
    #[must_use]
    pub const fn end(&self) -> Timestamp {
        self.end
    }

    /// What was granted of each limit.
    #[must_use]
    pub const fn granted(&self) -> &[Amount] {
        &self.granted
    }

    /// What was spent of each limit: at most what was granted.
    #[must_use]
    pub const fn spent(&self) -> &[Amount] {
        &self.spent
    }

    /// What is left of the limit at `position`, whether it is still good or not; 0 where
    /// there is none.
    #[inline]
    #[must_use]
    pub fn left(&self, position: usize) -> Amount {
        let granted = self.granted.get(position).copied().unwrap_or(0);
        granted - self.spent.get(position).copied().unwrap_or(0)
    }

    /// Whether nothing is left of any limit.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.granted == self.spent
    }

    /// Whether it is good at `now`.
    #[inline]
    #[must_use]
    pub fn is_good(&self, now: Timestamp) -> bool {
        now < self.end
    }

    /// Whether `amounts` are all there and it is good at `now`.
    #[inline]
    #[must_use]
    pub fn covers(&self, amounts: &[Amount], now: Timestamp) -> bool {
        let mut covers = self.is_good(now);
        for (position, &amount) in amounts.iter().enumerate() {
            covers &= amount <= self.left(position);
        }
        covers
    }

    /// Spends `amounts`, if it [covers](Self::covers) them; else nothing. Whether it did.
    #[inline]
    pub fn spend(&mut self, amounts: &[Amount], now: Timestamp) -> bool {
        let covers = self.covers(amounts, now);
        if covers {
            for (spent, amount) in self.spent.iter_mut().zip(amounts) {
                *spent += amount;
            }
        }
        covers
    }

    /// Takes back what was spent of it and not used after all: never more than was spent,
    /// and its end stays.
    pub fn refund(&mut self, amounts: &[Amount]) {
        for (spent, &amount) in self.spent.iter_mut().zip(amounts) {
            *spent = spent.saturating_sub(amount);
        }
    }
}
