//! A table with its plan and a clock, asked in few words.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Align;
use tidegate_core::{Amount, Bucket, Rule, Slots, Span, Standing, Timestamp, Verdict, Window};
use tidegate_store::{
    Decision, Detail, Ending, KeyCommand, KeyPath, Overrides, OwnedKey, Plan, PlanLimit, Reply,
    Settlement, Store, StoreError, Table, Terms, Verb,
};

use crate::Subject;
use crate::asked::Asked;

pub(super) use crate::fixture::plan;

/// When checks begin: in November 2023.
pub(super) const START: i64 = 1_700_000_000_000_000;

/// No two checks share a table.
static TABLES: AtomicU64 = AtomicU64::new(0);

/// See the [module](self).
pub(super) struct Fixture {
    pub(super) table: Arc<dyn Table>,
    pub(super) plan: Arc<Plan>,
    now: Cell<i64>,
    leases: Cell<u128>,
}

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

pub(super) fn slots(capacity: Amount) -> Rule {
    Rule::Slots(Slots::new(capacity, Span::SECOND).expect("sound slots"))
}

/// Keys with rules for the limits of their levels, over `plan`.
pub(super) fn overrides(plan: &Plan, given: &[(&[u8], &[Rule])]) -> Overrides {
    let variant = |&(key, rules): &(&[u8], &[Rule])| {
        let path = KeyPath::new(key, plan.levels()).expect("a key");
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
        Self::at(&*subject.fresh(), &table_name(), plan(0, levels, rules))
    }

    /// The table called `name`.
    pub(super) fn at(store: &dyn Store, name: &str, plan: Arc<Plan>) -> Self {
        let table = store.open(name, &plan).expect("a table that opens");
        table.adopt(&plan, Timestamp::from_micros(START), &[]);
        Self {
            table,
            plan,
            now: Cell::new(START),
            leases: Cell::new(0),
        }
    }

    /// Another caller of the same table, by its own `plan`.
    pub(super) fn beside(&self, plan: Arc<Plan>) -> Self {
        Self {
            table: Arc::clone(&self.table),
            plan,
            now: self.now.clone(),
            leases: Cell::new(self.leases.get() + 1_000),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.get())
    }

    /// Sets the clock to so many microseconds after the start.
    pub(super) fn set(&self, micros: i64) {
        self.now.set(START + micros);
    }

    pub(super) fn pass(&self, micros: i64) {
        self.now.set(self.now.get() + micros);
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

    pub(super) fn ask(&self, key: &[u8], verb: Verb<'_>) -> Result<Reply, StoreError> {
        let command = KeyCommand {
            plan: &self.plan,
            key: KeyPath::new(key, self.plan.levels()).expect("a key"),
            now: self.now(),
            calendars: &[],
            verb,
        };
        self.table.one(&command)
    }

    fn decide(&self, key: &[u8], verb: Verb<'_>) -> Result<Decision, StoreError> {
        match self.ask(key, verb)? {
            Reply::Decision(decision) => Ok(decision),
            reply => panic!("{verb:?} is answered by {reply:?}"),
        }
    }

    /// Takes without a lease.
    pub(super) fn take(&self, key: &[u8], amounts: &[Amount]) -> Result<Decision, StoreError> {
        let verb = Verb::Take {
            amounts,
            lease: None,
            detail: Detail::OnRefusal,
        };
        self.decide(key, verb)
    }

    /// The verdict on a take that the store can answer.
    pub(super) fn verdict(&self, key: &[u8], amounts: &[Amount]) -> Verdict {
        self.take(key, amounts).expect("an answer").verdict
    }

    pub(super) fn admits(&self, key: &[u8], amounts: &[Amount]) -> bool {
        self.verdict(key, amounts).admitted()
    }

    pub(super) fn debit(&self, key: &[u8], amounts: &[Amount]) -> Decision {
        self.decide(key, Verb::Debit { amounts })
            .expect("an answer")
    }

    /// Takes as a lease of so many microseconds.
    pub(super) fn lease(
        &self,
        key: &[u8],
        amounts: &[Amount],
        micros: u64,
        idempotency: Option<&[u8]>,
    ) -> Result<Decision, StoreError> {
        let terms = Terms {
            id: self.leases.get() + 1,
            expires_at: self.now() + Span::from_micros(micros),
            idempotency,
        };
        let verb = Verb::Take {
            amounts,
            lease: Some(terms),
            detail: Detail::OnRefusal,
        };
        let decision = self.decide(key, verb)?;
        self.leases.set(terms.id);
        Ok(decision)
    }

    /// Numbers leases from here on.
    pub(super) fn number_from(&self, id: u128) {
        self.leases.set(id);
    }

    /// The id and the fence of a lease that is given.
    pub(super) fn hold(&self, key: &[u8], amounts: &[Amount], micros: u64) -> (u128, u64) {
        let decision = self.lease(key, amounts, micros, None).expect("an answer");
        let granted = decision.lease.expect("it fits");
        (granted.id, granted.fence)
    }

    pub(super) fn end(
        &self,
        key: &[u8],
        id: u128,
        ending: Ending<'_>,
    ) -> Result<Settlement, StoreError> {
        let verb = Verb::End {
            id,
            ending,
            remember: true,
        };
        match self.ask(key, verb)? {
            Reply::Settled(settlement) => Ok(settlement),
            reply => panic!("an end is answered by {reply:?}"),
        }
    }

    /// Where every limit that the key reaches stands.
    pub(super) fn standings(&self, key: &[u8]) -> Vec<Standing> {
        let amounts = vec![1; self.plan.limits().len()];
        let peek = self.decide(key, Verb::Peek { amounts: &amounts });
        let standings = peek.expect("an answer").standings;
        standings.into_iter().flatten().collect()
    }

    /// What is left of every limit that the key reaches.
    pub(super) fn left(&self, key: &[u8]) -> Vec<Amount> {
        let standings = self.standings(key);
        standings
            .iter()
            .map(|standing| standing.remaining)
            .collect()
    }
}
