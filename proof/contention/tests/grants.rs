//! Eight processes that spend grants of one hot key: two of them an hour off by their wall clocks,
//! one whose clock is slower than is assumed, one that stands still for longer than twice the hold,
//! one that is killed, one that is told to stop. A ledger beside them counts what each window
//! admitted, and what is stranded.

mod node;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use tidegate::{Algorithm, Limit, LimitSet};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::{Paused, with_options};

use node::Node;

const CAPACITY: u64 = 1_000;
const WINDOW: Duration = Duration::from_secs(2);
const BATCH: u64 = 50;
const HOLD: Duration = Duration::from_secs(1);
const STAYS: u64 = 1_000_000;

/// How far ahead each one's wall clock is in seconds, and how many hundredths its clock loses.
const NODES: [(i64, u32); 8] = [
    (3_600, 0),
    (-3_600, 0),
    (0, SLOW),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
];
/// Of the third: ten times what is assumed.
const SLOW: u32 = 1;
const STOPPED: usize = 3;
const KILLED: usize = 4;
const TOLD: usize = 5;

/// An admission: of which limit, and between which instants.
type Admitted = (bool, i64, i64);

fn start(url: &str, (ahead, slow): (i64, u32)) -> Node<Admitted> {
    let numbers = [
        ("--capacity", CAPACITY as i64),
        ("--window", WINDOW.as_millis() as i64),
        ("--batch", BATCH as i64),
        ("--hold", HOLD.as_millis() as i64),
        ("--ahead", ahead),
        ("--slow", i64::from(slow)),
    ];
    Node::start(("spend", url), &numbers, admitted)
}

fn admitted(line: &str) -> Option<Admitted> {
    let mut words = line.split(' ');
    let of_stays = words.next()? == "stays";
    let mut instant = || words.next()?.parse().ok();
    Some((of_stays, instant()?, instant()?))
}

/// What each window admitted for sure: what began and ended in it.
fn windows<'a>(all: impl Iterator<Item = &'a Admitted>) -> BTreeMap<i64, u64> {
    let length = WINDOW.as_micros() as i64;
    let mut windows = BTreeMap::new();
    for &(_, before, after) in all.filter(|(of_stays, ..)| !of_stays) {
        if before / length == after / length {
            *windows.entry(before / length).or_default() += 1;
        }
    }
    windows
}

/// What the store says that the window which never ends has given away.
fn used(url: &str) -> u64 {
    let limit = Limit::calls("stays", STAYS, Duration::from_secs(400 * 86_400));
    let store = tidegate_url::open(url).expect("the store").store;
    let set = LimitSet::builder().name("stays").store(store);
    let set = set.limit(limit.algorithm(Algorithm::FixedWindow)).build();
    let peeked = set.expect("a set").peek("k", 1).wait().expect("a peek");
    STAYS - peeked.remaining("stays").expect("a standing")
}

#[expect(
    clippy::disallowed_methods,
    reason = "other processes go on for so long, by their machine's clock"
)]
fn run(url: &str) -> Vec<Vec<Admitted>> {
    let mut nodes: Vec<_> = NODES.iter().map(|&of| Some(start(url, of))).collect();
    nodes.iter().flatten().for_each(Node::until_it_speaks);
    let mut said = Vec::new();
    thread::sleep(2 * WINDOW);
    let process = nodes[STOPPED].as_ref().expect("it runs").process.id();
    let stopped = Paused::new(process);
    said.push(nodes[KILLED].take().expect("it runs").kill());
    thread::sleep(2 * HOLD);
    drop(stopped);
    said.push(nodes[TOLD].take().expect("it runs").tell());
    thread::sleep(WINDOW);
    said.extend(nodes.into_iter().flatten().map(Node::tell));
    said
}

fn eight_processes(store: &str, url: &str) {
    let url = with_options(url, "deadline=60s");
    let said = run(&url);
    let all = || said.iter().flatten();
    let most = windows(all()).into_values().max().unwrap_or(0);
    // The killed one's come first, then those of the one that was told, then by number.
    let slow = said.get(4).expect("eight of them");
    let length = WINDOW.as_micros() as i64;
    let first_moments = slow.iter().filter(|(of_stays, before, _)| {
        !of_stays && before % length < i64::from(SLOW) * length / 100
    });
    let stays = all().filter(|(of_stays, ..)| *of_stays).count() as u64;
    let stranded = used(&url) - stays;
    println!(
        "{store}: at most {most} of {CAPACITY} in a window; the slow one spent {} in the first \
         hundredth of one; stranded {stranded} in all, of a batch of {BATCH}",
        first_moments.count(),
    );
    // Who is slower than is assumed admits what it held at most, more than there is.
    assert!(most <= CAPACITY + BATCH, "{most}");
    // A line that was not written when it was killed is among them.
    assert!(stranded <= BATCH + 1, "{stranded}");
    assert!(said.iter().all(|one| !one.is_empty()));
}

#[test]
fn eight_processes_on_redis_keep_their_bound_and_strand_what_the_killed_one_held() {
    if let Some(server) = RedisServer::start() {
        eight_processes("redis", &server.url());
    }
}

#[test]
fn eight_processes_on_postgres_keep_their_bound_and_strand_what_the_killed_one_held() {
    if let Some(server) = PostgresServer::start() {
        eight_processes("postgres", &server.url());
    }
}

#[test]
fn eight_processes_on_mariadb_keep_their_bound_and_strand_what_the_killed_one_held() {
    if let Some(server) = MariadbServer::start() {
        eight_processes("mariadb", &server.url());
    }
}

#[test]
fn eight_processes_on_dynamodb_keep_their_bound_and_strand_what_the_killed_one_held() {
    if let Some(server) = DynamodbServer::start() {
        eight_processes("dynamodb", &server.url());
    }
}
