//! Eight processes at one hot key of a store: the rate never grants more than it
//! has, no more slots are held at once than there are, at every sample those held and
//! those free are all, and fences grow. For two seconds; `cargo xtask contention` for a minute.
//!
//! | room | holds |
//! |---|---|
//! | `ledger` | what the processes say that they were granted |
//! | `snapshot` | what the server keeps of the slots, read in one step |

mod ledger;
mod snapshot;

use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate::Select;
use tidegate::{Clock, LONGEST_PAGE, Limit, LimitSet, PageOf};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::with_options;

use ledger::Ledger;
use snapshot::Snapshot;

const PROCESSES: usize = 8;
const RATE: u64 = 200;
const BURST: u64 = 50;
const SLOTS: u64 = 3;

/// It goes on, however slow the machine is, until so many samples have seen some slot
/// held.
const ENOUGH: usize = 10;

/// Whatever else the machine does.
fn patient(url: &str) -> String {
    with_options(url, "deadline=60s")
}

fn process(url: &str) -> Child {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate-contention"));
    process.args(["contend", "--store", &patient(url)]);
    for (name, number) in [("--rate", RATE), ("--burst", BURST), ("--slots", SLOTS)] {
        process.args([name, &number.to_string()]);
    }
    process.stdin(Stdio::piped()).stdout(Stdio::piped());
    process.spawn().expect("it starts")
}

/// What was seen between the grants.
#[derive(Default)]
struct Samples {
    /// Of none, one, two slots and so on held: how many samples.
    held: [usize; SLOTS as usize + 1],
}

impl Samples {
    /// One in one step of the server's, and what anybody is told.
    fn take(&mut self, slots: &LimitSet, snapshot: &Snapshot) {
        self.held[snapshot.conserves() as usize] += 1;
        are_distinct(snapshot.held.iter().map(|(fence, _)| *fence));
        // One answer of the server's, too.
        let page = slots.list_leases(PageOf {
            select: Select::Key(b"hot"),
            after: None,
            most: LONGEST_PAGE,
        });
        let listed = page.wait().expect("a list").items;
        assert!(listed.len() <= SLOTS as usize, "{listed:?}");
        are_distinct(listed.iter().filter_map(|lease| lease.fence));
        let peeked = slots.peek("hot", 1).wait().expect("a peek");
        let standing = peeked.standing("slots").expect("a standing");
        assert!(standing.remaining <= SLOTS);
    }

    fn with_holders(&self) -> usize {
        self.held[1..].iter().sum()
    }
}

fn are_distinct(fences: impl Iterator<Item = u64>) {
    let mut fences: Vec<_> = fences.collect();
    fences.sort_unstable();
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

/// Samples now and then, until the processes have had their time and enough was seen; or until
/// one has ended, which it should not by itself.
#[expect(clippy::disallowed_methods, reason = "nothing waits for a sample")]
fn sample(
    slots: &LimitSet,
    mut snapshot: impl FnMut() -> Snapshot,
    processes: &[JoinHandle<Output>],
) -> Samples {
    let seconds = std::env::var("TIDEGATE_CONTENTION_SECONDS");
    let seconds = seconds.map_or(2, |seconds| seconds.parse().expect("a number"));
    let clock = Clock::system();
    let end = clock.now() + Duration::from_secs(seconds).into();
    let mut samples = Samples::default();
    let goes_on = || processes.iter().all(|process| !process.is_finished());
    while goes_on() && (clock.now() < end || samples.with_holders() < ENOUGH) {
        samples.take(slots, &snapshot());
        std::thread::sleep(Duration::from_millis(10));
    }
    samples
}

fn is_exact(url: &str, mut snapshot: impl FnMut() -> Snapshot) {
    let own = tidegate_url::open(&patient(url)).expect("the store").store;
    let limit = Limit::concurrency("slots", SLOTS);
    let slots = LimitSet::builder().name("slots").limit(limit).store(own);
    let slots = slots.build().expect("sound limits");
    let mut processes: Vec<_> = (0..PROCESSES).map(|_| process(url)).collect();
    let inputs: Vec<_> = processes
        .iter_mut()
        .map(|child| child.stdin.take())
        .collect();
    let processes = processes
        .into_iter()
        .map(|child| std::thread::spawn(move || child.wait_with_output().expect("its ledger")));
    let processes: Vec<_> = processes.collect();
    let samples = sample(&slots, &mut snapshot, &processes);
    // They end with their input.
    drop(inputs);
    let mut ledger = Ledger::default();
    for reading in processes {
        let output = reading.join().expect("it was read");
        assert!(output.status.success(), "a process failed");
        ledger.read(std::str::from_utf8(&output.stdout).expect("text"));
    }
    println!("{url}: samples with 0, 1, 2, 3 held: {:?}", samples.held);
    assert!(samples.with_holders() >= ENOUGH, "somebody holds");
    ledger.keeps_to_the_rate();
    ledger.holds_no_more_slots_than_there_are();
    ledger.fences_grow();
    assert_eq!(snapshot().conserves(), 0, "all came back");
    let peeked = slots.peek("hot", 1).wait().expect("a peek");
    let standing = peeked.standing("slots").expect("a standing");
    assert_eq!(standing.remaining, SLOTS, "all came back");
}

#[test]
fn eight_processes_get_what_a_redis_has_and_no_more() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let client = redis::Client::open(server.url()).expect("an address");
    let mut connection = client.get_connection().expect("a server");
    is_exact(&server.url(), || snapshot::of_redis(&mut connection));
}

#[test]
fn eight_processes_get_what_a_postgresql_has_and_no_more() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    is_exact(&server.url(), || snapshot::of_postgres(&server));
}

#[test]
fn eight_processes_get_what_a_mariadb_has_and_no_more() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    is_exact(&server.url(), || snapshot::of_mariadb(&server));
}

#[test]
fn eight_processes_get_what_a_dynamodb_has_and_no_more() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let mut items = snapshot::Items::of(&server);
    is_exact(&server.url(), || items.snapshot());
}

/// Nobody but its processes sees into a segment: what is held is what one of them lists, and
/// the rest is free.
#[cfg(target_os = "linux")]
#[test]
fn eight_processes_get_what_shared_memory_has_and_no_more() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let url = format!("shm:contention?dir={}", dir.path().display());
    let own = tidegate_url::open(&url).expect("the store").store;
    let limit = Limit::concurrency("slots", SLOTS);
    let slots = LimitSet::builder().name("slots").limit(limit).store(own);
    let slots = slots.build().expect("sound limits");
    is_exact(&url, || snapshot::of_a_list(&slots));
}
