//! Real servers with a tiered policy on one store: one is told to stop, one stands still, one is
//! killed. What each held is where it should be, and no window admits more than its capacity.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tidegate_conformance::Paused;
use tidegate_fleet::house::{House, PATIENT};
use tidegate_fleet::program;
use tidegate_fleet::server::Server;
use tidegate_fleet::stores::STORES;
use tidegate_fleet::talk::{Call, Client, Http, Verb};

const CAPACITY: u64 = 2_000;
const BATCH: u64 = 100;
const HOLD: Duration = Duration::from_millis(800);

/// A window that ends after every test. Nothing is idle for so long, and no grant is asked for
/// before one is needed: what a server does is what it is asked.
const POLICIES: &str = "
[policy.held]
tier = { mode = 'leased', batch = 100, outstanding = 10_000, hold = '60s', idle = '60s', low_water = 0 }
[policy.held.limits]
calls = { calls = 2_000, per = '400d', algorithm = 'fixed_window' }
[policy.short]
tier = { mode = 'leased', batch = 100, hold = '800ms', idle = '60s', low_water = 0 }
[policy.short.limits]
calls = { calls = 2_000, per = '400d', algorithm = 'fixed_window' }
[policy.busy]
tier = { mode = 'leased', batch = 5, hold = '800ms' }
[policy.busy.limits]
calls = { calls = 1_000_000, per = '400d', algorithm = 'fixed_window' }
[policy.lent]
tier = { mode = 'leased', batch = { running = 4 }, hold = '60s', idle = '60s', low_water = 0 }
[policy.lent.limits]
running = { concurrency = 10, ttl = '15s' }
[policy.kept]
tier = { mode = 'leased', batch = { running = 4 }, idle = '200ms', low_water = 0 }
[policy.kept.limits]
running = { concurrency = 10, ttl = '1h' }
[policy.plain.limits]
calls = { calls = 1_000_000, per = '400d', algorithm = 'fixed_window' }
";

/// Options of a store that is given up while it stands still.
const SHORT: &str = "deadline=500ms";

/// A server, and a connection to it.
struct Node {
    server: Server,
    client: Http,
}

impl Node {
    fn check(&mut self, policy: &str, key: &str) -> bool {
        let check = Call::of(Verb::Check, policy, key);
        self.client.ask(&check).expect("an answer").admitted()
    }

