//! Many at once: never more is admitted than the core grants, and no deadlock is
//! anybody's answer.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use support::{Fixture, hourly, machine_time, number, open, plan, slots};
use tidegate_conformance::TableExt as _;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_mysql::{Clock, MysqlStore};
use tidegate_store::core::Rule;
use tidegate_store::{Ending, Store};

/// So many ask at once, each with a store (and connections) of its own.
const ASKERS: usize = 8;

/// Each asks so often.
const ASKS: usize = 60;

/// What every asker does, on stores of their own.
fn all_at_once(server: &MariadbServer, act: impl Fn(usize, &MysqlStore) + Sync) {
    std::thread::scope(|scope| {
        for asker in 0..ASKERS {
            let act = &act;
            scope.spawn(move || act(asker, &open(server, Clock::Server)));
        }
    });
}

fn fixture(store: &MysqlStore, levels: usize, rules: &[(usize, Rule)]) -> Fixture {
    Fixture::at(store, "t", plan(0, levels, rules), machine_time())
}

#[test]
fn one_hot_key_grants_as_much_as_there_is_and_no_more() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let rules = [(0, hourly(200))];
    let granted = AtomicU64::new(0);
    all_at_once(&server, |_, store| {
        let fixture = fixture(store, 1, &rules);
        for _ in 0..ASKS {
            // The first of them make its row at once.
            granted.fetch_add(u64::from(fixture.admits(b"hot", &[1])), Ordering::Relaxed);
        }
    });
    assert_eq!(granted.into_inner(), 200);
}

/// Keys under few roots, some of them the ancestors themselves, in orders that
/// cross.
#[test]
fn crossing_ancestors_grant_as_much_as_there_is_and_no_more() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let rules = [(0, hourly(90)), (1, hourly(40)), (2, hourly(1_000))];
    let paths = ["a/x/1", "b/x/1", "a/y/2", "b/y/2", "a/x", "b/y", "a", "b"];
    let granted: Vec<AtomicU64> = paths.iter().map(|_| AtomicU64::new(0)).collect();
    all_at_once(&server, |asker, store| {
        let fixture = fixture(store, 3, &rules);
        for ask in 0..ASKS {
            let at = if asker % 2 == 0 { ask } else { ASKS - ask };
            let at = (at + asker) % paths.len();
            let admitted = fixture.admits(paths[at].as_bytes(), &[1, 1, 1]);
            granted[at].fetch_add(u64::from(admitted), Ordering::Relaxed);
        }
    });
    let sum = |of: &[usize]| -> u64 {
        let counts = of.iter().map(|&at| granted[at].load(Ordering::Relaxed));
        counts.sum()
    };
    assert!(sum(&[0, 2, 4, 6]) <= 90 && sum(&[1, 3, 5, 7]) <= 90);
    assert!(sum(&[0, 4]) <= 40 && sum(&[1]) <= 40 && sum(&[2]) <= 40 && sum(&[3, 5]) <= 40);
    let store = open(&server, Clock::Server);
    let fixture = fixture(&store, 3, &rules);
    assert_eq!(fixture.left(b"a"), [90 - sum(&[0, 2, 4, 6])]);
    assert_eq!(fixture.left(b"b/y")[1], 40 - sum(&[3, 5]));
}

/// Slots, held and given back: never more than there are, none is lost, and no
/// two holders have one fence.
#[test]
fn slots_are_conserved_and_every_fence_is_another() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let rules = [(0, slots(3))];
    let (held, fences) = (AtomicU64::new(0), std::sync::Mutex::new(Vec::new()));
    all_at_once(&server, |asker, store| {
        let fixture = fixture(store, 1, &rules);
        fixture.number_from((asker as u128) << 64);
        for _ in 0..ASKS / 2 {
            let Some(lease) = fixture.lease(b"k", &[1], 600_000_000).lease else {
                continue;
            };
            let now = held.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(now <= 3, "{now} are held of 3");
            fences.lock().expect("no one panicked").push(lease.fence);
            held.fetch_sub(1, Ordering::SeqCst);
            fixture.end(b"k", lease.id, Ending::Release).expect("held");
        }
    });
    let mut fences = fences.into_inner().expect("no one panicked");
    let count = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), count, "no two are alike");
    let store = open(&server, Clock::Server);
    assert_eq!(fixture(&store, 1, &rules).left(b"k"), [3]);
    assert_eq!(number(&server, "SELECT COUNT(*) FROM tidegate_leases"), 0);
}

/// Many open one set at once, by limits that are the same: it has one revision.
#[test]
fn a_set_that_many_open_at_once_has_one_revision() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let limits = Arc::new(plan(0, 1, &[(0, hourly(9))]));
    all_at_once(&server, |_, store| {
        let table = store.open("t", &limits).expect("it opens");
        table.adopt(&limits, machine_time(), &[]);
    });
    let count = |sql: &str| number(&server, sql);
    assert_eq!(count("SELECT COUNT(*) FROM tidegate_tables"), 1);
    assert_eq!(count("SELECT COUNT(*) FROM tidegate_plans"), 1);
}
