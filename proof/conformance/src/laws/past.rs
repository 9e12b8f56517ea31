//! Steps of a random past, whose waits and amounts cross the boundaries of a limit.

use tidegate_core::Amount;

use super::kinds::Kind;
use crate::dice::Dice;

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
    pub(super) fn some(dice: &mut Dice, kind: &Kind, count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::random(dice, kind)).collect()
    }

    fn random(dice: &mut Dice, kind: &Kind) -> Self {
        Self {
            wait: wait(dice, kind),
            amount: dice.between(1, kind.rule.capacity() + 1),
            act: match dice.below(9) {
                0 | 1 => Act::GiveBack(dice.below(100) as usize),
                2 => Act::Debit,
                3 => Act::Spend,
                _ => Act::Take,
            },
        }
    }
}

/// Mostly a part of the refill, at times more than two, at times nothing.
pub(super) fn wait(dice: &mut Dice, kind: &Kind) -> i64 {
    let thousandths = match dice.below(10) {
        0..3 => 0,
        3..8 => dice.below(300),
        _ => dice.below(2_500),
    };
    thousandths as i64 * kind.refill / 1_000 + dice.below(4) as i64
}
