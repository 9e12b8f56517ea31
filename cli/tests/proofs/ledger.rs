//! What one client asked of a server until the server was killed.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::client::{Client, Lease, Request, Said};

/// Everyone's key.
pub const KEY: &str = "acme";

/// One change: when it was asked for, and when its answer came, if one did.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub begun: Instant,
    pub acknowledged: Option<Instant>,
}

/// A lease, as far as it is known.
#[derive(Clone, Debug)]
pub struct Taken {
    pub name: String,
    pub grant: Change,
    pub lease: Option<Lease>,
    /// What was reported as used, and when.
    pub settle: Option<Change>,
    pub used: u64,
}

/// All changes that one client asked for. What was refused is none.
#[derive(Default, Debug)]
pub struct Ledger {
    pub spent: Vec<(u64, Change)>,
    pub scarce: Vec<(u64, Change)>,
    pub leases: Vec<Taken>,
}

impl Ledger {
    pub fn changes(&self) -> impl Iterator<Item = Change> {
        let plain = self
            .spent
            .iter()
            .chain(&self.scarce)
            .map(|(_, change)| *change);
        let leases = self.leases.iter();
        plain
            .chain(leases.flat_map(|taken| [Some(taken.grant), taken.settle].into_iter().flatten()))
    }
}

/// A budget too large to be spent.
pub fn spend<'a>(amounts: &'a [(&'a str, u64)]) -> Request<'a> {
    let (policy, key) = ("spent", KEY);
    Request {
        policy,
        key,
        amounts,
    }
}

/// A budget that each round spends for its own key.
pub fn scarce(key: &str) -> Request<'_> {
    let (policy, amounts) = ("scarce", &[("few", 1)]);
    Request {
        policy,
        key,
        amounts,
    }
}

/// Tokens, and a slot while they are used.
pub fn work<'a>(amounts: &'a [(&'a str, u64)]) -> Request<'a> {
    let (policy, key) = ("work", KEY);
    Request {
        policy,
        key,
        amounts,
    }
}

/// What a lease takes; what it uses is reported when it is settled.
pub const TAKES: &[(&str, u64)] = &[("tokens", 3), ("slots", 1)];

/// The most leases that a client leaves held: all clients together leave room.
const MOST_HELD: u64 = 1_000;

/// A client that asks until the server is gone.
pub struct Worker<'a> {
    pub client: Box<dyn Client>,
    pub name: String,
    pub round: usize,
    /// Counts the clients that have been answered once.
    pub answered: &'a AtomicU64,
    pub ledger: Ledger,
}

fn begun() -> Change {
    Change {
        begun: Instant::now(),
        acknowledged: None,
    }
}

impl Worker<'_> {
    /// What was done, and how it ended.
    pub fn run(mut self) -> (Ledger, io::Error) {
        let mut number = 0;
        loop {
            if let Err(error) = self.turn(number) {
                return (self.ledger, error);
            }
            if number == 0 {
                self.answered.fetch_add(1, Ordering::SeqCst);
            }
            number += 1;
        }
    }

    fn turn(&mut self, number: u64) -> io::Result<()> {
        self.spend(1 + number % 2)?;
        self.scarce()?;
        self.lease(number)
    }

    fn spend(&mut self, amount: u64) -> io::Result<()> {
        self.ledger.spent.push((amount, begun()));
        let amounts = [("units", amount)];
        match amount {
            1 => assert_eq!(self.client.check(spend(&amounts))?, Said::Yes),
            _ => self.client.debit(spend(&amounts))?,
        }
        acknowledge(&mut self.ledger.spent);
        Ok(())
    }

    fn scarce(&mut self) -> io::Result<()> {
        self.ledger.scarce.push((1, begun()));
        match self.client.check(scarce(&self.round.to_string()))? {
            Said::Yes => acknowledge(&mut self.ledger.scarce),
            Said::No(_) => drop(self.ledger.scarce.pop()),
        }
        Ok(())
    }

    fn lease(&mut self, number: u64) -> io::Result<()> {
        let name = format!("{}-{}-{number}", self.round, self.name);
        self.ledger.leases.push(Taken {
            name: name.clone(),
            grant: begun(),
            lease: None,
            settle: None,
            used: number % 6,
        });
        let granted = self.client.acquire(work(TAKES), Some(&name))?;
        let lease = granted.expect("there is room");
        assert!(!lease.repeated, "{name} is nobody else's");
        let taken = self.ledger.leases.last_mut().expect("it was just pushed");
        taken.grant.acknowledged = Some(Instant::now());
        taken.lease = Some(lease.clone());
        // Some are held when the server dies, however many it was asked for.
        if number.is_multiple_of(3) && number / 3 < MOST_HELD {
            return Ok(());
        }
        taken.settle = Some(begun());
        let used = [("tokens", taken.used)];
        assert!(!self.client.settle(work(&used), &lease.id)?, "settled once");
        let settle = taken.settle.as_mut().expect("it was just said");
        settle.acknowledged = Some(Instant::now());
        Ok(())
    }
}

fn acknowledge(changes: &mut [(u64, Change)]) {
    let (_, change) = changes.last_mut().expect("it was just pushed");
    change.acknowledged = Some(Instant::now());
}
