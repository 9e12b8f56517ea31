//! All protocols at once, on one hot key and on many: the clients count what they
//! are told, and hold every instant against the clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::{Client, Lease, PROTOCOLS, Protocol, Request, Said};
use crate::server::{Server, folder, now};

/// Nothing comes back while a test runs, but for the last two.
const POLICIES: &str = "
[policy.window.limits]
units = { budget = 500, per = '400d', algorithm = 'first_use_window' }

[policy.bucket.limits]
units = { rate = 1, per = '400d', burst = 20 }

[policy.slots.limits]
running = { concurrency = 5, ttl = '1h' }

[policy.pace.limits]
units = { rate = 1, per = '1s', burst = 1 }

[policy.second.limits]
units = { budget = 1, per = '1s' }
";
const ONE: &[(&str, u64)] = &[("units", 1)];
const HOT: u64 = 500;
const EACH: u64 = 20;
const SLOTS: u64 = 5;

/// How many clients each protocol has, how often each asks, and of how many keys.
const CLIENTS: usize = 3;
const ASKS: usize = 400;
const KEYS: usize = 50;

/// How far the server's clock may be from ours: both are the machine's.
const APART: u64 = 50_000;

fn check(client: &mut dyn Client, policy: &str, key: &str) -> Said {
    let request = Request {
        policy,
        key,
        amounts: ONE,
    };
    client.check(request).expect("an answer")
}

const SLOT: Request<'_> = Request {
    policy: "slots",
    key: "hot",
    amounts: &[("running", 1)],
};

/// What one client was granted.
#[derive(Default)]
struct Counted {
    hot: u64,
    many: BTreeMap<String, u64>,
    leases: u64,
}

struct Hammer<'a> {
    client: Box<dyn Client>,
    /// How many leases all clients hold, as far as they know.
    held: &'a AtomicU64,
    mine: Option<Lease>,
    counted: Counted,
}

impl Hammer<'_> {
    fn run(mut self, first: usize) -> Counted {
        for number in first..first + ASKS {
            let hot = check(&mut *self.client, "window", "hot");
            self.counted.hot += u64::from(hot == Said::Yes);
            let key = format!("key {}", number % KEYS);
            let admitted = check(&mut *self.client, "bucket", &key) == Said::Yes;
            *self.counted.many.entry(key).or_default() += u64::from(admitted);
            match number % 8 {
                0 => self.take(),
                4 => self.give_back(),
                _ => {}
            }
        }
        self.give_back();
        self.counted
    }

    /// From its answer on it is held.
    fn take(&mut self) {
        self.give_back();
        self.mine = self.client.acquire(SLOT, None).expect("an answer");
        if self.mine.is_some() {
            let held = self.held.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(held <= SLOTS, "{held} are held of {SLOTS}");
            self.counted.leases += 1;
        }
    }

    /// Before it is given back it is held no longer.
    fn give_back(&mut self) {
        let Some(lease) = self.mine.take() else {
            return;
        };
        self.held.fetch_sub(1, Ordering::SeqCst);
        let used = Request {
            amounts: &[],
            ..SLOT
        };
        assert!(!self.client.settle(used, &lease.id).expect("it is live"));
    }
}

#[test]
fn never_more_than_the_limit_is_admitted_over_all_protocols_at_once() {
    let folder = folder(POLICIES);
    let server = Server::start(folder.path(), &[]);
    let held = AtomicU64::new(0);
    let clients = PROTOCOLS.iter().flat_map(|protocol| [*protocol; CLIENTS]);
    let hammers: Vec<_> = clients
        .map(|protocol| Hammer {
            client: protocol.enter(&server).expect("it listens"),
            held: &held,
            mine: None,
            counted: Counted::default(),
        })
        .collect();
    let counted: Vec<_> = thread::scope(|scope| {
        let numbered = hammers.into_iter().enumerate();
        // All of them run before any is waited for.
        let threads: Vec<_> = numbered
            .map(|(nth, hammer)| scope.spawn(move || hammer.run(5 * nth)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|counted| counted.expect("no panic")).collect()
    });
    assert_eq!(counted.iter().map(|c| c.hot).sum::<u64>(), HOT);
    let mut many = BTreeMap::<&str, u64>::new();
    for (key, admitted) in counted.iter().flat_map(|c| &c.many) {
        *many.entry(key).or_default() += admitted;
    }
    assert!(
        many.len() == KEYS && many.values().all(|&n| n == EACH),
        "{many:?}"
    );
    assert!(counted.iter().map(|c| c.leases).sum::<u64>() >= SLOTS);
    let mut last = Protocol::Http.enter(&server).expect("it listens");
    let free = last.peek(SLOT).expect("an answer")["running"].remaining;
    assert_eq!(free, SLOTS);
}

#[test]
fn the_instants_that_every_listener_tells_hold() {
    let folder = folder(POLICIES);
    let server = Server::start(folder.path(), &["--store", "memory:"]);
    thread::scope(|scope| {
        for (nth, protocol) in PROTOCOLS.into_iter().enumerate() {
            for policy in ["pace", "second"] {
                let mut client = protocol.enter(&server).expect("it listens");
                scope.spawn(move || instants_hold(&mut *client, policy, &nth.to_string()));
            }
        }
    });
}

/// Nobody else asks for this key: it is refused before the instant that it was
/// told, and admitted at and after it.
fn instants_hold(client: &mut dyn Client, policy: &str, key: &str) {
    let (mut told, mut kept) = (None, 0);
    while kept < 4 {
        let before = now();
        let said = check(client, policy, key);
        let after = now();
        match (said, told) {
            (Said::Yes, Some(until)) => {
                assert!(after + APART >= until, "{policy}: too early");
                (told, kept) = (None, kept + 1);
            }
            (Said::Yes, None) => {}
            (Said::No(until), None) => {
                assert!(until + APART > before && until <= after + 1_000_000 + APART);
                told = Some(until);
            }
            (Said::No(again), Some(until)) => {
                assert!(
                    before < until + APART,
                    "{policy}: refused after its instant"
                );
                assert_eq!(again, until, "a refusal changes nothing");
            }
        }
        thread::sleep(Duration::from_millis(3));
    }
}
