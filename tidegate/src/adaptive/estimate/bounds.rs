//! The range of a limit, and the step by which it moves.

use tidegate_core::Amount;

/// The least and the most that a limit may be.
#[derive(Clone, Copy, Debug)]
pub(in crate::adaptive) struct Bounds {
    pub least: Amount,
    pub most: Amount,
}

impl Bounds {
    /// `limit`, brought into the range.
    pub fn hold(self, limit: f64) -> f64 {
        // Up to 2^53 an amount is exact as a float.
        limit.clamp(self.least as f64, self.most as f64)
    }
}

/// The step of Vegas at a limit: the whole part of its decimal logarithm, at least 1.
pub(super) fn step(limit: f64) -> f64 {
    limit.log10().floor().max(1.0)
}
