//! What was admitted, counted by the store's clock and by none of the code under test.

use tidegate_store::core::Amount;

use crate::instance::{Instance, Limit};

/// Counts what a history admits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ledger {
    /// Of a window what was admitted in it. Of a bucket the most over all earlier instants of
    /// what was admitted from then on, less what the rate lets in since: what the
    /// burst and the hold have to cover.
    counted: Amount,
}

impl Ledger {
    pub(crate) const fn new() -> Self {
        Self { counted: 0 }
    }

    pub(crate) const fn counted(&self) -> Amount {
        self.counted
    }

    pub(crate) fn admit(&mut self, amount: Amount) {
        self.counted += amount;
    }

    /// The store's clock shows `tick`.
    pub(crate) fn pass(&mut self, instance: &Instance, tick: u32) {
        match instance.limit {
            Limit::Window { ticks, .. } if tick.is_multiple_of(ticks) => self.counted = 0,
            Limit::Window { .. } => {}
            Limit::Bucket { rate, .. } => self.counted = self.counted.saturating_sub(rate),
        }
    }
}
