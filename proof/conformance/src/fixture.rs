//! Limits, a table and commands in few words: for the suite's checks, and for tests of one
//! store's own.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::table_ext::{TableExt, in_full};
use tidegate_core::{
    Align, Amount, Bucket, Payment, Rule, Slots, Span, Standing, Timestamp, Verdict, Window,
};
use tidegate_store::{
    Answer, Command, Decision, Detail, Ending, Item, KeyCommand, KeyPath, Listing, Op, Out, Plan,
    PlanLimit, Reply, Select, Settlement, Store, StoreError, StoreFuture, Table, Terms, Verb,
};

/// A second in microseconds.
pub const SECOND: u64 = 1_000_000;

/// How long these plans remember what has ended.
pub const KEEP: Span = Span::from_secs(60);

/// `amount` in each second, of which `burst` at once.
#[must_use]
pub fn rate(amount: Amount, burst: Amount) -> Rule {
    Rule::Bucket(Bucket::new(amount, Span::SECOND, burst).expect("a sound rate"))
}

/// `capacity` in the hour that begins with the first use.
#[must_use]
pub fn hourly(capacity: Amount) -> Rule {
    let align = Align::FirstUse(Span::from_secs(3_600));
    Rule::Window(Window::new(capacity, align).expect("a sound budget"))
}

/// `capacity` at once, each for a second unless its lease says otherwise.
#[must_use]
pub fn slots(capacity: Amount) -> Rule {
    Rule::Slots(Slots::new(capacity, Span::SECOND).expect("sound slots"))
}

/// A limit of this name, level and rule, prepaid and plain.
#[must_use]
pub fn limit(name: &str, uid: u32, level: usize, rule: Rule) -> PlanLimit {
    PlanLimit {
        name: name.into(),
        uid,
        rule,
        level,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    }
}

/// The plan of these rules, each with its level; numbered in this order.
#[must_use]
pub fn plan(version: u64, levels: usize, rules: &[(usize, Rule)]) -> Arc<Plan> {
    let limit = |(uid, &(level, rule)): (usize, &(usize, Rule))| {
        limit(&format!("limit {uid}"), uid as u32, level, rule)
    };
    let limits = rules.iter().enumerate().map(limit).collect();
    Arc::new(Plan::new(version, levels, limits, KEEP))
}

/// The machine's clock, which a server's is, too.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the server's clock is the machine's"
)]
pub fn machine_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.expect("a clock after 1970");
    Timestamp::from_micros(0) + Span::from(since)
}

/// A table, its plan, and the caller's clock. What goes wrong panics.
pub struct Fixture {
    /// The table.
    pub table: Arc<dyn Table>,
    /// The limits of the requests.
    pub plan: Arc<Plan>,
    /// Whether what became of a lease is remembered.
    pub remembers: bool,
    /// The caller's clock, in microseconds.
    now: AtomicI64,
    /// The id of the last lease; the next has the next.
    leases: Mutex<u128>,
}

impl Fixture {
    /// The table called `name`, opened and told of `plan`.
    pub fn at(store: &dyn Store, name: &str, plan: Arc<Plan>, now: Timestamp) -> Self {
        let table = store.open(name, &plan).expect("a table that opens");
        table.adopt(&plan, now, &[]);
        Self {
            table,
            plan,
            remembers: false,
            now: AtomicI64::new(now.as_micros()),
            leases: Mutex::new(0),
        }
    }

    /// Another caller of the same table, by its own `plan`.
    #[must_use]
    pub fn beside(&self, plan: Arc<Plan>) -> Self {
        Self {
            table: Arc::clone(&self.table),
            plan,
            remembers: self.remembers,
            now: AtomicI64::new(self.now().as_micros()),
            leases: Mutex::new(self.last_lease() + 1_000),
        }
    }

