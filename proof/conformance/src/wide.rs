//! Numbers of every size: whatever exceeds a double's 53 bits on the way is
//! computed as the core does, to the last unit. (The differential test of the
//! suite has small numbers, which meet every boundary often.)

use crate::table_ext::TableExt;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tidegate_core::{
    Align, Amount, Bucket, Log, MAX_AMOUNT, Payment, Ring, Rule, Slots, Span, Standing, Timestamp,
    Verdict, Window,
};
use tidegate_store::decide::{self, Row};
use tidegate_store::{
    Decision, Detail, Ending, KeyCommand, KeyPath, LeaseCounts, Ledger, Plan, PlanLimit, Reply,
    Store, StoreError, Table, Terms, Verb,
};

/// Runs random commands with numbers of every size on a table and on
/// `store`'s decision loop. `cut` says how the store tells an instant that is
/// farther than it counts; it must be by the caller's clock.
///
/// # Panics
/// Where the two differ.
pub fn wide(store: &dyn Store, cut: fn(Timestamp) -> Timestamp) {
    for seed in 0..60 {
        let mut run = Run::start(store, cut, seed);
        (0..40).for_each(|_| run.step());
    }
}

const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const DAY: u64 = 86_400_000_000;
const KEY: &[u8] = b"k";

/// The decision loop of `store` on the rows of one key.
struct Reference {
    plan: Arc<Plan>,
    rows: Vec<Row>,
    ledger: Ledger<Vec<u8>>,
}

impl Reference {
    fn new(plan: &Arc<Plan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            rows: vec![decide::fresh_row(plan, 0)],
            ledger: Ledger::new(Arc::new(LeaseCounts::new(usize::MAX))),
        }
    }

    fn retire(&mut self, now: Timestamp) {
        while let Some(mut record) = self.ledger.take_due(now) {
            let again = decide::expire(
                &self.plan,
                &mut self.rows,
                &mut self.ledger,
                &mut record,
                now,
            );
            if let Some(again) = again {
                self.ledger.put_back(record, again);
            }
        }
    }

    fn execute(&mut self, command: &KeyCommand<'_>) -> Result<Reply, StoreError> {
        self.retire(command.now);
        decide::apply(command, &mut self.rows, &mut self.ledger, KEY.to_vec())
    }

    fn adopt(&mut self, plan: &Arc<Plan>, now: Timestamp) {
        self.retire(now);
        self.rows[0] = decide::adopt_row(plan, &self.plan, 0, &mut self.rows[0], now, &[]);
        self.plan = Arc::clone(plan);
    }
}

/// A number of any magnitude up to `most`, or one beside a power of two.
fn any(random: &mut SmallRng, most: u64) -> u64 {
    let power = 1 << random.random_range(0..=most.ilog2());
    let number = match random.random_range(0..4) {
        0 => power,
        1 => power - 1,
        2 => most,
        _ => random.random_range(power / 2..=power),
    };
    number.clamp(1, most)
}

fn bucket(random: &mut SmallRng) -> Rule {
    let period = Span::from_micros(any(random, 400 * DAY).max(1_000));
    let (amount, burst) = (any(random, MAX_AMOUNT), any(random, MAX_AMOUNT));
    Rule::Bucket(Bucket::new(amount, period, burst).expect("numbers within their ranges"))
}

fn rule(random: &mut SmallRng) -> Rule {
    let capacity = any(random, MAX_AMOUNT);
    let period = Span::from_micros(any(random, 400 * DAY).max(1_000));
    let rule = match random.random_range(0..9) {
        0 => Window::new(capacity, Align::Epoch(period)).map(Rule::Window),
        1 => Ring::new(capacity, period, random.random_range(1..9)).map(Rule::Ring),
        2 => Log::new(capacity, period, random.random_range(2..9)).map(Rule::Log),
        3 => Slots::new(capacity, period).map(Rule::Slots),
        _ => return bucket(random),
    };
    rule.expect("numbers within their ranges")
}

