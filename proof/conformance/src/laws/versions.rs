//! Several versions of one limit at once, as servers know it during a roll-out.

use std::sync::Arc;

use tidegate_core::{Amount, Rule, Span, Timestamp};
use tidegate_store::{Detail, KeyCommand, KeyPath, Plan, Reply, Store, Table, Verb};

use super::key::{LONG, START, number};
use super::kinds::Kind;
use super::past::wait;
use crate::fixture::limit;
use crate::rng::Rng;
use crate::table_ext::TableExt;

const ASKS: u64 = 60;

/// By time, what all of them admitted.
type Admitted = Vec<(i64, Amount)>;

/// A key that is asked for by servers of which each has a version of its own; where
/// there can be one server only, it goes over to another before it asks.
struct Servers {
    versions: Vec<Kind>,
    tables: Vec<(Arc<dyn Table>, Arc<Plan>)>,
    /// One that does not know the limit, if there is one.
    stranger: Option<(Arc<dyn Table>, Arc<Plan>)>,
    turn: usize,
    now: i64,
}

impl Servers {
    fn of(store: &Arc<dyn Store>, versions: Vec<Kind>, has_stranger: bool) -> Self {
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
        let stranger = has_stranger.then(|| {
            let plan = plan_of(0, OTHER, versions[0].rule);
            let table = store.open(&name, &plan).expect("a table that opens");
            adopt(&*table, &plan, &versions[0], START);
            (table, plan)
        });
        Self {
            versions,
            tables,
            stranger,
            turn: 0,
            // After the last of them opened the table.
            now: START + 1,
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
        let server = self.tables.get(turn).unwrap_or(&self.tables[0]);
        self.asked(server, kind, amount)
    }

    /// The one that does not know the limit takes so much by its own, if that fits.
    fn ask_stranger(&self, amount: Amount) {
        if let Some(stranger) = &self.stranger {
            self.asked(stranger, &self.versions[0], amount);
        }
    }

    fn asked(
        &self,
        (table, plan): &(Arc<dyn Table>, Arc<Plan>),
        kind: &Kind,
        amount: Amount,
    ) -> bool {
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

/// The number of the limit, and of another.
const LIMIT: u32 = 0;
const OTHER: u32 = 1;

fn plan(version: u64, kind: &Kind) -> Arc<Plan> {
    plan_of(version, LIMIT, kind.rule)
}

fn plan_of(version: u64, uid: u32, rule: Rule) -> Arc<Plan> {
    let limit = limit(&format!("limit {uid}"), uid, 0, rule);
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
    rng: &mut Rng,
) {
    admit_no_more_than_the_larger(store, rng, false);
}

/// The same of one version, where another server does not know the limit and is asked in
/// between. (Where there can be one server only, a limit that is let go is forgotten.)
pub(super) fn a_server_that_does_not_know_a_limit_makes_the_others_admit_no_more(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    if store.abilities().shared {
        admit_no_more_than_the_larger(store, rng, true);
    }
}

fn admit_no_more_than_the_larger(store: &Arc<dyn Store>, rng: &mut Rng, has_stranger: bool) {
    let of_a_kind = |nth: usize, rng: &mut Rng| -> Vec<Kind> {
        let count = if has_stranger { 1 } else { rng.between(2, 3) };
        let draw = |_| Kind::all(rng, 64).remove(nth);
        (0..count).map(draw).collect()
    };
    // One of each but slots.
    for nth in [0, 1, 2, 4, 5, 6] {
        let versions = of_a_kind(nth, rng);
        let servers = Servers::of(store, versions.clone(), has_stranger);
        let admitted = asked_in_turn(servers, rng);
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

fn asked_in_turn(mut servers: Servers, rng: &mut Rng) -> Admitted {
    let mut admitted = Admitted::new();
    for _ in 0..ASKS {
        let turn = rng.below(servers.versions.len() as u64) as usize;
        let kind = &servers.versions[turn];
        servers.now += wait(rng, kind);
        let amount = rng.between(1, kind.rule.capacity().min(4));
        if servers.stranger.is_some() && rng.percent(50) {
            servers.ask_stranger(amount);
        }
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
