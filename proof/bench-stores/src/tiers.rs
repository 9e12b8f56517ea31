//! Tiers: what a decision costs that a grant covers, beside the memory store's; and what a hot key
//! of Redis and a hot row of PostgreSQL come to by grants, beside each decision asked there.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate::{Handle, Limit, LimitSet, Store, Tier};
use tidegate_postgres::PostgresStore;
use tokio::runtime::Runtime;

use crate::allocator;
use crate::bench::Bench;
use crate::drive::{Clients, Lap, drive, runtime};
use crate::host::Host;
use crate::measure::{Contender, Outcome, compare, pace};
use crate::patient;

/// Requests a second of a hot row of PostgreSQL, as an API has them.
const PACE: u32 = 1_000;

/// Requests a second of keys that no node has heard of.
const NEW_KEYS: u32 = 200;

/// A set of one limit that nobody is refused by; with a batch, by grants.
fn set(store: Option<Arc<dyn Store>>, name: &str, batch: Option<u64>) -> LimitSet {
    let second = Duration::from_secs(1);
    let limit = Limit::rate("units", 1_000_000_000, second).burst(1_000_000_000);
    let mut builder = LimitSet::builder().name(name).limit(limit);
    if let Some(store) = store {
        builder = builder.store(store);
    }
    if let Some(batch) = batch {
        builder = builder.tier(Tier::leased(batch));
    }
    builder.build().expect("a set")
}

pub fn rows(bench: &Bench) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    if let Some((server, store)) = patient::redis() {
        let store: Arc<dyn Store> = Arc::new(store);
        let host = Host::new(server.pid());
        outcomes.extend(local(bench, host, &store));
        outcomes.extend(hot_key(bench, host, &store));
    }
    if let Some((server, store)) = patient::postgres() {
        outcomes.extend(hot_row(bench, Host::new(server.pid()), &Arc::new(store)));
    }
    outcomes
}

/// A decision that needs no store, in a loop on one thread.
fn local(bench: &Bench, host: Host, store: &Arc<dyn Store>) -> Vec<Outcome> {
    // So much that a grant serves a lap; the hold is the longest there is.
    let tier = Tier::leased(1_000_000_000).hold(Duration::from_secs(60));
    let limit = Limit::rate("units", 1_000_000_000, Duration::from_secs(1));
    let tiered = LimitSet::builder()
        .name("local")
        .limit(limit.burst(1_000_000_000))
        .store(Arc::clone(store))
        .tier(tier)
        .build()
        .expect("a set");
    let memory = set(None, "memory", None);
    let by_handle = |set: &LimitSet| {
        let handle: Handle = set.handle("k").expect("a key");
        lap_of(move || handle.check(1).wait().expect("an answer").admitted())
    };
    let by_key = |set: &LimitSet| {
        let set = set.clone();
        lap_of(move || set.check("k", 1).wait().expect("an answer").admitted())
    };
    let contender = |what, lap| Contender { what, lap };
    let handles = vec![
        contender("memory, by handle", by_handle(&memory)),
        contender("a grant (aim 0.67 or more)", by_handle(&tiered)),
    ];
    let row = "tiers, one thread, by handle";
    let mut outcomes = compare(bench, row, host, handles);
    if bench.wants(row) {
        for (what, set) in [("memory, by handle", &memory), ("a grant", &tiered)] {
            let handle = set.handle("k").expect("a key");
            println!(
                "  {what:<34} {} allocations in {TURNS}",
                allocations(&handle)
            );
        }
    }
    let keys = vec![
        contender("memory, by key", by_key(&memory)),
        contender("a grant", by_key(&tiered)),
    ];
    outcomes.extend(compare(bench, "tiers, one thread, by key", host, keys));
    outcomes
}

/// Allocations of so many checks, after one that may ask for a grant.
fn allocations(handle: &Handle) -> u64 {
    let check = || assert!(handle.check(1).wait().expect("an answer").admitted());
    check();
    let ((), heap) = allocator::count(|| (0..TURNS).for_each(|_| check()));
    heap.allocations
}

