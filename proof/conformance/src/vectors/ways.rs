//! By how many ways a store decides: it may have its own for a single bucket, for several,
//! for single slots and for all else, and decides for a lease otherwise than for good. A
//! table is played in each that can tell it.

use std::sync::Arc;

use tidegate_core::{Align, Amount, Bucket, Payment, Rule, Slots, Span, Timestamp, Window};
use tidegate_store::{Plan, PlanLimit, Store};

use super::booking::{Booking, LONG, OWN};
use super::on_a_store::Player;
use super::table::Table;
use crate::table_ext::TableExt;

/// What stands beside the limit, and never refuses.
#[derive(Clone, Copy, Debug)]
enum Company {
    Alone,
    /// A bucket of the same key.
    Bucket,
    /// A budget of the same key's, and slots of its ancestor's.
    Ancestor,
}

/// In what company to play a table, and by which bookings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    company: Company,
    bookings: &'static [Booking],
}

/// Every way.
pub(super) const WAYS: [Way; 3] = [
    Way {
        company: Company::Alone,
        bookings: &[
            Booking::Leased,
            Booking::ForGood,
            Booking::VerdictOnly,
            Booking::Pinned,
        ],
    },
    Way {
        company: Company::Bucket,
        bookings: &[Booking::Leased, Booking::ForGood],
    },
    Way {
        company: Company::Ancestor,
        bookings: &[Booking::Leased, Booking::VerdictOnly],
    },
];

impl Way {
    /// Plays `table` to a new table of the store's, once for each booking that can tell
    /// it; answers how many steps were played.
    pub(super) fn play(self, store: &dyn Store, name: &str, table: &Table) -> usize {
        let plan = Arc::new(self.plan(table));
        let kept = store.open(&format!("{name} {:?}", self.company), &plan);
        let kept = kept.expect("a table that opens");
        let begins = table.steps.first().map_or(Timestamp::MIN, |step| step.at);
        kept.adopt(&plan, begins, &[]);
        let told = self.bookings.iter().filter(|b| self.can_tell(**b, table));
        let players = told.filter_map(|&booking| Player::new(booking, &kept, &plan, begins));
        let how = |booking| format!(", {:?}, {booking:?}", self.company);
        players
            .map(|mut player| player.play(table, &how(player.booking)))
            .sum()
    }

    /// What is taken for good is never given back. And a single bucket may be kept as the
    /// instant at which it is full, which does not tell a step back by more than its
    /// refill from a debt.
    fn can_tell(self, booking: Booking, table: &Table) -> bool {
        let is_single_bucket = matches!(self.company, Company::Alone);
        match (&table.rule, booking) {
            (_, Booking::Leased) => true,
            (Rule::Bucket(bucket), _) if is_single_bucket => {
                !table.needs_leases() && !table.steps_back_by_more_than(bucket.refill())
            }
            _ => !table.needs_leases(),
        }
    }

    fn plan(self, table: &Table) -> Plan {
        let (levels, company) = self.company.limits();
        let mut limits = vec![limit(OWN, levels - 1, table.rule)];
        if table.postpaid {
            limits[0].payment = Payment::Postpaid;
        }
        limits.extend(company);
        Plan::new(0, levels, limits, LONG)
    }
}

impl Company {
    /// How many levels there are, and the limits.
    fn limits(self) -> (usize, Vec<PlanLimit>) {
        const PLENTY: Amount = 1_000_000;
        let bucket = Bucket::new(PLENTY, Span::MILLISECOND, PLENTY).map(Rule::Bucket);
        let budget = Window::new(PLENTY, Align::Epoch(LONG)).map(Rule::Window);
        let slots = Slots::new(PLENTY, LONG).map(Rule::Slots);
        let [bucket, budget, slots] = [bucket, budget, slots].map(|rule| rule.expect("plenty"));
        match self {
            Self::Alone => (1, Vec::new()),
            Self::Bucket => (1, vec![limit(1, 0, bucket)]),
            Self::Ancestor => (2, vec![limit(1, 0, slots), limit(2, 1, budget)]),
        }
    }
}

fn limit(uid: u32, level: usize, rule: Rule) -> PlanLimit {
    PlanLimit {
        name: format!("limit {uid}").into(),
        uid,
        rule,
        level,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    }
}
