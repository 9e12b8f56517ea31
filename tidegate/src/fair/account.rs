//! The virtual time of a flow, or of a class: what it was charged, over its weight.
//!
//! Start-time fair queueing: P. Goyal, H. M. Vin, H. Cheng, "Start-time Fair Queueing: A
//! Scheduling Algorithm for Integrated Services Packet Switching Networks", SIGCOMM 1996.
//! What is added here is the correction by the true cost.
//!
//! A flow that comes with nothing waiting begins a *period*, where the others are: what it could
//! have had until then is forgiven. A charge of an earlier period that is corrected afterwards gives
//! back what would not be there had it been right from the beginning. So each period remembers how
//! far ahead of the others the flow was when it began: no more than that comes back of what was
//! charged before.

use smallvec::SmallVec;
use tidegate_core::Amount;

/// Virtual time: 2^32 of these are a unit of cost at weight 1. What rounding loses of a
/// request is less than a thousandth of a unit at every weight.
pub(super) type Virtual = u128;

/// So many periods are told apart. Of more, the two oldest count as one, of which the less comes
/// back.
const PERIODS: usize = 16;

/// What `cost` takes of virtual time at `weight`, which is not 0.
pub(super) fn virtual_cost(cost: Amount, weight: u32) -> Virtual {
    (u128::from(cost) << 32) / u128::from(weight)
}

/// A period of an account, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Period(u64);

/// Where one stands that shares with others.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// The start tag of what it starts next.
    start: Virtual,
    period: Period,
    /// By period, how far ahead it was when that began. The later, the more: one that was further
    /// ahead than a later one bounds nothing.
    ahead: SmallVec<[(Period, Virtual); 1]>,
}

impl Account {
    pub(super) const fn start(&self) -> Virtual {
        self.start
    }

    /// The one that charges are made in now.
    pub(super) const fn period(&self) -> Period {
        self.period
    }

    /// It has something to start again, and had not: it saved nothing up meanwhile.
    pub(super) fn activate(&mut self, now: Virtual) {
        let ahead = self.start.saturating_sub(now);
        self.start = self.start.max(now);
        self.period.0 += 1;
        while self.ahead.last().is_some_and(|(_, last)| *last >= ahead) {
            self.ahead.pop();
        }
        self.ahead.push((self.period, ahead));
        if self.ahead.len() > PERIODS {
            let (second, _) = self.ahead.remove(1);
            self.ahead[0].0 = second;
        }
    }

    pub(super) fn charge(&mut self, cost: Virtual) {
        self.start = self.start.saturating_add(cost);
    }

    /// What was charged as `from`, in that period, has cost `to`.
    pub(super) fn correct(&mut self, charged_in: Period, from: Virtual, to: Virtual) {
        if let Some(more) = to.checked_sub(from) {
            return self.charge(more);
        }
        let mut back = from - to;
        let later = |(began, _): &&mut (Period, Virtual)| *began > charged_in;
        for (_, ahead) in self.ahead.iter_mut().filter(later) {
            let left = ahead.saturating_sub(back);
            back = back.min(*ahead);
            *ahead = left;
        }
        self.start = self.start.saturating_sub(back);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_given_back_is_what_was_charged_and_never_older_than_the_present_wait() {
        let mut account = Account::default();
        account.activate(100);
        let period = account.period();
        account.charge(50);
        account.correct(period, 50, 20);
        assert_eq!(account.start(), 120);
        account.correct(period, 20, 90);
        assert_eq!(account.start(), 190);
        account.activate(1_000);
        account.charge(90);
        account.correct(period, 90, 0);
        assert_eq!(
            account.start(),
            1_090,
            "its debt was forgotten with its wait"
        );
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Activate(Virtual),
        Charge(Virtual),
        /// One that was charged costs so many percent.
        Correct(prop::sample::Index, Virtual),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            2 => (0..200_u128).prop_map(Deed::Activate),
            4 => (0..100_u128).prop_map(Deed::Charge),
            4 => (any::<prop::sample::Index>(), 0..=100_u128)
                .prop_map(|(which, percent)| Deed::Correct(which, percent)),
        ]
    }

    /// Where it stands if each charge had been right from the beginning.
    fn replayed(history: &[(Option<usize>, Virtual)], costs: &[Virtual]) -> Virtual {
        let replay = |start: Virtual, deed: &(Option<usize>, Virtual)| match *deed {
            (None, now) => start.max(now),
            (Some(charge), _) => start + costs[charge],
        };
        history.iter().fold(0, replay)
    }

    proptest! {
        /// What is given back is what would not be there had it never been charged: no less while
        /// the periods are few, never more.
        #[test]
        fn a_correction_is_as_if_the_charge_had_been_right(deeds in vec(deed(), 1..80)) {
            let (mut account, mut now, mut periods) = (Account::default(), 0, 0);
            let (mut history, mut costs, mut charged) = (Vec::new(), Vec::new(), Vec::new());
            for deed in deeds {
                match deed {
                    Deed::Activate(later) => {
                        now += later;
                        periods += 1;
                        account.activate(now);
                        history.push((None, now));
                    }
                    Deed::Charge(cost) => {
                        account.charge(cost);
                        history.push((Some(costs.len()), 0));
                        charged.push(account.period());
                        costs.push(cost);
                    }
                    Deed::Correct(which, percent) if !costs.is_empty() => {
                        let which = which.index(costs.len());
                        let (from, to) = (costs[which], costs[which] * percent / 100);
                        account.correct(charged[which], from, to);
                        costs[which] = to;
                    }
                    Deed::Correct(..) => {}
                }
                let exact = replayed(&history, &costs);
                prop_assert!(account.start() >= exact);
                prop_assert!(periods > PERIODS || account.start() == exact);
            }
        }
    }
}
