//! How fast a file is, on this machine's disk: `cargo run --release -p
//! tidegate-file --example speed [FOLDER [keys]]`. Decisions a second with one, eight
//! and 64 threads, and what a million keys cost.
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::{Limit, LimitSet};
use tidegate_file::{Bounds, FileStore, Options, SyncMode};

const KEYS: u64 = 1_000_000;
/// Too many to be spent here.
const BURST: u64 = 1_000_000;
const RUN: Duration = Duration::from_secs(3);

fn main() {
    let folder = std::env::args()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let path = folder.join(format!("tidegate-speed-{}", std::process::id()));
    if std::env::args().nth(2).is_none() {
        rates(&path);
    }
    a_million(&path, "one bucket", single_bucket, admit);
    a_million(&path, "three limits", three, take);
}

fn rates(path: &Path) {
    let interval = SyncMode::Interval(Duration::from_millis(100));
    for sync in [SyncMode::Always, interval, SyncMode::Never] {
        for threads in [1, 8, 64] {
            let rate = decisions(path, sync, threads, single_bucket, admit);
            let leases = decisions(path, sync, threads, three, lease);
            println!(
                "{sync:<15} {threads:>2} threads  {rate:>10.0} admits/s  {leases:>10.0} leases/s"
            );
        }
    }
}

type Limits = fn() -> Vec<Limit>;
type Act = fn(&LimitSet, &str);

fn single_bucket() -> Vec<Limit> {
    let day = Duration::from_secs(86_400);
    vec![Limit::calls("rps", 1_000, day).burst(BURST)]
}

fn three() -> Vec<Limit> {
    let day = Duration::from_secs(86_400);
    vec![
        Limit::calls("rps", 1_000, day).burst(BURST),
        Limit::budget("budget", 1_000_000_000, 2 * day),
        Limit::concurrency("slots", 1_000),
    ]
}

fn admit(set: &LimitSet, key: &str) {
    assert!(set.admit(key, 1).wait().expect("no error").admitted());
}

/// Takes a lease and settles it: two commands, and so two waits if each is synced.
fn lease(set: &LimitSet, key: &str) {
    let asked = set.try_acquire(key, 5).wait().expect("no error");
    let mut lease = asked.granted().expect("room");
    lease.settle(&[("budget", 3)]).wait().expect("live");
}

fn take(set: &LimitSet, key: &str) {
    let asked = set.check(key, &[("rps", 1), ("budget", 5), ("slots", 0)]);
    assert!(asked.wait().expect("no error").admitted());
}

fn open(path: &Path, sync: SyncMode, limits: Limits) -> (Arc<FileStore>, LimitSet) {
    let max = 2 * KEYS as usize;
    let bounds = Bounds {
        max_keys: max,
        max_leases: max,
        ..Bounds::default()
    };
    let store = Arc::new(FileStore::open(path, Options { sync, bounds }).expect("a file"));
    let set = LimitSet::builder().limits(limits()).store(store.clone());
    (store, set.build().expect("sensible limits"))
}

fn decisions(path: &Path, sync: SyncMode, threads: u64, limits: Limits, act: Act) -> f64 {
    let (_, set) = open(path, sync, limits);
    let (start, made) = (Instant::now(), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (set, made) = (&set, &made);
            scope.spawn(move || {
                let mut number = 0;
                while start.elapsed() < RUN {
                    act(set, &format!("{thread}-{}", number % 1_000));
                    number += 1;
                }
                made.fetch_add(number, Ordering::Relaxed);
            });
        }
    });
    let rate = made.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    drop(set);
    let _ = fs::remove_file(path);
    rate
}

fn a_million(path: &Path, what: &str, limits: Limits, act: Act) {
    let (memory, start) = (resident(), Instant::now());
    let (store, set) = open(path, SyncMode::Never, limits);
    (0..KEYS).for_each(|key| act(&set, &format!("user:{key}")));
    let full = resident() - memory;
    store.flush().expect("room on the disk");
    let written = start.elapsed();
    drop((set, store));
    let length = fs::metadata(path).expect("a file").len() >> 20;
    println!("{what}, {KEYS} keys: file {length} MiB, memory {full} MiB, written in {written:.1?}");
    again(path, what, limits);
    killed(path, what, limits);
    let _ = fs::remove_file(path);
}

/// Opens a file that was closed.
fn again(path: &Path, what: &str, limits: Limits) {
    let start = Instant::now();
    let (store, set) = open(path, SyncMode::Never, limits);
    let took = start.elapsed();
    assert_eq!(set.count().wait().expect("an answer").keys as u64, KEYS);
    println!(
        "{what}: opened in {took:.1?}, memory of the process {} MiB",
        resident()
    );
    let start = Instant::now();
    let day = Duration::from_secs(86_400);
    let changed = Limit::calls("rps", 2_000, day).burst(BURST);
    set.put_limit(changed).expect("a change");
    println!(
        "{what}: all rows written for a changed limit in {:.1?}",
        start.elapsed()
    );
    let start = Instant::now();
    let smaller = store.compact().expect("room on the disk");
    let length = fs::metadata(path).expect("a file").len() >> 20;
    println!(
        "{what}: compacted ({smaller}) to {length} MiB in {:.1?}",
        start.elapsed()
    );
    // As a kill leaves it, for the next.
    fs::copy(path, path.with_extension("killed")).expect("room on the disk");
}

/// Opens a file that was not closed, and so is repaired.
fn killed(path: &Path, what: &str, limits: Limits) {
    let path = path.with_extension("killed");
    let start = Instant::now();
    drop(open(&path, SyncMode::Never, limits));
    println!(
        "{what}: repaired, opened and closed in {:.1?}",
        start.elapsed()
    );
    let _ = fs::remove_file(path);
}

/// How much memory the process holds, in MiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    (pages.unwrap_or(0) * 4_096) >> 20
}
