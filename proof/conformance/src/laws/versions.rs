//! Several versions of one limit at once, as servers know it during a roll-out.

use std::sync::Arc;

use tidegate::contract::core::{Amount, Payment, Rule, Span, Timestamp};
use tidegate::contract::{Detail, KeyCommand, KeyPath, Plan, PlanLimit, Reply, Store, Table, Verb};

use super::key::{LONG, START, number};
use super::kinds::Kind;
use super::past::wait;
use crate::asked::Asked;
use crate::dice::Dice;

const ASKS: u64 = 60;

/// By time, what all of them admitted.
type Admitted = Vec<(i64, Amount)>;

/// A key that is asked for by servers of which each has a version of its own; where
/// there can be one server only, it goes over to another before it asks.
struct Servers {
    versions: Vec<Kind>,
    tables: Vec<(Arc<dyn Table>, Arc<Plan>)>,
    turn: usize,
    now: i64,
}

impl Servers {
    fn of(store: &Arc<dyn Store>, versions: Vec<Kind>) -> Self {
        let name = format!("law {} {}", std::process::id(), number());
        let count = if store.abilities().shared {
            versions.len()
        } else {
            1
        };
        let open = |(version, kind): (usize, &Kind)| {
            let plan = plan(version as u64, kind);
            let table = store.open(&name, &plan).expect("a table that opens");
            adopt(&*table, &plan, kind, START);
            (table, plan)
        };
        let tables = versions.iter().take(count).enumerate().map(open).collect();
        Self {
            versions,
            tables,
            turn: 0,
            now: START,
        }
    }

    /// The server of this turn takes so much, if it fits.
    fn admits(&mut self, turn: usize, amount: Amount) -> bool {
        let kind = &self.versions[turn];
        if turn != self.turn && self.tables.len() == 1 {
            let (table, newest) = &mut self.tables[0];
            *newest = plan(newest.version() + 1, kind);
            adopt(&**table, newest, kind, self.now);
        }
        self.turn = turn;
        let (table, plan) = self.tables.get(turn).unwrap_or(&self.tables[0]);
        let now = Timestamp::from_micros(self.now);
        let reply = table.one(&KeyCommand {
            plan,
            key: KeyPath::new(b"k", 1).expect("a key"),
            now,
            calendars: &[kind.bounds(now)],
            verb: Verb::Take {
                amounts: &[amount],
                lease: None,
                detail: Detail::Verdict,
            },
        });
        match reply.expect("an answer") {
            Reply::Decision(decision) => decision.verdict.admitted(),
            reply => panic!("a take is answered by {reply:?}"),
        }
    }
}

fn plan(version: u64, kind: &Kind) -> Arc<Plan> {
    let limit = PlanLimit {
        name: "limit".into(),
        uid: 0,
        rule: kind.rule,
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
    };
    Arc::new(Plan::new(version, 1, vec![limit], LONG))
}

fn adopt(table: &dyn Table, plan: &Arc<Plan>, kind: &Kind, now: i64) {
    let now = Timestamp::from_micros(now);
    table.adopt(plan, now, &[kind.bounds(now)]);
}

/// In any span, by the numbers of the larger: the largest burst and what drains by the
/// fastest rate; in as long as the shortest window the largest capacity. (A fixed window
/// may be used up on either side of its end, and each version may have ends of its own;
/// so may a sliding one whose versions have sub-windows of different lengths.)
pub(super) fn versions_asked_in_turn_admit_no_more_than_the_larger_alone(
    store: &Arc<dyn Store>,
    dice: &mut Dice,
) {
    let of_a_kind = |nth: usize, dice: &mut Dice| -> Vec<Kind> {
        let count = dice.between(2, 3);
        let draw = |_| Kind::all(dice, 64).remove(nth);
        (0..count).map(draw).collect()
    };
    // One of each but slots.
    for nth in [0, 1, 2, 4, 5, 6] {
        let versions = of_a_kind(nth, dice);
        let admitted = asked_in_turn(store, dice, &versions);
        for first in 0..admitted.len() {
            let mut sum = 0;
            for &(at, amount) in &admitted[first..] {
                sum += u128::from(amount);
                let elapsed = (at - admitted[first].0) as u128;
                assert!(
                    fits(&versions, elapsed, sum),
                    "{sum} in {elapsed} us: {versions:?}"
                );
            }
        }
    }
}

fn asked_in_turn(store: &Arc<dyn Store>, dice: &mut Dice, versions: &[Kind]) -> Admitted {
    let mut servers = Servers::of(store, versions.to_vec());
    let mut admitted = Admitted::new();
    for _ in 0..ASKS {
        let turn = dice.below(versions.len() as u64) as usize;
        let kind = &versions[turn];
        servers.now += wait(dice, kind);
        let amount = dice.between(1, kind.rule.capacity().min(4));
        if servers.admits(turn, amount) {
            admitted.push((servers.now, amount));
        }
    }
    admitted
}

/// Whether so much may be admitted in so many microseconds.
fn fits(versions: &[Kind], elapsed: u128, sum: u128) -> bool {
    let capacities = versions.iter().map(|kind| u128::from(kind.rule.capacity()));
    let largest = capacities.max().expect("some");
    let windows = versions.iter().map(|kind| kind.refill as u128);
    let shortest = windows.min().expect("some");
    let mut by_rate = versions.iter().filter_map(|kind| match &kind.rule {
        Rule::Bucket(bucket) => {
            let (drain, weight) = (u128::from(bucket.drain()), u128::from(bucket.weight()));
            Some(sum * weight <= largest * weight + elapsed * drain)
        }
        _ => None,
    });
    match &versions[0].rule {
        Rule::Bucket(_) => by_rate.any(|fits| fits),
        Rule::Window(_) => elapsed >= shortest || sum <= largest * (versions.len() as u128 + 1),
        Rule::Ring(_) => {
            let length = |kind: &Kind| match &kind.rule {
                Rule::Ring(ring) => ring.step().as_micros() * u64::from(ring.steps()),
                _ => u64::MAX,
            };
            let shortest = versions.iter().map(length).min().expect("some");
            // Where a store keeps no instant of the last charge, counts that go to and
            // fro between sub-windows which do not nest move to the beginning of theirs.
            let steps = |kind: &Kind| match &kind.rule {
                Rule::Ring(ring) => ring.step(),
                _ => Span::ZERO,
            };
            let alike = versions
                .iter()
                .all(|kind| steps(kind) == steps(&versions[0]));
            let most = if alike { largest } else { 2 * largest };
            elapsed >= u128::from(shortest) || sum <= most
        }
        _ => elapsed >= shortest || sum <= largest,
    }
}
