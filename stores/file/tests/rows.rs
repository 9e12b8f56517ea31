//! How many rows a file's table has after it was opened again, while fences go on
//! from an instant that the clock has not passed.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use support::Place;
use tidegate::{LeaseId, Limit, LimitSet, ManualClock};
use tidegate_file::{Bounds, FileStore, Options, SyncMode};

const MAX_KEYS: usize = 100;

fn set(path: &Path, sync: SyncMode, time: &ManualClock) -> LimitSet {
    let bounds = Bounds {
        max_keys: MAX_KEYS,
        ..Bounds::default()
    };
    let store = FileStore::open(path, Options { sync, bounds }).expect("a file that opens");
    let limit = Limit::concurrency("slots", 2);
    let set = LimitSet::builder().name("set").limit(limit);
    let set = set.clock(time.clock()).store(Arc::new(store));
    set.build().expect("sensible limits")
}

fn rows_after(sync: SyncMode, restart: Duration, act: impl Fn(&LimitSet, &str)) -> usize {
    let (place, time) = (Place::new(), ManualClock::default());
    {
        let set = set(&place.path(), sync, &time);
        drop(set.try_acquire("k", ()).wait().expect("no error"));
    }
    time.advance(restart);
    let set = set(&place.path(), sync, &time);
    for number in 0..1_000 {
        act(&set, &format!("nobody {number}"));
    }
    set.count().wait().expect("no error").keys
}

/// For sixteen hours after a restart, each look at an absent key added a row, past
/// `max_keys`.
#[test]
fn a_look_at_an_absent_key_adds_no_row() {
    let look = |set: &LimitSet, key: &str| drop(set.peek(key, ()).wait().expect("no error"));
    let rows = rows_after(SyncMode::Never, Duration::from_secs(3_600), look);
    assert!(rows <= MAX_KEYS, "{rows} rows by peeks");
}

#[test]
fn the_end_of_an_unknown_lease_adds_no_row() {
    let end = |set: &LimitSet, key: &str| {
        let id: LeaseId = "1".repeat(32).parse().expect("an id");
        assert!(set.release(key, id).wait().is_err());
    };
    let sync = SyncMode::Interval(Duration::from_secs(10));
    let rows = rows_after(sync, Duration::from_secs(60), end);
    assert!(rows <= MAX_KEYS, "{rows} rows by ends");
}

/// A row that is left out is one whose fences start where those of any new row do.
#[test]
fn fences_grow_beyond_those_of_before_whatever_was_looked_at() {
    let (place, time) = (Place::new(), ManualClock::default());
    let take = |set: &LimitSet, key: &str| {
        let lease = set.try_acquire(key, ()).wait().expect("no error");
        lease.granted().expect("room").fence()
    };
    let before = take(&set(&place.path(), SyncMode::Never, &time), "k");
    let set = set(&place.path(), SyncMode::Never, &time);
    drop(set.peek("other", ()).wait().expect("no error"));
    let first = take(&set, "other");
    drop(set.peek("other", ()).wait().expect("no error"));
    assert!(first > before && take(&set, "other") > first);
}
