//! What was charged because others have used it, ever.
//!
//! A sum that only grows, over a stretch that is longer than any call. What is new of it since a call
//! was granted is a difference of two sums, whatever has left a limit's window meanwhile.

use tidegate_core::{Amount, Timestamp};

/// So much in all, in the stretch that ends then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Charged {
    pub(super) total: Amount,
    pub(super) until: Timestamp,
}

impl Charged {
    /// How much it is in the stretch of `now`.
    pub(super) fn at(&self, now: Timestamp) -> Amount {
        match now < self.until {
            true => self.total,
            false => 0,
        }
    }
}
