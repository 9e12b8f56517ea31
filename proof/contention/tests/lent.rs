//! Eight processes that each hold slots at the store and give them out to their tasks; one of them is
//! killed. A ledger beside them counts how many are held at every instant.

mod node;

use std::thread;
use std::time::{Duration, Instant};

use tidegate::{Limit, LimitSet};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::with_options;

use node::Node;

const CAPACITY: u64 = 24;
const BATCH: u64 = 4;
const TTL: Duration = Duration::from_secs(2);
const PROCESSES: usize = 8;
const KILLED: usize = 3;

/// One slot that was held, from when to when; `true`: the node gave it.
type Held = (i64, i64, bool);

fn start(url: &str) -> Node<Held> {
    let numbers = [
        ("--capacity", CAPACITY as i64),
        ("--batch", BATCH as i64),
        ("--hold", 200),
        ("--ttl", TTL.as_millis() as i64),
        ("--tasks", 4),
    ];
    Node::start(("lend", url), &numbers, held)
}

fn held(line: &str) -> Option<Held> {
    let words: Vec<_> = line.split(' ').collect();
    let [from, until, how] = words[..] else {
        return None;
    };
    Some((from.parse().ok()?, until.parse().ok()?, how == "node"))
}

/// The most that were held at an instant.
fn most(all: &[Held]) -> i64 {
    let begun = all.iter().map(|&(from, ..)| (from, 1));
    let ended = all.iter().map(|&(_, until, _)| (until, -1));
    let mut events: Vec<(i64, i64)> = begun.chain(ended).collect();
    // At one instant those that end go first: what is held until then is not held then.
    events.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in events {
        now += change;
        most = most.max(now);
    }
    most
}

/// How many slots are free at the store.
fn free(set: &LimitSet) -> u64 {
    let peeked = set.peek("k", 1).wait().expect("a peek");
    peeked.remaining("slots").expect("a standing")
}

#[expect(
    clippy::disallowed_methods,
    reason = "other processes go on for so long, by their machine's clock"
)]
fn eight_processes(store: &str, url: &str) {
    let url = with_options(url, "deadline=60s");
    let mut nodes: Vec<_> = (0..PROCESSES).map(|_| Some(start(&url))).collect();
    nodes.iter().flatten().for_each(Node::until_it_speaks);
    thread::sleep(Duration::from_secs(3));
    let mut all = nodes[KILLED].take().expect("it runs").kill();
    let killed_at = Instant::now();
    thread::sleep(Duration::from_secs(2));
    for node in nodes.into_iter().flatten() {
        let said = node.tell();
        assert!(!said.is_empty());
        all.extend(said);
    }
    let limit = Limit::concurrency("slots", CAPACITY).ttl(TTL);
    let shared = tidegate_url::open(&url).expect("the store").store;
    let set = LimitSet::builder().name("lent").store(shared).limit(limit);
    let set = set.build().expect("a set");
    let stranded = CAPACITY - free(&set);
    // Twice the ttl of its holders, and a five hundredth, from when the store heard of it last.
    let back = 2 * TTL + Duration::from_secs(1);
    thread::sleep(back.saturating_sub(killed_at.elapsed()));
    assert_eq!(free(&set), CAPACITY, "what the killed one held is back");
    let (most, by_nodes) = (
        most(&all),
        all.iter().filter(|(.., is_node)| *is_node).count(),
    );
    println!(
        "{store}: at most {most} of {CAPACITY} at once; {by_nodes} of {} leases given by nodes; \
         stranded {stranded} by the one that was killed",
        all.len(),
    );
    assert!(most <= CAPACITY as i64, "{most}");
    assert!(by_nodes > 0);
}

#[test]
fn eight_processes_on_redis_hold_no_more_slots_than_there_are_and_a_killed_ones_are_back() {
    if let Some(server) = RedisServer::start() {
        eight_processes("redis", &server.url());
    }
}

#[test]
fn eight_processes_on_postgres_hold_no_more_slots_than_there_are_and_a_killed_ones_are_back() {
    if let Some(server) = PostgresServer::start() {
        eight_processes("postgres", &server.url());
    }
}

#[test]
fn eight_processes_on_mariadb_hold_no_more_slots_than_there_are_and_a_killed_ones_are_back() {
    if let Some(server) = MariadbServer::start() {
        eight_processes("mariadb", &server.url());
    }
}

#[test]
fn eight_processes_on_dynamodb_hold_no_more_slots_than_there_are_and_a_killed_ones_are_back() {
    if let Some(server) = DynamodbServer::start() {
        eight_processes("dynamodb", &server.url());
    }
}