    /// A page of its keys, leases or usage, as of now.
    pub fn listing<'a>(
        &self,
        select: Select<'a>,
        most: usize,
        after: Option<&'a [u8]>,
    ) -> Listing<'a> {
        Listing {
            select,
            after,
            most,
            now: self.now(),
            levels: self.plan.levels(),
        }
    }

    /// The caller's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::Relaxed))
    }

    /// Sets the clock.
    pub fn set_now(&self, now: Timestamp) {
        self.now.store(now.as_micros(), Ordering::Relaxed);
    }

    /// The id of the last lease.
    pub fn last_lease(&self) -> u128 {
        *self.leases.lock().expect("no panic")
    }

    /// Numbers leases from here on.
    pub fn number_from(&self, id: u128) {
        *self.leases.lock().expect("no panic") = id;
    }

    /// Executes a verb on a key.
    ///
    /// # Errors
    /// The store's.
    pub fn execute(&self, key: &[u8], verb: Verb<'_>) -> Result<Reply, StoreError> {
        self.table.one(&self.command(key, verb))
    }

    /// The command that says so.
    #[must_use]
    pub fn command<'c>(&'c self, key: &'c [u8], verb: Verb<'c>) -> KeyCommand<'c> {
        KeyCommand {
            plan: &self.plan,
            key: KeyPath::new(key, self.plan.levels()).expect("a key"),
            now: self.now(),
            calendars: &[],
            verb,
        }
    }

    /// The answers to all of these in one command, decisions in full.
    #[must_use]
    pub fn batch(&self, items: &[(&[u8], Verb<'_>)]) -> Vec<Answer> {
        let key = |bytes| KeyPath::new(bytes, self.plan.levels()).expect("a key");
        let items: Vec<Item<'_>> = items.iter().map(|(k, verb)| (key(k), *verb)).collect();
        let batch = Command {
            plan: &self.plan,
            now: self.now(),
            calendars: &[],
            op: Op::Batch(&items),
            patience: None,
        };
        match self.table.execute_and_wait(&batch) {
            Ok(Reply::Batch(answers)) => answers.into_iter().map(in_full).collect(),
            answer => panic!("a batch is answered by {answer:?}"),
        }
    }

    /// Takes a unit of each limit of so many keys under one root (of as many times the root, if
    /// there is no level below it), in one command: how many are admitted.
    #[must_use]
    pub fn takes_together(&self, count: usize) -> usize {
        let key = |number| match self.plan.levels() {
            1 => "a".to_owned(),
            _ => format!("a/{number}"),
        };
        let keys: Vec<_> = (0..count).map(key).collect();
        let amounts = vec![1; self.plan.limits().len()];
        let take = Verb::Take {
            amounts: &amounts,
            lease: None,
            detail: Detail::Always,
        };
        let items: Vec<_> = keys.iter().map(|key| (key.as_bytes(), take)).collect();
        let admitted = |answer: &Answer| match answer {
            Ok(reply) => reply.verdict().is_some_and(|verdict| verdict.admitted()),
            Err(error) => panic!("a take is answered by {error}"),
        };
        let answers = self.batch(&items);
        answers.iter().filter(|answer| admitted(answer)).count()
    }

    /// As many takes of one key, begun one after the other and none of them awaited: of a store
    /// beyond a network.
    ///
    /// # Panics
    /// The store answers at once.
    #[must_use]
    pub fn takes_at_once(&self, key: &[u8], count: usize) -> Vec<StoreFuture> {
        let amounts = vec![1; self.plan.limits().len()];
        let take = Verb::Take {
            amounts: &amounts,
            lease: None,
            detail: Detail::Verdict,
        };
        let begin = || {
            let mut answer = Ok(Reply::Done);
            let command = self.command(key, take).into();
            let begun = self.table.execute(&command, Out::new(&mut answer));
            begun.pending().expect("a store beyond a network")
        };
        (0..count).map(|_| begin()).collect()
    }

    pub(crate) fn decide(&self, key: &[u8], verb: Verb<'_>) -> Result<Decision, StoreError> {
        match self.execute(key, verb)? {
            Reply::Decision(decision) => Ok(decision),
            reply => panic!("{verb:?} is answered by {reply:?}"),
        }
    }

    /// Takes without a lease.
    ///
    /// # Errors
    /// The store's.
    pub fn take(&self, key: &[u8], amounts: &[Amount]) -> Result<Verdict, StoreError> {
        let verb = Verb::Take {
            amounts,
            lease: None,
            detail: Detail::Verdict,
        };
        self.decide(key, verb).map(|decision| decision.verdict)
    }

    /// Whether a take is admitted.
    pub fn admits(&self, key: &[u8], amounts: &[Amount]) -> bool {
        self.take(key, amounts).expect("an answer").admitted()
    }

    /// Takes as a lease of so many microseconds.
    pub fn lease(&self, key: &[u8], amounts: &[Amount], micros: u64) -> Decision {
        let leased = self.lease_by(key, amounts, micros, None);
        leased.expect("an answer")
    }

    /// The same, with an idempotency key.
    ///
    /// # Errors
    /// The store's.
    pub fn lease_by(
        &self,
        key: &[u8],
        amounts: &[Amount],
        micros: u64,
        idempotency: Option<&[u8]>,
    ) -> Result<Decision, StoreError> {
        let terms = Terms {
            id: self.last_lease() + 1,
            expires_at: self.now() + Span::from_micros(micros),
            idempotency,
            least: None,
        };
        let verb = Verb::Take {
            amounts,
            lease: Some(terms),
            detail: Detail::OnRefusal,
        };
        let decision = self.decide(key, verb)?;
        self.number_from(terms.id);
        Ok(decision)
    }

    /// Ends a lease.
    ///
    /// # Errors
    /// The store's.
    pub fn end(&self, key: &[u8], id: u128, ending: Ending<'_>) -> Result<Settlement, StoreError> {
        let verb = Verb::End {
            id,
            ending,
            remember: self.remembers,
        };
        match self.execute(key, verb)? {
            Reply::Settled(settlement) => Ok(settlement),
            reply => panic!("an end is answered by {reply:?}"),
        }
    }

    /// Where every limit that the key reaches stands.
    pub fn standings(&self, key: &[u8]) -> Vec<Standing> {
        let peek = self.decide(key, Verb::Peek { amounts: &[] });
        let standings = peek.expect("an answer").standings;
        standings.into_iter().flatten().collect()
    }

    /// What is left of every limit that the key reaches.
    pub fn left(&self, key: &[u8]) -> Vec<Amount> {
        let standings = self.standings(key).into_iter();
        standings.map(|standing| standing.remaining).collect()
    }
}
