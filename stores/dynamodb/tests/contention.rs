//! Many at once, each with a store of its own as a process has: never more is admitted than the
//! core grants, and no conflict is anybody's answer.

mod support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_conformance::TableExt as _;
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::fixture::{Fixture, hourly, machine_time, plan, slots};
use tidegate_dynamodb::{Clock, DynamodbStore};
use tidegate_store::core::Rule;
use tidegate_store::{Ending, Store};

/// So many ask at once.
const ASKERS: usize = 8;

/// Each asks so often.
const ASKS: usize = 30;

fn open(server: &DynamodbServer) -> DynamodbStore {
    support::opened(support::TABLE, &server.endpoint(), Clock::Server)
}

/// What every asker does, on stores of their own.
fn all_at_once(server: &DynamodbServer, act: impl Fn(usize, &DynamodbStore) + Sync) {
    std::thread::scope(|scope| {
        for asker in 0..ASKERS {
            let act = &act;
            scope.spawn(move || act(asker, &open(server)));
        }
    });
}

fn fixture(store: &DynamodbStore, levels: usize, rules: &[(usize, Rule)]) -> Fixture {
    Fixture::at(store, "t", plan(0, levels, rules), machine_time())
}

#[test]
fn one_hot_key_grants_as_much_as_there_is_and_no_more() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let rules = [(0, hourly(100))];
    let granted = AtomicU64::new(0);
    all_at_once(&server, |_, store| {
        let fixture = fixture(store, 1, &rules);
        for _ in 0..ASKS {
            // The first of them make its row at once.
            granted.fetch_add(u64::from(fixture.admits(b"hot", &[1])), Ordering::Relaxed);
        }
    });
    assert_eq!(granted.into_inner(), 100);
}

/// Keys under few roots, some of them the ancestors themselves, in orders that cross.
#[test]
fn crossing_ancestors_grant_as_much_as_there_is_and_no_more() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let rules = [(0, hourly(60)), (1, hourly(25))];
    let paths = ["a/x", "b/x", "a/y", "b/y", "a", "b"];
    let granted: Vec<AtomicU64> = paths.iter().map(|_| AtomicU64::new(0)).collect();
    all_at_once(&server, |asker, store| {
        let fixture = fixture(store, 2, &rules);
        for ask in 0..ASKS {
            let at = (ask + asker) % paths.len();
            let admitted = fixture.admits(paths[at].as_bytes(), &[1, 1]);
            granted[at].fetch_add(u64::from(admitted), Ordering::Relaxed);
        }
    });
    let of = |at: usize| granted[at].load(Ordering::Relaxed);
    assert!((0..4).all(|at| of(at) <= 25));
    let store = open(&server);
    let fixture = fixture(&store, 2, &rules);
    assert_eq!(fixture.left(b"a"), [60 - of(0) - of(2) - of(4)]);
    assert_eq!(fixture.left(b"b/y")[1], 25 - of(3));
}

/// Slots, held and given back: never more than there are, none is lost, and no two holders have
/// one fence.
#[test]
fn slots_are_conserved_and_every_fence_is_another() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let rules = [(0, slots(3))];
    let (held, fences) = (AtomicU64::new(0), Mutex::new(Vec::new()));
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
    let store = open(&server);
    assert_eq!(fixture(&store, 1, &rules).left(b"k"), [3]);
    let leases = support::items(&server);
    let leases = leases
        .iter()
        .filter(|item| support::bytes(item, "sk")[0] == b'l');
    assert_eq!(leases.count(), 0);
}

/// Many open one set at once, by limits that are the same: it has one revision.
#[test]
fn a_set_that_many_open_at_once_has_one_revision() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let limits = plan(0, 1, &[(0, hourly(9))]);
    all_at_once(&server, |_, store| {
        let table = store.open("t", &limits).expect("it opens");
        table.adopt(&limits, machine_time(), &[]);
    });
    let items = support::items(&server);
    let plans = items
        .iter()
        .filter(|item| support::bytes(item, "pk") == b"pt");
    assert_eq!(plans.count(), 1);
}
