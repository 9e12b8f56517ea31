//! A key under some limits at a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Amount, Bucket, Payment, Rule, Span, Standing, Timestamp, Verdict};
use tidegate_store::{
    Decision, Detail, Ending, KeyCommand, KeyPath, Plan, PlanLimit, Reply, Store, StoreError,
    Table, Terms, Verb,
};

use super::kinds::Kind;
use super::past::{Act, Step};
use crate::table_ext::TableExt;

/// When every past begins: in November 2023.
pub(super) const START: i64 = 1_700_000_000_000_000;

/// Longer than any past: what is not held is given back by no expiry.
pub(super) const LONG: Span = Span::from_secs(3_600);

/// No two laws share a table, and no two leases a number.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

pub(super) fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// One limit of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) kind: Kind,
    pub(super) level: usize,
    pub(super) payment: Payment,
    pub(super) shadow: bool,
}

impl Limit {
    /// One that is its kind and nothing else.
    pub(super) const fn plain(kind: Kind) -> Self {
        Self {
            kind,
            level: 0,
            payment: Payment::Prepaid,
            shadow: false,
        }
    }
}

/// What a take was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) id: u128,
    pub(super) fence: u64,
}

/// A key of a table, and its caller's clock.
#[derive(Clone)]
pub(super) struct Key {
    table: Arc<dyn Table>,
    plan: Arc<Plan>,
    limits: Arc<[Limit]>,
    name: &'static str,
    pub(super) now: i64,
    pub(super) taken: Vec<Taken>,
}

impl Key {
    /// One under a limit of this kind alone, in a new table.
    pub(super) fn of(store: &Arc<dyn Store>, kind: Kind) -> Self {
        Self::under(store, &[Limit::plain(kind)])
    }

    /// The same beside a bucket of plenty. (A single one may be kept as one instant, which
    /// does not tell a step back of the clock by more than its refill from a debt.)
    pub(super) fn beside_plenty(store: &Arc<dyn Store>, kind: Kind) -> Self {
        let plenty = Bucket::new(1_000_000, Span::MILLISECOND, 1_000_000);
        let plenty = Kind::of(Rule::Bucket(plenty.expect("a sound rate")));
        Self::under(store, &[Limit::plain(kind), Limit::plain(plenty)])
    }

    /// One under these limits, outermost first, in a new table.
    pub(super) fn under(store: &Arc<dyn Store>, limits: &[Limit]) -> Self {
        let levels = limits.iter().map(|limit| limit.level + 1).max();
        let planned = limits.iter().enumerate().map(|(uid, limit)| PlanLimit {
            name: format!("limit {uid}").into(),
            uid: uid as u32,
            rule: limit.kind.rule,
            level: limit.level,
            payment: limit.payment,
            shadow: limit.shadow,
            refund_on_expiry: false,
            adaptive: None,
        });
        let plan = Plan::new(0, levels.unwrap_or(1), planned.collect(), LONG);
        let plan = Arc::new(plan);
        let name = format!("law {} {}", std::process::id(), number());
        let table = store.open(&name, &plan).expect("a table that opens");
        let key = Self {
            table,
            plan,
            limits: limits.into(),
            name: "one/key",
            now: START,
            taken: Vec::new(),
        };
        let bounds = key.calendars();
        key.table.adopt(&key.plan, key.at(), &bounds);
        key
    }

    /// Another key of the same table, never seen.
    pub(super) fn sibling(&self) -> Self {
        Self {
            name: "another/key",
            taken: Vec::new(),
            ..self.clone()
        }
    }

