//! A process is killed, a second one renews its lease, and a third one looks: it finds that
//! the holder is gone, and stands still at one point after the other of ending its leases.

mod support;

use std::time::Duration;

use support::Dir;
use support::child::{Other, asked, hears, say, until_let_go};
use tidegate_conformance::fixture::{Fixture, SECOND, machine_time, plan, slots};
use tidegate_shm::{Options, ShmStore};
use tidegate_store::core::Span;
use tidegate_store::{StoreError, Verb};

/// So many keys there are: more than a look has points.
const KEYS: u64 = 400;

/// The lease of the process that is killed, under each key.
const LEASE: u128 = 1;

const HOUR: u64 = 3_600 * SECOND;

fn key(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Two slots of each key.
fn fixture(store: &ShmStore) -> Fixture {
    Fixture::at(store, "t", plan(0, 1, &[(0, slots(2))]), machine_time())
}

/// Takes a slot of each key.
fn take_one_of_each(fixture: &Fixture, id: u128) {
    for number in 0..KEYS {
        fixture.number_from(id - 1);
        let taken = fixture.lease(&key(number), &[1], HOUR);
        assert!(taken.lease.is_some(), "there are two");
    }
}

/// What the other processes do.
#[test]
fn deeds_of_another_process() {
    let Some((dir, deed)) = asked() else { return };
    let store = ShmStore::open("test", support::options(dir)).expect("a segment");
    let fixture = fixture(&store);
    match &*deed {
        "hold" => {
            take_one_of_each(&fixture, LEASE);
            say("held");
            until_let_go();
        }
        "look" => {
            while let Some(point) = hears() {
                let point = point.parse().expect("a number");
                tidegate_shm::arm(point, || {
                    say("stands still");
                    hears();
                });
                fixture.left(&key(point));
                say("has looked");
            }
        }
        other => panic!("nobody does {other}"),
    }
}

/// Whoever was told that it holds the lease now goes on holding it.
#[test]
fn a_lease_that_is_renewed_while_its_killed_holders_lapse_stays() {
    let dir = Dir::default();
    let mut holder = Other::start(dir.path(), "hold");
    holder.has_said("held");
    // While the third stands still in a step, this one is not to wait for it: but for longer than it is
    // held up on a busy machine, where it need not wait.
    let options = Options {
        deadline: Duration::from_millis(50),
        ..support::options(dir.path())
    };
    let store = ShmStore::open("test", options).expect("a segment");
    let fixture = fixture(&store);
    // A holder is not asked for those that are gone.
    take_one_of_each(&fixture, LEASE + 1);
    holder.kill();
    let mut looker = Other::start(dir.path(), "look");
    let (mut renewed, mut has_passed) = (0, false);
    for point in 1..KEYS {
        let key = key(point);
        looker.hears(&point.to_string());
        if looker.says().as_deref() == Some("has looked") {
            assert!(fixture.admits(&key, &[1]), "it has passed all points");
            has_passed = true;
            break;
        }
        let renew = Verb::Renew {
            id: LEASE,
            until: fixture.now() + Span::from_micros(HOUR),
        };
        let told = fixture.execute(&key, renew);
        looker.hears("go on");
        looker.has_said("has looked");
        let is_free = fixture.admits(&key, &[1]);
        match told {
            Ok(_) => {
                renewed += 1;
                assert!(!is_free, "renewed at point {point}, and given to another");
            }
            Err(StoreError::Busy(_)) => assert!(is_free, "nobody has renewed it"),
            Err(_) => assert!(is_free, "it had ended at point {point}"),
        }
    }
    // Before the look, before the holder's leases are looked for and before they end; then not: how many
    // points there are behind that is not always the same.
    assert!(renewed >= 3 && has_passed, "{renewed} renewed");
}
