//! The virtual time of a flow, or of a class: what it was charged, over its weight.
//!
//! Start-time fair queueing: P. Goyal, H. M. Vin, H. Cheng, "Start-time Fair Queueing: A
//! Scheduling Algorithm for Integrated Services Packet Switching Networks", SIGCOMM 1996.
//! What is added here is the correction by the true cost.

use tidegate_core::Amount;

/// Virtual time: 2^32 of these are a unit of cost at weight 1. What rounding loses of a
/// request is less than a thousandth of a unit at every weight.
pub(super) type Virtual = u128;

/// What `cost` takes of virtual time at `weight`, which is not 0.
pub(super) fn virtual_cost(cost: Amount, weight: u32) -> Virtual {
    (u128::from(cost) << 32) / u128::from(weight)
}

/// Where one stands that shares with others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// The start tag of what it starts next.
    start: Virtual,
    /// Nothing that is given back goes behind this: when it last came with nothing waiting.
    floor: Virtual,
}

impl Account {
    pub(super) const fn start(&self) -> Virtual {
        self.start
    }

    /// It has something to start again, and had not: it saved nothing up meanwhile.
    pub(super) fn activate(&mut self, now: Virtual) {
        self.floor = now;
        self.start = self.start.max(now);
    }

    pub(super) fn charge(&mut self, cost: Virtual) {
        self.start = self.start.saturating_add(cost);
    }

    /// What was charged as `from` has cost `to`.
    pub(super) fn correct(&mut self, from: Virtual, to: Virtual) {
        match to.checked_sub(from) {
            Some(more) => self.charge(more),
            None => {
                let lower = self.start.saturating_sub(from - to);
                // One that is behind its floor already has nothing to be given back.
                self.start = lower.max(self.floor.min(self.start));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_what_was_charged_and_never_older_than_the_present_wait() {
        let mut account = Account::default();
        account.activate(100);
        account.charge(50);
        account.correct(50, 20);
        assert_eq!(account.start(), 120);
        account.correct(20, 90);
        assert_eq!(account.start(), 190);
        account.activate(1_000);
        account.correct(90, 0);
        assert_eq!(
            account.start(),
            1_000,
            "its debt was forgotten with its wait"
        );
    }
}
