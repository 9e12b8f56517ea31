//! One policy: its set, its keys, what is done with its leases, and what came of it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tidegate::Select;
use tidegate::{Admission, Decision, Lease, LimitSet, PageOf, Request};
use tokio::time::Instant;

use crate::books::{Books, Entries};
use crate::ledger::Micros;
use crate::tally::{Faults, Tally, add, read};
use crate::work::Work;

/// So many keys are asked about at a time, where they come and go,
const POPULATION: u64 = 500;
/// and after so many asks, one has gone for good and a new one has come.
const ASKS_A_KEY: u64 = 2;
/// So many users has an organisation, where there are any, and a tenth of it a team.
const USERS: u64 = 50;
/// How much of a listing is asked for at once.
const PAGE: usize = 100;

/// Amounts by limit.
pub type Amounts = &'static [(&'static str, u64)];

/// Whose leases are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// A population that moves on through a space without end.
    Moving,
    /// The same, each under its team and its organisation.
    MovingPaths,
    /// So many, in turn.
    Fixed(u64),
    /// Users of so many organisations, in turn.
    Paths(u64),
}

impl Keys {
    /// The nth of them, and the number of its ledgers.
    pub fn at(self, nth: u64) -> (String, u64) {
        let moving = nth / ASKS_A_KEY + scatter(nth) % POPULATION;
        match self {
            Self::Moving => (moving.to_string(), 0),
            Self::MovingPaths => {
                let (org, team) = (moving / USERS, moving / (USERS / 10));
                (format!("{org}/{team}/{moving}"), 0)
            }
            Self::Fixed(keys) => ((nth % keys).to_string(), nth % keys),
            Self::Paths(orgs) => {
                let (org, user) = (nth % orgs, scatter(nth) % USERS);
                (format!("{org}/{}/{user}", user % 5), org)
            }
        }
    }
}

/// Numbers without an order, the same each time (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014).
const fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// One policy.
pub struct Lane {
    /// Its name, and its table's.
    pub name: &'static str,
    pub set: LimitSet,
    pub keys: Keys,
    pub work: Work,
    /// What each ask takes,
    pub taken: Amounts,
    /// and what is used of it.
    pub used: Amounts,
    /// How long an ask waits.
    pub patience: Duration,
    /// How long a lease is held.
    pub hold: Duration,
    /// A lease is remembered after its end until so many others have ended at least.
    pub remembered_for_sure: u64,
    /// Of those that are too narrow for what is asked of them. Nobody else refuses.
    pub books: Option<Arc<Books>>,
    pub tally: Tally,
    pub faults: Arc<Faults>,
    /// How many asks were begun.
    pub next: AtomicU64,
}

/// A lease with what the books have of it.
pub struct Held {
    pub lease: Lease,
    entries: Option<Entries>,
}

impl Lane {
    /// The next ask, from its beginning to its end.
    pub async fn ask(&self) {
        let nth = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (key, account) = self.keys.at(nth);
        self.work.run(self, &key, account, nth).await;
    }

