//! What the checks need beside the [fixture](crate::fixture): rules whose instants are small
//! numbers, and a clock that passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Align, Amount, Bucket, Rule, Span, Timestamp, Verdict, Window};
use tidegate_store::{
    Decision, Detail, KeyPath, Overrides, OwnedKey, Plan, PlanLimit, Store, StoreError, Verb,
};

use crate::Subject;
use crate::table_ext::TableExt;

pub(super) use crate::fixture::{Fixture, plan, slots};

/// When checks begin: in November 2023.
pub(super) const START: i64 = 1_700_000_000_000_000;

/// No two checks share a table.
static TABLES: AtomicU64 = AtomicU64::new(0);

/// A name that no other table has.
pub(super) fn table_name() -> String {
    let number = TABLES.fetch_add(1, Ordering::Relaxed);
    format!("check {} {number}", std::process::id())
}

/// `amount` in each millisecond, of which `burst` at once.
pub(super) fn rate(amount: Amount, burst: Amount) -> Rule {
    Rule::Bucket(Bucket::new(amount, Span::MILLISECOND, burst).expect("a sound rate"))
}

/// `capacity` in each ten milliseconds of the epoch.
pub(super) fn budget(capacity: Amount) -> Rule {
    let align = Align::Epoch(Span::from_millis(10));
    Rule::Window(Window::new(capacity, align).expect("a sound budget"))
}

/// Keys with rules for the limits of their levels, over `plan`.
pub(super) fn overrides(plan: &Plan, given: &[(&[u8], &[Rule])]) -> Overrides {
    let variant = |&(key, rules): &(&[u8], &[Rule])| {
        let path = KeyPath::of_row(key, plan.levels()).expect("a key");
        let limits = &plan.limits()[plan.range(path.depth() - 1)];
        let uids: Vec<_> = limits.iter().map(|limit| limit.uid).collect();
        let rule = |limit: &PlanLimit| {
            let place = uids.iter().position(|uid| *uid == limit.uid)?;
            rules.get(place).copied()
        };
        (OwnedKey::new(key), Arc::new(plan.variant(rule)))
    };
    given.iter().map(variant).collect()
}

impl Fixture {
    /// A new table of the subject's, of these rules.
    pub(super) fn new(subject: &Subject, levels: usize, rules: &[(usize, Rule)]) -> Self {
        Self::remembering(&*subject.fresh(), &table_name(), plan(0, levels, rules))
    }

    /// The table called `name`, which remembers what became of leases.
    pub(super) fn remembering(store: &dyn Store, name: &str, plan: Arc<Plan>) -> Self {
        let mut fixture = Self::at(store, name, plan, Timestamp::from_micros(START));
        fixture.remembers = true;
        fixture
    }

    /// Sets the clock to so many microseconds after the start.
    pub(super) fn set(&self, micros: i64) {
        self.set_now(Timestamp::from_micros(START + micros));
    }

    pub(super) fn pass(&self, micros: i64) {
        self.set_now(Timestamp::from_micros(self.now().as_micros() + micros));
    }

    pub(super) fn change(&mut self, rules: &[(usize, Rule)]) {
        let (version, levels) = (self.plan.version() + 1, self.plan.levels());
        self.plan = plan(version, levels, rules);
        self.table.adopt(&self.plan, self.now(), &[]);
    }

    /// Gives keys these rules for the limits of their levels, and takes them from
    /// every other.
    pub(super) fn give(&mut self, given: &[(&[u8], &[Rule])]) {
        let version = self.plan.version() + 1;
        let overrides = overrides(&self.plan, given);
        self.plan = Arc::new(self.plan.going_on(version, overrides));
        self.table.adopt(&self.plan, self.now(), &[]);
    }

    /// Takes without a lease; a refusal says all.
    pub(super) fn decision(&self, key: &[u8], amounts: &[Amount]) -> Result<Decision, StoreError> {
        let verb = Verb::Take {
            amounts,
            lease: None,
            detail: Detail::OnRefusal,
        };
        self.decide(key, verb)
    }

    /// The verdict on a take that the store can answer.
    pub(super) fn verdict(&self, key: &[u8], amounts: &[Amount]) -> Verdict {
        self.decision(key, amounts).expect("an answer").verdict
    }

    pub(super) fn debit(&self, key: &[u8], amounts: &[Amount]) -> Decision {
        self.decide(key, Verb::Debit { amounts })
            .expect("an answer")
    }

    /// The id and the fence of a lease that is given.
    pub(super) fn hold(&self, key: &[u8], amounts: &[Amount], micros: u64) -> (u128, u64) {
        let decision = self.lease(key, amounts, micros);
        let granted = decision.lease.expect("it fits");
        (granted.id, granted.fence)
    }
}