    /// A lease, as the server says it.
    fn lease(&mut self, policy: &str, key: &str) -> Value {
        let body = format!(r#"{{"policy":"{policy}","key":"{key}"}}"#);
        let (status, body) = self.post("/v1/acquire", &body);
        assert_eq!(status, 200, "{body}");
        body["lease"].clone()
    }

    /// Releases a lease; what the server answers.
    fn end(&mut self, policy: &str, key: &str, lease: &str) -> u16 {
        let body = format!(r#"{{"policy":"{policy}","key":"{key}","lease":"{lease}"}}"#);
        self.post("/v1/release", &body).0
    }

    fn post(&mut self, path: &str, body: &str) -> (u16, Value) {
        let sent = self.client.send("POST", path, "application/json", body);
        let (status, body) = sent.expect("an answer");
        (status, serde_json::from_slice(&body).expect("JSON"))
    }

    /// What the store has left.
    fn left(&mut self, policy: &str, key: &str) -> u64 {
        self.left_of(policy, key, "calls")
    }

    /// The same, of this limit.
    fn left_of(&mut self, policy: &str, key: &str, limit: &str) -> u64 {
        let peek = Call::of(Verb::Peek, policy, key);
        let told = self.client.ask(&peek).expect("an answer");
        let left = told.number(&format!("{limit}.remaining"));
        left.expect("a standing")
    }

    /// Whether there is such a policy: 200, or else 404.
    fn peek_status(&mut self, policy: &str, key: &str) -> u16 {
        let body = format!(r#"{{"policy":"{policy}","key":"{key}"}}"#);
        self.post("/v1/peek", &body).0
    }

    /// Which node it is, and how many calls each node has taken of a policy in advance.
    fn fleet(&mut self, policy: &str) -> (String, BTreeMap<String, u64>) {
        let path = format!("/v1/fleet?policy={policy}");
        let sent = self.client.send("GET", &path, "text/plain", "");
        let told: Value = serde_json::from_slice(&sent.expect("an answer").1).expect("JSON");
        let mut units = BTreeMap::new();
        for grant in told["grants"].as_array().expect("grants") {
            let amounts = grant["amounts"].as_object().expect("amounts");
            assert_eq!(amounts.keys().collect::<Vec<_>>(), ["calls"], "{told}");
            let node = grant["node"].as_str().expect("a node").to_owned();
            *units.entry(node).or_default() += grant["amounts"]["calls"].as_u64().expect("calls");
        }
        (told["node"].as_str().expect("a node").to_owned(), units)
    }

    /// How many grants of a policy it has asked for.
    fn requested(&mut self, policy: &str) -> u64 {
        let sent = self.client.send("GET", "/metrics", "text/plain", "");
        let text = String::from_utf8(sent.expect("metrics").1).expect("text");
        let of = format!("policy=\"{policy}\"");
        let line = text.lines().find(|line| {
            line.starts_with("tidegate_grants_total")
                && line.contains(&of)
                && line.contains("outcome=\"requested\"")
        });
        let number = line.and_then(|line| line.split(' ').next_back());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// So many servers on a store of this kind; none where this machine has no such store.
fn nodes(store: &str, count: usize) -> Option<(House, Vec<Node>)> {
    nodes_with(store, count, PATIENT)
}

/// The same, with these options of the store.
fn nodes_with(store: &str, count: usize, options: &str) -> Option<(House, Vec<Node>)> {
    let store = STORES.iter().find(|row| row.name == store).expect("a row");
    let house = House::open(*store, program::program().expect("a program"))?;
    let start = house.server("tiers", POLICIES, options);
    let node = |_| {
        let server = start.start().expect("it starts");
        let client = Http::connect(server.http).expect("it listens");
        Node { server, client }
    };
    let nodes = (0..count).map(node).collect();
    Some((house, nodes))
}

/// A test of the same name on each store that is a server of its own.
macro_rules! on_each {
    ($($name:ident)*) => { $(
        mod $name {
            #[test] fn on_redis() { super::super::$name("redis"); }
            #[test] fn on_postgres() { super::super::$name("postgres"); }
            #[test] fn on_mariadb() { super::super::$name("mariadb"); }
        }
    )* };
}

mod each {
    on_each! {
        a_server_that_is_told_to_stop_returns_all_it_holds
        a_server_that_stood_still_for_twice_the_hold_spends_nothing_of_before
        a_server_that_is_killed_strands_what_it_held_and_the_window_holds
        a_server_goes_on_after_its_store_has_stood_still
        a_server_gives_out_slots_and_those_of_a_killed_one_are_back
        each_server_tells_what_all_hold
        leases_that_a_server_gave_outlast_a_reload_without_their_policy
    }
}

fn a_server_that_is_told_to_stop_returns_all_it_holds(store: &str) {
    let Some((_house, mut nodes)) = nodes(store, 2) else {
        return;
    };
    let keys: Vec<_> = (0..5).map(|key| format!("key {key}")).collect();
    for key in &keys {
        assert!(nodes[0].check("held", key));
        assert_eq!(nodes[1].left("held", key), CAPACITY - BATCH);
    }
    let Node { server, client } = nodes.swap_remove(0);
    server.stop().expect("it ends");
    drop(client);
    let left = keys.iter().map(|key| nodes[0].left("held", key));
    let stranded: u64 = left.map(|left| CAPACITY - 1 - left).sum();
    println!(
        "{store}: told to stop, stranded {stranded} of {}",
        keys.len() as u64 * (BATCH - 1)
    );
    assert_eq!(stranded, 0);
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process stands still for so long, by its machine's clock"
)]
fn a_server_that_stood_still_for_twice_the_hold_spends_nothing_of_before(store: &str) {
    let Some((_house, mut nodes)) = nodes(store, 2) else {
        return;
    };
    assert!(nodes[0].check("short", "k"));
    assert_eq!(nodes[0].requested("short"), 1);
    let paused = Paused::new(nodes[0].server.process());
    thread::sleep(2 * HOLD);
    // Others go on meanwhile, with all that it does not hold.
    assert!(nodes[1].check("short", "k"));
    drop(paused);
    assert!(nodes[0].check("short", "k"));
    assert_eq!(nodes[0].requested("short"), 2, "it asked for what it spent");
}

fn a_server_that_is_killed_strands_what_it_held_and_the_window_holds(store: &str) {
    let Some((_house, mut nodes)) = nodes(store, 4) else {
        return;
    };
    let (admitted, is_killed) = (&AtomicU64::new(0), &AtomicBool::new(false));
    let mut killed = nodes.swap_remove(3);
    thread::scope(|scope| {
        let paused = nodes[2].server.process();
        for node in &mut nodes {
            // Until it is refused after the kill: by then nobody has more for it.
            scope.spawn(move || {
                loop {
                    match node.check("held", "k") {
                        true => _ = admitted.fetch_add(1, Ordering::SeqCst),
                        false if is_killed.load(Ordering::SeqCst) => break,
                        false => {}
                    }
                }
            });
        }
        // It holds something, and less and less of it.
        for _ in 0..BATCH + BATCH / 2 {
            admitted.fetch_add(u64::from(killed.check("held", "k")), Ordering::SeqCst);
        }
        let stands = Paused::new(paused);
        // Killed at once (`kill -9`), as servers are when they are dropped.
        drop(killed);
        drop(stands);
        is_killed.store(true, Ordering::SeqCst);
    });
    let admitted = admitted.load(Ordering::SeqCst);
    let stranded = CAPACITY - admitted.min(CAPACITY);
    println!("{store}: killed, stranded {stranded} of a batch of {BATCH}");
    assert!(admitted <= CAPACITY, "{admitted} of {CAPACITY}");
    assert!(stranded <= BATCH, "{stranded}");
}

/// Also what a killed one held, until the store's time for it is over; and nothing of one that was told to
/// stop.
fn each_server_tells_what_all_hold(store: &str) {
    let Some((_house, mut nodes)) = nodes(store, 3) else {
        return;
    };
    for (node, keys) in nodes.iter_mut().zip([1, 2, 3]) {
        for key in 0..keys {
            assert!(node.check("held", &format!("key {key}")));
        }
    }
    let told: Vec<_> = nodes.iter_mut().map(|node| node.fleet("held")).collect();
    let here: BTreeSet<_> = told.iter().map(|(here, _)| here.clone()).collect();
    assert_eq!(here.len(), 3, "each is another node");
    let held = |told: &[(String, BTreeMap<String, u64>)]| -> Vec<_> {
        told.iter().map(|(_, all)| all.clone()).collect()
    };
    let expected = |counts: &[u64]| -> BTreeMap<String, u64> {
        let names = told.iter().map(|(here, _)| here.clone());
        let held = names.zip(counts.iter().map(|keys| keys * BATCH));
        held.filter(|(_, units)| *units > 0).collect()
    };
    assert_eq!(held(&told), [(); 3].map(|()| expected(&[1, 2, 3])));
    let Node { server, client } = nodes.pop().expect("three");
    server.stop().expect("it ends");
    drop(client);
    // Killed at once (`kill -9`), as servers are when they are dropped.
    drop(nodes.pop());
    assert_eq!(nodes[0].fleet("held").1, expected(&[1, 2, 0]));
    // None that takes nothing in advance.
    assert_eq!(nodes[0].fleet("plain").1, BTreeMap::new());
}

fn a_server_gives_out_slots_and_those_of_a_killed_one_are_back(store: &str) {
    let Some((_house, mut nodes)) = nodes(store, 2) else {
        return;
    };
    let free = |node: &mut Node| node.left_of("lent", "k", "running");
    let leases: Vec<_> = (0..4).map(|_| nodes[0].lease("lent", "k")).collect();
    assert_eq!(free(&mut nodes[1]), 6);
    for lease in &leases {
        assert!(lease["fence"].is_null(), "{lease}");
        // Only the server that gave it knows it.
        let id = lease["id"].as_str().expect("an id");
        assert_eq!(nodes[1].end("lent", "k", id), 404);
        assert_eq!(nodes[0].end("lent", "k", id), 200);
        assert_eq!(nodes[0].end("lent", "k", id), 200);
    }
    // They lie at that server still, for whoever asks there.
    assert_eq!(free(&mut nodes[1]), 6);
    let of_store = nodes[1].lease("plain", "k");
    assert!(of_store["fence"].is_null(), "it has no slot: {of_store}");
    assert!(nodes[0].lease("lent", "k")["fence"].is_null());
    // Killed at once (`kill -9`), as servers are when they are dropped.
    drop(nodes.remove(0));
    let mut other = nodes.remove(0);
    assert_eq!(free(&mut other), 6);
    assert_eq!(until_free(10, || free(&mut other)), 10);
}

/// A reload without the policy, and one that brings it back: its holders go on.
fn leases_that_a_server_gave_outlast_a_reload_without_their_policy(store: &str) {
    let Some((_house, mut nodes)) = nodes(store, 1) else {
        return;
    };
    let mut node = nodes.pop().expect("one");
    let leases: Vec<_> = (0..4).map(|_| node.lease("kept", "k")).collect();
    let id = |lease: &Value| lease["id"].as_str().expect("an id").to_owned();
    let (gone, other) = POLICIES.split_once("[policy.kept]").expect("it is there");
    let (_, other) = other.split_once("[policy.plain").expect("it is there");
    let gone = format!("{gone}[policy.plain{other}");
    for _ in 0..2 {
        node.server.reload(&gone).expect("it is told");
        until_status(404, || node.peek_status("kept", "k"));
        assert_eq!(node.end("kept", "k", &id(&leases[0])), 404);
        node.server.reload(POLICIES).expect("it is told");
        until_status(200, || node.peek_status("kept", "k"));
    }
    for lease in &leases {
        assert_eq!(node.end("kept", "k", &id(lease)), 200);
    }
    // Long before the store's lease of them ends.
    let free = || node.left_of("kept", "k", "running");
    assert_eq!(until_free(10, free), 10);
    // One that comes back changed begins anew.
    let lease = node.lease("kept", "k");
    node.server.reload(&gone).expect("it is told");
    until_status(404, || node.peek_status("kept", "k"));
    let changed = POLICIES.replace("ttl = '1h'", "ttl = '2h'");
    node.server.reload(&changed).expect("it is told");
    until_status(200, || node.peek_status("kept", "k"));
    assert_eq!(node.end("kept", "k", &id(&lease)), 404);
}

/// Waits, within a minute, until a server answers so.
#[expect(
    clippy::disallowed_methods,
    reason = "a reload is done by a process of its own, which does not tell when"
)]
fn until_status(wanted: u16, mut status: impl FnMut() -> u16) {
    for _ in 0..600 {
        if status() == wanted {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("it never answers {wanted}");
}

/// Waits, within a minute, until as much is free.
#[expect(
    clippy::disallowed_methods,
    reason = "a lease expires by the clock of the store, which is a process of its own"
)]
fn until_free(all: u64, mut free: impl FnMut() -> u64) -> u64 {
    for _ in 0..600 {
        if free() == all {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    free()
}

/// A connection that Redis' client makes anew wakes its commands while it holds a lock, by which
/// the next command of a tier waited for itself: the whole server stood still for good.
#[expect(
    clippy::disallowed_methods,
    reason = "another process stands still for so long, by its machine's clock"
)]
fn a_server_goes_on_after_its_store_has_stood_still(store: &str) {
    let Some((house, mut nodes)) = nodes_with(store, 1, SHORT) else {
        return;
    };
    let node = nodes.pop().expect("one");
    let process = house.process().expect("it is a process of its own");
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..4 {
            let mut client = Http::connect(node.server.http).expect("it listens");
            scope.spawn(move || {
                let check = Call::of(Verb::Check, "busy", &format!("key {}", number % 2));
                while !is_over.load(Ordering::SeqCst) {
                    // An error is an answer, too.
                    client.ask(&check).expect("an answer");
                }
            });
        }
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(300));
            let paused = Paused::new(process);
            thread::sleep(Duration::from_millis(1_500));
            drop(paused);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let mut client = Http::connect(node.server.http).expect("it listens");
    for policy in ["busy", "plain"] {
        let check = Call::of(Verb::Check, policy, "k");
        let is_admitted = || client.ask(&check).expect("an answer").admitted();
        let admitted = std::iter::repeat_with(is_admitted)
            .take(1_000)
            .inspect(|admitted| {
                // The breaker asks again after a moment.
                if !admitted {
                    thread::sleep(Duration::from_millis(50));
                }
            });
        assert!({ admitted }.any(|admitted| admitted), "{policy}");
    }
    node.server.stop().expect("it ends");
}
