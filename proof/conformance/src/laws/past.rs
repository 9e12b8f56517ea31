//! Steps of a random past, whose waits and amounts cross the boundaries of a limit.

use tidegate_core::Amount;

use super::kinds::Kind;
use crate::rng::Rng;

/// One step of a past: time passes, then something is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) wait: i64,
    pub(super) amount: Amount,
    pub(super) act: Act,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Take,
    /// Take for good.
    Spend,
    Debit,
    /// One of the leases that are held gives everything back.
    GiveBack(usize),
}

impl Step {
    /// So many steps of a limit's: waits drawn by its refill, amounts by its capacity.
    pub(super) fn some(rng: &mut Rng, kind: &Kind, count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::random(rng, kind)).collect()
    }

    fn random(rng: &mut Rng, kind: &Kind) -> Self {
        Self {
            wait: wait(rng, kind),
            amount: rng.between(1, kind.rule.capacity() + 1),
            act: match rng.below(9) {
                0 | 1 => Act::GiveBack(rng.below(100) as usize),
                2 => Act::Debit,
                3 => Act::Spend,
                _ => Act::Take,
            },
        }
    }
}

/// Mostly a part of the refill, at times more than two, at times nothing.
pub(super) fn wait(rng: &mut Rng, kind: &Kind) -> i64 {
    let thousandths = match rng.below(10) {
        0..3 => 0,
        3..8 => rng.below(300),
        _ => rng.below(2_500),
    };
    thousandths as i64 * kind.refill / 1_000 + rng.below(4) as i64
}
