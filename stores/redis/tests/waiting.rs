//! Asks of several processes that wait in one line. Each client here has a store
//! of its own, with connections of its own: as a process has.

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use support::{ask, connect};
use tidegate::{Admission, Ask, Lease, Limit, LimitSet};
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::{Options, RedisStore};
use tokio::time::Instant;

const CLIENTS: usize = 8;
const GRANTS: usize = 1_000;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(300);

fn client(server: &RedisServer, limits: &[Limit]) -> LimitSet {
    client_of(&server.url(), limits)
}

fn client_of(url: &str, limits: &[Limit]) -> LimitSet {
    let options = Options {
        deadline: Duration::from_secs(30),
        ..Options::default()
    };
    let store = RedisStore::open(url, options).expect("a server");
    let builder = LimitSet::builder().name("gpus").store(Arc::new(store));
    let set = builder.limits(limits.iter().cloned()).build();
    set.expect("a sound set")
}

fn one_slot() -> [Limit; 1] {
    [Limit::concurrency("gpu", 1)]
}

async fn acquire(set: &LimitSet, longest: Duration) -> Option<Lease> {
    let ask = Ask::default().cost(1).within(longest);
    let admission = set.acquire_async("k", ask).await;
    admission.expect("an answer").granted()
}

/// How many stand in line at the server.
fn waiting(server: &RedisServer) -> usize {
    let queue = "{tidegate:gpus:k}:q";
    ask(&mut connect(server), &["ZCARD", queue])
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What the server's scripts did to its lines: `ZADD` and `ZREM`, with the entry.
fn watch(server: &RedisServer) -> impl FnOnce() -> Vec<(String, String)> {
    const END: &str = "the test is over";
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a server");
    stream.write_all(b"MONITOR\r\n").expect("a command");
    let mut lines = BufReader::new(stream)
        .lines()
        .map(|line| line.expect("a line"));
    assert_eq!(lines.next().as_deref(), Some("+OK"));
    let reader = std::thread::spawn(move || {
        let lines = lines.take_while(|line| !line.contains(END));
        let line_of = lines.filter(|line| line.contains(" lua]") && line.contains("}:q\""));
        let words = line_of.filter_map(|line| {
            let words: Vec<_> = line.split("\" \"").collect();
            let (_, verb) = words.first()?.rsplit_once('"')?;
            Some((verb.to_owned(), words.last()?.to_string()))
        });
        let words = words.filter(|(verb, _)| verb == "ZADD" || verb == "ZREM");
        words.collect::<Vec<_>>()
    });
    let mut connection = connect(server);
    move || {
        let () = ask(&mut connection, &["SET", END, ""]);
        reader.join().expect("the reader ends")
    }
}

#[derive(Default)]
struct Seen {
    grants: HashMap<usize, usize>,
    total: usize,
    released: Option<Instant>,
    waits: Vec<Duration>,
}

async fn take_turns(set: LimitSet, number: usize, seen: Arc<Mutex<Seen>>) {
    loop {
        let Some(mut lease) = acquire(&set, LONG).await else {
            return;
        };
        let id = lease.id();
        {
            let mut seen = seen.lock();
            if seen.total == GRANTS {
                return;
            }
            seen.total += 1;
            *seen.grants.entry(number).or_default() += 1;
            if let Some(released) = seen.released.take() {
                seen.waits.push(released.elapsed());
            }
            seen.released = Some(Instant::now());
        }
        let _ = &mut lease;
        lease.detach();
        set.release_async("k", id).await.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_wait_for_one_slot_are_served_in_order_of_arrival() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let sets: Vec<_> = (0..CLIENTS).map(|_| client(&server, &one_slot())).collect();
    let held = acquire(&sets[0], LONG).await.expect("it is free");
    let end = watch(&server);
    let seen = Arc::<Mutex<Seen>>::default();
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(take_turns(sets[number].clone(), number, Arc::clone(&seen))))
        .collect();
    until(|| waiting(&server) == CLIENTS).await;
    drop(held);
    for task in tasks {
        task.await.expect("a client that ends");
    }
    let mut seen = std::mem::take(&mut *seen.lock());
    let changes = end();
    let of = |wanted: &str| {
        let changes = changes.iter().filter(|(verb, _)| verb == wanted);
        changes.map(|(_, entry)| entry).collect::<Vec<_>>()
    };
    let (came, went) = (of("ZADD"), of("ZREM"));
    assert!(came.len() >= GRANTS - CLIENTS, "{} came", came.len());
    assert_eq!(
        came[..went.len()],
        went[..],
        "order of grant, order of arrival"
    );
    for number in 0..CLIENTS {
        let share = seen.grants.get(&number).copied().unwrap_or(0);
        assert!(
            share * CLIENTS * 10 >= GRANTS * 8,
            "client {number} has {share}"
        );
    }
    seen.waits.sort_unstable();
    let at = |percent: usize| seen.waits[(seen.waits.len() - 1) * percent / 100];
    println!("from release to grant: p50 {:?}, p99 {:?}", at(50), at(99));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_overtakes_who_waits() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let limits = [Limit::concurrency("gpu", 2)];
    let (one, other) = (client(&server, &limits), client(&server, &limits));
    let two: &[(&str, u64)] = &[("gpu", 2)];
    let single: &[(&str, u64)] = &[("gpu", 1)];
    let held = one.try_acquire("k", single).expect("an answer").granted();
    let waits = {
        let one = one.clone();
        tokio::spawn(async move {
            let ask = Ask::named(two).within(LONG);
            one.acquire_async("k", ask)
                .await
                .expect("an answer")
                .granted()
        })
    };
    until(|| waiting(&server) == 1).await;
    let late = other.try_acquire("k", single).expect("an answer");
    assert!(
        matches!(late, Admission::Refused(_)),
        "one is free, but others are first"
    );
    let elsewhere = other.try_acquire("elsewhere", single).expect("an answer");
    assert!(elsewhere.granted().is_some());
    drop(held);
    assert!(waits.await.expect("it ends").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_leaves_the_line_at_once() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (one, other) = (client(&server, &one_slot()), client(&server, &one_slot()));
    let held = acquire(&one, LONG).await.expect("it is free");
    assert!(acquire(&other, Duration::from_millis(20)).await.is_none());
    assert_eq!(waiting(&server), 0);
    let given_up = tokio::spawn(async move { acquire(&other, LONG).await });
    until(|| waiting(&server) == 1).await;
    given_up.abort();
    until(|| waiting(&server) == 0).await;
    drop(held);
    assert!(acquire(&one, LONG).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_when_its_process_closes() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (one, closes) = (client(&server, &one_slot()), client(&server, &one_slot()));
    let _held = acquire(&one, LONG).await.expect("it is free");
    let waits = {
        let set = closes.clone();
        tokio::spawn(async move { set.acquire_async("k", Ask::default().within(LONG)).await })
    };
    until(|| waiting(&server) == 1).await;
    assert_eq!(closes.statistics().waiting, 1);
    closes.stop_waiting();
    let told = waits.await.expect("it ends");
    assert!(matches!(told, Err(tidegate::Error::Stopped)));
    until(|| waiting(&server) == 0).await;
    assert_eq!(closes.statistics().waiting, 0);
}

/// Where the server of a process is that only waits.
const SERVER: &str = "TIDEGATE_TEST_REDIS_OF_A_WAITER";

/// What [`a_waiter_that_dies_loses_its_place_and_stops_nobody`] runs as a process
/// of its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it waits until it is killed"]
async fn a_process_that_waits() {
    if let Some(url) = std::env::var_os(SERVER) {
        let url = url.into_string().expect("an address");
        acquire(&client_of(&url, &one_slot()), LONG).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_dies_loses_its_place_and_stops_nobody() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (one, next) = (client(&server, &one_slot()), client(&server, &one_slot()));
    let held = acquire(&one, LONG).await.expect("it is free");
    let mut process = Command::new(std::env::current_exe().expect("this test"));
    process.args(["--ignored", "--exact", "a_process_that_waits"]);
    process.env(SERVER, server.url()).stdout(Stdio::null());
    let mut process = process.spawn().expect("a process");
    until(|| waiting(&server) == 1).await;
    let waits = tokio::spawn(async move { acquire(&next, LONG).await });
    until(|| waiting(&server) == 2).await;
    process.kill().expect("it was there");
    process.wait().expect("it ends");
    let died = Instant::now();
    drop(held);
    assert!(waits.await.expect("it ends").is_some());
    println!("the next was served {:?} after it died", died.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_rate_is_served_at_its_instant_and_in_order() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let limits = [Limit::rate("r", 20, Duration::from_secs(1)).burst(1)];
    let sets = [client(&server, &limits), client(&server, &limits)];
    let order = Arc::<Mutex<Vec<usize>>>::default();
    assert!(sets[0].check("k", 1).expect("an answer").admitted());
    let mut tasks = Vec::new();
    for number in 0..6 {
        let (set, order) = (sets[number % 2].clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let lease = acquire(&set, LONG).await;
            order.lock().push(number);
            lease.is_some()
        }));
        // The next comes when this one stands in line, or was served.
        until(|| waiting(&server) + order_len(&tasks) > number).await;
    }
    for task in tasks {
        assert!(task.await.expect("it ends"));
    }
    assert_eq!(*order.lock(), [0, 1, 2, 3, 4, 5]);
}

/// How many have been served.
fn order_len(tasks: &[tokio::task::JoinHandle<bool>]) -> usize {
    tasks.iter().filter(|task| task.is_finished()).count()
}