/// So often that a clock is read in between.
const TURNS: u32 = 1_000;

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn lap_of(one: impl Fn() -> bool + 'static) -> Box<dyn FnMut(Duration) -> Lap> {
    Box::new(move |lap| {
        let (start, mut asked) = (Instant::now(), 0.0);
        while start.elapsed() < lap {
            (0..TURNS).for_each(|_| assert!(one(), "it is admitted"));
            asked += f64::from(TURNS);
        }
        Lap {
            asked,
            seconds: start.elapsed().as_secs_f64(),
        }
    })
}

/// One key that 50 clients ask for.
fn hot_key(bench: &Bench, host: Host, store: &Arc<dyn Store>) -> Vec<Outcome> {
    let runtime = &runtime();
    let clients = Clients {
        number: 50,
        keys: 1,
    };
    let of = |what, batch: Option<u64>| {
        let set = set(Some(Arc::clone(store)), &format!("hot {batch:?}"), batch);
        Contender {
            what,
            lap: Box::new(move |lap| drive(runtime, clients, lap, asking(&set))),
        }
    };
    let contenders = vec![
        of("strict", None),
        of("batch 1", Some(1)),
        of("batch 10", Some(10)),
        of("batch 100 (aim 20)", Some(100)),
        of("batch 1,000 (aim 100)", Some(1_000)),
    ];
    compare(bench, "tiers, redis, 50 clients, hot key", host, contenders)
}

/// One check, by any client.
fn asking(set: &LimitSet) -> impl Fn(usize, u32) -> Asked + Clone + Send + Sync + 'static + use<> {
    let set = set.clone();
    move |_, _| {
        let set = set.clone();
        Box::pin(async move {
            let decision = set.check("k", 1).await.expect("an answer");
            assert!(decision.admitted());
        })
    }
}

type Asked = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Rows of PostgreSQL, asked for so often a second: how long its clients wait. Of a new key each
/// time no node holds a grant.
fn hot_row(bench: &Bench, host: Host, store: &Arc<PostgresStore>) -> Vec<Outcome> {
    let runtime = &runtime();
    let store: Arc<dyn Store> = Arc::<PostgresStore>::clone(store);
    let mut outcomes = Vec::new();
    for (clients, rate, is_hot) in [(20, PACE, true), (50, PACE, true), (20, NEW_KEYS, false)] {
        let keys = if is_hot { "one row" } else { "a new key each" };
        let row = format!("tiers, postgres, {clients} clients, {keys}, {rate} a second");
        if !bench.wants(&row) {
            continue;
        }
        println!("\n{row}");
        for (what, batch) in [("strict", None), ("batch 100", Some(100))] {
            let name = format!("row {clients} {rate} {batch:?}");
            let set = set(Some(Arc::clone(&store)), &name, batch);
            let number = Arc::new(AtomicU64::new(0));
            let key = move || match is_hot {
                true => 0,
                false => number.fetch_add(1, Ordering::Relaxed),
            };
            outcomes.push(pace(bench, &row, what, host, |lap| {
                paced(runtime, (clients, rate), lap, &set, key.clone())
            }));
        }
    }
    outcomes
}

/// Each client asks when it is due, whether it is late or not; how long each request took from
/// then on, in microseconds.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn paced(
    runtime: &Runtime,
    (clients, rate): (u32, u32),
    lap: Duration,
    set: &LimitSet,
    key: impl Fn() -> u64 + Clone + Send + 'static,
) -> Vec<u64> {
    let begun = Instant::now();
    let between = Duration::from_secs(1) * clients / rate;
    let tasks = (0..clients).map(|client| {
        let (set, key) = (set.clone(), key.clone());
        runtime.spawn(async move {
            let (mut due, mut waits) = (begun + between * client / clients, Vec::new());
            while due.duration_since(begun) < lap {
                tokio::time::sleep_until(due.into()).await;
                let decision = set.check(&*key().to_string(), 1).await;
                assert!(decision.expect("an answer").admitted());
                waits.push(due.elapsed().as_micros() as u64);
                due += between;
            }
            waits
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let waits = tasks.into_iter().map(|task| runtime.block_on(task));
    waits
        .flat_map(|waits| waits.expect("a client that ends"))
        .collect()
}
