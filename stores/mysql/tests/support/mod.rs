//! What the tests share: limits, a table on a server, and commands in few words.
#![allow(dead_code, reason = "no test uses all of it")]

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_contract::core::{
    Align, Amount, Bucket, Payment, Rule, Slots, Span, Timestamp, Verdict, Window,
};
use tidegate_contract::{
    Command, Decision, Detail, Ending, KeyPath, Plan, PlanLimit, Reply, Settlement, Store,
    StoreError, Table, Terms, Verb,
};
use tidegate_mysql::{Clock, MysqlStore, Options};

pub const SECOND: u64 = 1_000_000;

/// How long these plans remember what has ended.
pub const KEEP: Span = Span::from_secs(60);

/// `amount` in each second, of which `burst` at once.
pub fn rate(amount: Amount, burst: Amount) -> Rule {
    Rule::Bucket(Bucket::new(amount, Span::SECOND, burst).expect("a sound rate"))
}

/// `capacity` in the hour that begins with the first use.
pub fn hourly(capacity: Amount) -> Rule {
    let align = Align::FirstUse(Span::from_secs(3_600));
    Rule::Window(Window::new(capacity, align).expect("a sound budget"))
}

pub fn slots(capacity: Amount) -> Rule {
    Rule::Slots(Slots::new(capacity, Span::SECOND).expect("sound slots"))
}

/// The plan of these rules, each with its level; numbered in this order.
pub fn plan(version: u64, levels: usize, rules: &[(usize, Rule)]) -> Arc<Plan> {
    let limit = |(uid, &(level, rule)): (usize, &(usize, Rule))| PlanLimit {
        name: format!("limit {uid}").into(),
        uid: uid as u32,
        rule,
        level,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
    };
    let limits = rules.iter().enumerate().map(limit).collect();
    Arc::new(Plan::new(version, levels, limits, KEEP))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server's clock is the machine's"
)]
pub fn machine_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.expect("a clock after 1970");
    Timestamp::from_micros(0) + Span::from(since)
}

pub fn options(clock: Clock) -> Options {
    Options {
        clock,
        deadline: std::time::Duration::from_secs(30),
        ..Options::default()
    }
}

pub fn open(server: &MariadbServer, clock: Clock) -> MysqlStore {
    MysqlStore::open(&server.url(), options(clock)).expect("a server")
}

/// Asks the server something in SQL; the first column of the answer.
pub fn ask(server: &MariadbServer, sql: &str) -> Vec<String> {
    let mut client = std::process::Command::new("mariadb");
    client.args([
        "--no-defaults",
        "--user=root",
        "--host=127.0.0.1",
        "--protocol=tcp",
    ]);
    client.args([
        "--skip-column-names",
        "--batch",
        "tidegate",
        "--execute",
        sql,
    ]);
    client.arg(format!("--port={}", server.port()));
    let output = client.output().expect("mariadb runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sql}: {trouble}");
    said.lines().map(str::to_owned).collect()
}

/// A number that the server says.
pub fn number(server: &MariadbServer, sql: &str) -> u64 {
    let said = ask(server, sql);
    let last = said.first().and_then(|line| line.split('\t').next_back());
    last.and_then(|word| word.parse().ok()).expect("a number")
}

/// A table, its plan, and the caller's clock.
pub struct Desk {
    pub table: Arc<dyn Table>,
    pub plan: Arc<Plan>,
    pub now: Timestamp,
    pub leases: u128,
}

impl Desk {
    pub fn at(store: &MysqlStore, name: &str, plan: Arc<Plan>, now: Timestamp) -> Self {
        let table = store.open(name, &plan).expect("a table that opens");
        table.adopt(&plan, now, &[]);
        Self {
            table,
            plan,
            now,
            leases: 0,
        }
    }

    pub fn ask(&self, key: &[u8], verb: Verb<'_>) -> Result<Reply, StoreError> {
        self.table.execute(&self.command(key, verb))
    }

    pub fn command<'c>(&'c self, key: &'c [u8], verb: Verb<'c>) -> Command<'c> {
        Command {
            plan: &self.plan,
            key: KeyPath::new(key, self.plan.levels()).expect("a key"),
            now: self.now,
            calendars: &[],
            verb,
        }
    }

    fn decide(&self, key: &[u8], verb: Verb<'_>) -> Result<Decision, StoreError> {
        match self.ask(key, verb)? {
            Reply::Decision(decision) => Ok(decision),
            reply => panic!("{verb:?} is answered by {reply:?}"),
        }
    }

    pub fn take(&self, key: &[u8], amounts: &[Amount]) -> Result<Verdict, StoreError> {
        let verb = Verb::Take {
            amounts,
            lease: None,
            detail: Detail::Verdict,
        };
        self.decide(key, verb).map(|decision| decision.verdict)
    }

    pub fn admits(&self, key: &[u8], amounts: &[Amount]) -> bool {
        self.take(key, amounts).expect("an answer").admitted()
    }

    /// Takes as a lease of so many microseconds.
    pub fn lease(&mut self, key: &[u8], amounts: &[Amount], micros: u64) -> Decision {
        self.leases += 1;
        let terms = Terms {
            id: self.leases,
            expires_at: self.now + Span::from_micros(micros),
            idempotency: None,
        };
        let verb = Verb::Take {
            amounts,
            lease: Some(terms),
            detail: Detail::OnRefusal,
        };
        self.decide(key, verb).expect("an answer")
    }

    pub fn end(&self, key: &[u8], id: u128, ending: Ending<'_>) -> Result<Settlement, StoreError> {
        let verb = Verb::End {
            id,
            ending,
            remember: false,
        };
        match self.ask(key, verb)? {
            Reply::Settled(settlement) => Ok(settlement),
            reply => panic!("an end is answered by {reply:?}"),
        }
    }

    /// What is left of each limit that the key reaches.
    pub fn left(&self, key: &[u8]) -> Vec<Amount> {
        let peek = self.decide(key, Verb::Peek { amounts: &[] });
        let standings = peek.expect("an answer").standings;
        let known = standings.into_iter().flatten();
        known.map(|standing| standing.remaining).collect()
    }
}
