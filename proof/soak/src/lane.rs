//! One policy: its set, whose leases it asks for, what is done with its leases, and what came of it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tidegate::Select;
use tidegate::{Admission, Decision, Lease, LimitSet, PageOf, Request, Settlement};
use tokio::time::Instant;

use crate::books::{Books, Entries};
use crate::keys::Keys;
use crate::ledger::Micros;
use crate::people::People;
use crate::tally::{Faults, Tally, add, read};
use crate::work::{Amounts, Work};

/// How much of a listing is asked for at once.
const PAGE: usize = 100;

/// One policy.
pub struct Lane {
    /// Its name, and its table's.
    pub name: &'static str,
    pub set: LimitSet,
    pub keys: Keys,
    pub work: Work,
    /// Those of whom it asks by their ids.
    pub people: Option<People>,
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

    /// Asks for a lease of an entity by its id, and settles it by that.
    pub async fn by_entity(&self, people: &People, path: &str, account: u64) {
        add(&self.tally.asked);
        let (none, now) = (Duration::ZERO, || self.now());
        let entries = self.books.as_ref().map(|books| books.open(account, now));
        let (asked, acquired) = (self.now(), people.acquire(path, self.taken));
        let Some(answer) = self.answered("acquire", path, none, acquired).await else {
            return entries.iter().for_each(Entries::fail);
        };
        let lease = match answer {
            Ok(lease) => lease,
            Err(decision) => {
                add(&self.tally.refused);
                let explained = self.explain(&decision, entries, asked);
                return self.expect("acquire", path, explained);
            }
        };
        add(&self.tally.granted);
        let granted = entries
            .as_ref()
            .map_or(Ok(()), |entries| entries.grant(now));
        self.expect("acquire", path, granted);
        entries.iter().for_each(|entries| entries.settling(now));
        let settled = people.settle(path, lease, self.used);
        let settled = self.answered("settle", path, none, settled).await;
        entries.iter().for_each(|entries| entries.settled(now));
        if let Some(settled) = settled {
            self.ended("settle", path, &settled);
        }
    }

    /// Asks without a lease, as what has units near it answers.
    pub async fn check(&self, key: &str) {
        add(&self.tally.asked);
        let checked = self.set.check(key, self.said());
        let none = Duration::ZERO;
        let Some(decision) = self.answered("check", key, none, checked).await else {
            return;
        };
        match decision.admitted() {
            true => add(&self.tally.granted),
            false => {
                add(&self.tally.refused);
                let explained = self.explain(&decision, None, self.now());
                self.expect("check", key, explained);
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
        if let Some(settled) = settled {
            self.ended("settle", key, &settled);
        }
    }

    /// One more has ended, with what is used here.
    fn ended(&self, verb: &str, key: &str, settled: &Settlement) {
        add(&self.tally.ended);
        for (limit, used) in self.used {
            let told = settled.usage(limit).map(|usage| usage.used);
            self.expect_eq(verb, key, told, Some(*used));
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
        let (Keys::Fixed(keys) | Keys::Paths(keys) | Keys::Entities(keys)) = self.keys else {
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