    /// Lives through `steps`.
    pub(super) fn live(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
        }
    }

    /// Lives through one; the answer, and where the first limit stands, if it asked.
    pub(super) fn step(&mut self, step: &Step) -> Option<(Verdict, Standing)> {
        self.now += step.wait;
        match step.act {
            Act::Take => {
                let (decision, _) = self.take(step.amount);
                Some(Self::first(&decision))
            }
            Act::Spend => Some(Self::first(&self.spend(step.amount))),
            Act::Debit => {
                let amounts = &self.amounts(step.amount);
                Some(Self::first(&self.decide(Verb::Debit { amounts })))
            }
            Act::GiveBack(_) if self.taken.is_empty() => None,
            Act::GiveBack(pick) => {
                let lease = self.taken.remove(pick % self.taken.len());
                self.end(lease.id, Ending::Cancel).expect("remembered");
                None
            }
        }
    }

    /// Waits until something is free; answers how much is.
    pub(super) fn await_room(&mut self) -> Amount {
        let standing = self.standing();
        match (standing.remaining, standing.full_at) {
            (0, Some(at)) => {
                self.now = at.as_micros();
                self.standing().remaining
            }
            (free, _) => free,
        }
    }

    /// Takes as a lease, if it fits: of slots for their ttl.
    pub(super) fn take(&mut self, amount: Amount) -> (Decision, Option<Taken>) {
        let limit = &self.limits[0].kind;
        let micros = match limit.rule.is_held() {
            true => limit.refill,
            false => LONG.as_micros() as i64,
        };
        let amounts = self.amounts(amount);
        self.take_all(&amounts, micros)
    }

    /// Takes for good, if it fits.
    pub(super) fn spend(&self, amount: Amount) -> Decision {
        let amounts = &self.amounts(amount);
        self.decide(Verb::Take {
            amounts,
            lease: None,
            detail: Detail::Always,
        })
    }

    /// Takes of each limit as a lease of so many microseconds, if all fit.
    pub(super) fn take_all(
        &mut self,
        amounts: &[Amount],
        micros: i64,
    ) -> (Decision, Option<Taken>) {
        let terms = Terms {
            id: u128::from(number()),
            expires_at: Timestamp::from_micros(self.now + micros),
            idempotency: None,
            least: None,
        };
        let decision = self.decide(Verb::Take {
            amounts,
            lease: Some(terms),
            detail: Detail::Always,
        });
        let taken = decision.lease.map(|granted| Taken {
            id: granted.id,
            fence: granted.fence,
        });
        self.taken.extend(taken);
        (decision, taken)
    }

    /// What a take would be answered, and where the first limit stands.
    pub(super) fn look(&self, amount: Amount) -> (Verdict, Standing) {
        let amounts = &self.amounts(amount);
        Self::first(&self.decide(Verb::Peek { amounts }))
    }

    /// Where the first limit stands.
    pub(super) fn standing(&self) -> Standing {
        self.look(0).1
    }

    pub(super) fn end(&self, id: u128, ending: Ending<'_>) -> Result<Reply, StoreError> {
        self.ask(Verb::End {
            id,
            ending,
            remember: true,
        })
    }

    pub(super) fn decide(&self, verb: Verb<'_>) -> Decision {
        match self.ask(verb).expect("an answer") {
            Reply::Decision(decision) => decision,
            reply => panic!("{verb:?} is answered by {reply:?}"),
        }
    }

    pub(super) fn ask(&self, verb: Verb<'_>) -> Result<Reply, StoreError> {
        self.table.one(&KeyCommand {
            plan: &self.plan,
            key: KeyPath::new(self.name.as_bytes(), self.plan.levels()).expect("a key"),
            now: self.at(),
            calendars: &self.calendars(),
            verb,
        })
    }

    pub(super) const fn at(&self) -> Timestamp {
        Timestamp::from_micros(self.now)
    }

    fn first(decision: &Decision) -> (Verdict, Standing) {
        let standing = decision.standings.first().copied().flatten();
        (decision.verdict, standing.expect("asked for"))
    }

    /// So much of the first limit, and one of each beside it.
    fn amounts(&self, first: Amount) -> Vec<Amount> {
        let mut amounts = vec![1; self.limits.len()];
        amounts[0] = first;
        amounts
    }

    fn calendars(&self) -> Vec<Option<tidegate_core::Bounds>> {
        let bounds = self.limits.iter().map(|limit| limit.kind.bounds(self.at()));
        let bounds: Vec<_> = bounds.collect();
        match bounds.iter().all(Option::is_none) {
            true => Vec::new(),
            false => bounds,
        }
    }
}