/// Two limits of any kind, or as many plain buckets.
fn plan(random: &mut SmallRng, version: u64) -> Arc<Plan> {
    let plain = random.random_bool(0.3);
    let limits = (0..2).map(|uid| PlanLimit {
        name: format!("limit {uid}").into(),
        uid,
        rule: if plain { bucket(random) } else { rule(random) },
        level: 0,
        payment: match !plain && random.random_bool(0.5) {
            true => Payment::Postpaid,
            false => Payment::Prepaid,
        },
        shadow: false,
        refund_on_expiry: !plain && random.random_bool(0.3),
        adaptive: None,
    });
    Arc::new(Plan::new(version, 1, limits.collect(), Span::SECOND))
}

/// The decision, its instants as the store can say them.
fn cut_decision(mut decision: Decision, cut: fn(Timestamp) -> Timestamp) -> Decision {
    if let Verdict::NotUntil(at) = decision.verdict {
        decision.verdict = Verdict::NotUntil(cut(at));
        // Which of two instants is later that are told as one, nobody can say.
        if cut(at) == Timestamp::MAX {
            decision.binding = None;
        }
    }
    for standing in decision.standings.iter_mut().flatten() {
        *standing = Standing {
            replenish_at: standing.replenish_at.map(cut),
            full_at: standing.full_at.map(cut),
            ..*standing
        };
    }
    decision
}

struct Run {
    cut: fn(Timestamp) -> Timestamp,
    random: SmallRng,
    table: Arc<dyn Table>,
    reference: Reference,
    plan: Arc<Plan>,
    now: Timestamp,
    leases: u128,
}

impl Run {
    fn start(store: &dyn Store, cut: fn(Timestamp) -> Timestamp, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let plan = plan(&mut random, 0);
        let table = store.open(&format!("wide {seed}"), &plan).expect("a table");
        table.adopt(&plan, START, &[]);
        Self {
            cut,
            random,
            table,
            reference: Reference::new(&plan),
            plan,
            now: START,
            leases: 0,
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..12) {
            0..3 => self.now = self.now + Span::from_micros(any(&mut self.random, 1 << 45)),
            3 => self.change(),
            4..6 => self.take(false),
            6..8 => self.take(true),
            8 => {
                let amounts = self.amounts();
                self.both(Verb::Debit { amounts: &amounts });
            }
            _ => self.end(),
        }
        self.both(Verb::Peek { amounts: &[1, 1] });
    }

    fn amounts(&mut self) -> [Amount; 2] {
        let mut amount = |at: usize| {
            let capacity = self.plan.limits()[at].rule.capacity();
            let most = [capacity, MAX_AMOUNT][usize::from(self.random.random_bool(0.1))];
            any(&mut self.random, most)
        };
        [amount(0), amount(1)]
    }

    fn change(&mut self) {
        self.plan = plan(&mut self.random, self.plan.version() + 1);
        self.table.adopt(&self.plan, self.now, &[]);
        self.reference.adopt(&self.plan, self.now);
    }

    fn take(&mut self, leased: bool) {
        let amounts = self.amounts();
        let ttl = Span::from_micros(any(&mut self.random, 1 << 45));
        let lease = leased.then_some(Terms {
            id: self.leases + 1,
            expires_at: self.now + ttl,
            idempotency: None,
            least: None,
        });
        self.leases += u128::from(leased);
        self.both(Verb::Take {
            amounts: &amounts,
            lease,
            detail: Detail::Always,
        });
    }

    fn end(&mut self) {
        let id = self.leases.saturating_sub(self.random.random_range(0..3));
        let used = self.amounts().map(Some);
        let ending = [Ending::Settle(&used), Ending::Cancel][self.random.random_range(0..2)];
        self.both(Verb::End {
            id,
            ending,
            remember: false,
        });
    }

    fn both(&mut self, verb: Verb<'_>) {
        let plan = Arc::clone(&self.plan);
        let command = KeyCommand {
            plan: &plan,
            key: KeyPath::new(KEY, 1).expect("a key"),
            now: self.now,
            calendars: &[],
            verb,
        };
        let cut = |reply| match reply {
            Reply::Decision(decision) => Reply::Decision(cut_decision(decision, self.cut)),
            reply => reply,
        };
        let (theirs, ours) = (self.table.one(&command), self.reference.execute(&command));
        assert_eq!(
            theirs.map(cut),
            ours.map(cut),
            "{verb:?} at {} by {:?}",
            self.now,
            self.plan.limits()
        );
    }
}