    /// What each ask says.
    pub fn said(&self) -> Request<'static> {
        Request::named(self.taken)
    }

    /// Asks for a lease. A refusal that no limit explains is a fault, and so is a grant
    /// that no limit has.
    pub async fn take(&self, key: &str, account: u64, ask: Request<'_>) -> Option<Held> {
        add(&self.tally.asked);
        let now = || self.now();
        let entries = self.books.as_ref().map(|books| books.open(account, now));
        let asked = self.now();
        let pending = self.set.acquire(key, ask.within(self.patience));
        let Some(answer) = self.answered("acquire", key, self.patience, pending).await else {
            entries.iter().for_each(Entries::fail);
            return None;
        };
        match answer {
            Admission::Granted(lease) => {
                add(&self.tally.granted);
                let granted = entries
                    .as_ref()
                    .map_or(Ok(()), |entries| entries.grant(now));
                self.expect("acquire", key, granted);
                Some(Held { lease, entries })
            }
            Admission::Refused(decision) => {
                add(&self.tally.refused);
                self.expect("acquire", key, self.explain(&decision, entries, asked));
                None
            }
        }
    }

    fn explain(
        &self,
        decision: &Decision,
        entries: Option<Entries>,
        asked: Micros,
    ) -> Result<(), String> {
        let entries =
            entries.ok_or_else(|| format!("refused, though wide enough: {decision:?}"))?;
        entries.refuse(decision.binding(), || self.now())?;
        let waited = self.now() - asked;
        if waited < micros(self.patience) {
            return Err(format!("refused after {waited} us of {:?}", self.patience));
        }
        match decision.not_until() {
            Some(at) if at.as_micros() > asked => Ok(()),
            other => Err(format!("refused until {other:?}, asked at {asked}")),
        }
    }

    /// Settles a lease at what is used of it.
    pub async fn settle(&self, key: &str, mut held: Held) {
        let now = || self.now();
        held.entries
            .iter()
            .for_each(|entries| entries.settling(now));
        let settled = held.lease.settle(self.used);
        let settled = self.answered("settle", key, Duration::ZERO, settled).await;
        held.entries.iter().for_each(|entries| entries.settled(now));
        let Some(settled) = settled else { return };
        add(&self.tally.ended);
        for (limit, used) in self.used {
            let told = settled.usage(limit).map(|usage| usage.used);
            self.expect_eq("settle", key, told, Some(*used));
        }
    }

    /// What was answered, unless that is an error: none is expected of anybody.
    pub async fn answered<T, E: std::fmt::Display>(
        &self,
        verb: &str,
        key: &str,
        patience: Duration,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        let begun = Instant::now();
        let answer = asked.await;
        self.tally.took(begun.elapsed(), patience);
        let fault = |error: &E| self.fault(verb, key, error);
        answer.inspect_err(fault).ok()
    }

    /// An answer should be this one.
    pub fn expect_eq<T: PartialEq + std::fmt::Debug>(
        &self,
        verb: &str,
        key: &str,
        is: T,
        should: T,
    ) {
        if is != should {
            self.fault(verb, key, &format!("{is:?} is answered, not {should:?}"));
        }
    }

    /// What is answered should hold.
    pub fn expect(&self, verb: &str, key: &str, holds: Result<(), String>) {
        if let Err(why) = holds {
            self.fault(verb, key, &why);
        }
    }

    fn fault(&self, verb: &str, key: &str, why: &dyn std::fmt::Display) {
        self.faults
            .add(|| format!("{}: {verb} of {key}: {why}", self.name));
    }

    /// The time by its clock.
    pub fn now(&self) -> Micros {
        self.set.now().as_micros()
    }

    /// Whether its limits are too narrow for what is asked of them.
    pub const fn is_narrow(&self) -> bool {
        self.books.is_some()
    }

    /// What an operator does now and then: lists keys and leases, looks at a key, says
    /// what would fit, forgets one.
    pub async fn look_around(&self) {
        let (key, _) = self.keys.at(read(&self.next));
        let none = Duration::ZERO;
        let page = PageOf {
            select: Select::All,
            after: None,
            most: PAGE,
        };
        let keys = self.set.list_keys(page);
        self.answered("list-keys", "all", none, keys).await;
        let leases = self.set.list_leases(page);
        self.answered("list-leases", "all", none, leases).await;
        let peek = self.set.peek(key.as_str(), self.said());
        self.answered("peek", &key, none, peek).await;
        let forecast = self.set.forecast(key.as_str(), self.said());
        self.answered("forecast", &key, none, forecast).await;
        // What a ledger has would be forgotten.
        if !self.is_narrow() {
            let reset = self.set.reset(key.as_str());
            self.answered("reset", &key, none, reset).await;
        }
    }

    /// After the last lease has ended, every slot is back.
    pub async fn is_conserved(&self) {
        let (Keys::Fixed(keys) | Keys::Paths(keys)) = self.keys else {
            return;
        };
        for (key, _) in (0..keys).map(|nth| self.keys.at(nth)) {
            let peek = self.set.peek(key.as_str(), self.said());
            let peeked = self.answered("peek", &key, Duration::ZERO, peek).await;
            let Some(decision) = peeked else { continue };
            for limit in self
                .set
                .limits()
                .iter()
                .filter(|limit| limit.is_concurrency())
            {
                let free = decision
                    .standing(limit.name())
                    .map(|standing| standing.remaining);
                self.expect_eq("peek", &key, free, Some(limit.capacity()));
            }
        }
    }
}

/// A length of time in microseconds.
pub const fn micros(length: Duration) -> Micros {
    length.as_micros() as Micros
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_population_that_moves_has_its_size_and_leaves_its_keys_behind() {
        let keys = |from: u64| (from..from + 1_000).map(|nth| Keys::Moving.at(nth).0);
        let early: BTreeSet<_> = keys(0).collect();
        let late: BTreeSet<_> = keys(10_000).collect();
        assert!((400..1_100).contains(&early.len()), "{}", early.len());
        assert!(early.is_disjoint(&late));
    }
}
