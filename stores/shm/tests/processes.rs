//! Several processes on one segment, some of which are killed.

mod support;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use support::child::{Other, asked, hears, say, stop, until_let_go};
use support::{Dir, waits};
use tidegate::{Limit, LimitSet, Request};
use tidegate_conformance::fixture::{Fixture, SECOND, machine_time, plan, slots};
use tidegate_shm::{Clock, Options, ShmStore};
use tidegate_store::core::Span;
use tidegate_store::{Ending, Verb, block_on};

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3_600);

/// One slot, for an hour.
fn set(store: ShmStore) -> LimitSet {
    let slot = Limit::concurrency("slot", 1).ttl(HOUR);
    let set = LimitSet::builder().name("t").limit(slot);
    set.store(Arc::new(store)).build().expect("sound")
}

/// One slot of a team, for an hour.
fn team_set(store: ShmStore) -> LimitSet {
    let slot = Limit::concurrency("slot", 1).at_level("team").ttl(HOUR);
    let set = LimitSet::builder()
        .name("t")
        .levels(["team", "user"])
        .limit(slot);
    set.store(Arc::new(store)).build().expect("sound")
}

fn is_free(set: &LimitSet, key: &str) -> bool {
    let lease = set.try_acquire(key, Request::default()).wait();
    let granted = lease.expect("an answer").granted();
    match granted {
        Some(mut lease) => {
            lease.release().wait().expect("held");
            true
        }
        None => false,
    }
}

/// Where those who have the slot note it, one after the other.
const ORDER: &str = "order";

fn note(dir: &Path) {
    let mut how = OpenOptions::new();
    let file = how.append(true).create(true).open(dir.join(ORDER));
    let mut file = file.expect("room");
    let line = format!("{}\n", std::process::id());
    file.write_all(line.as_bytes()).expect("room");
}

fn noted(dir: &Path) -> Vec<u32> {
    let lines = std::fs::read_to_string(dir.join(ORDER)).expect("it is there");
    let noted = lines.lines().map(|line| line.parse().expect("a number"));
    noted.collect()
}

/// What the other processes do.
#[test]
fn deeds_of_another_process() {
    let Some((dir, deed)) = asked() else { return };
    let options = support::options(&dir);
    let store = ShmStore::open("test", options).expect("a segment");
    match &*deed {
        "hold" => {
            let set = set(store);
            let lease = set.acquire("k", Request::default().within(PATIENCE));
            let _lease = lease
                .wait()
                .expect("an answer")
                .granted()
                .expect("its turn");
            say("held");
            until_let_go();
        }
        "wait" => {
            let set = set(store);
            let lease = waits(set.acquire("k", Request::default().within(PATIENCE)));
            say("waits");
            let lease = block_on(lease).expect("an answer").granted();
            let mut lease = lease.expect("its turn");
            note(&dir);
            say("granted");
            lease.release().wait().expect("held");
        }
        "wait below a team" => {
            let set = team_set(store);
            let key = hears().expect("it is told");
            let last = machine_time() + Span::from(PATIENCE / 2);
            let lease = waits(set.acquire(key.as_str(), Request::default().within(PATIENCE)));
            say("waits");
            let lease = block_on(lease).expect("an answer").granted();
            let mut lease = lease.expect("its turn");
            assert!(
                machine_time() < last,
                "it looked at its deadline: it was not told"
            );
            say("granted");
            lease.release().wait().expect("held");
        }
        "make" => {
            let fixture = fixture(&store);
            assert!(fixture.lease(b"k", &[1], 3_600 * SECOND).lease.is_some());
            say("made");
            until_let_go();
        }
        "fork" => fork(&set(store)),
        "run another program" => {
            let set = set(store);
            let held = set.try_acquire("k", Request::default()).wait();
            let _held = held.expect("an answer").granted().expect("it is free");
            let _place = waits(set.acquire("k", Request::default().within(PATIENCE)));
            say("held");
            let next = hears().expect("it is told");
            let mut program = Command::new(std::env::current_exe().expect("this test's path"));
            program.args(["deeds_of_another_process", "--exact", "--nocapture"]);
            panic!("{}", program.env("TIDEGATE_DEED", next).exec());
        }
        "take" => {
            assert!(is_free(&set(store), "k"));
            say("taken");
        }
        "stay" => {
            say("stays");
            until_let_go();
        }
        other => panic!("nobody does {other}"),
    }
}

#[test]
fn a_killed_holders_slot_is_back_at_the_next_look() {
    let dir = Dir::default();
    let mut holder = Other::start(dir.path(), "hold");
    holder.has_said("held");
    let set = set(dir.store());
    assert!(!is_free(&set, "k"));
    holder.kill();
    assert!(is_free(&set, "k"));
}

#[test]
fn who_waits_is_served_when_the_holder_is_killed() {
    let dir = Dir::default();
    let mut holder = Other::start(dir.path(), "hold");
    holder.has_said("held");
    let mut waiter = Other::start(dir.path(), "wait");
    waiter.has_said("waits");
    holder.kill();
    waiter.has_said("granted");
    waiter.ends();
}

#[test]
fn a_killed_process_loses_its_place_at_once() {
    let dir = Dir::default();
    let set = set(dir.store());
    let held = set.try_acquire("k", Request::default()).wait();
    let mut held = held.expect("an answer").granted().expect("it is free");
    let mut first = Other::start(dir.path(), "wait");
    first.has_said("waits");
    let mut second = Other::start(dir.path(), "wait");
    second.has_said("waits");
    first.kill();
    held.release().wait().expect("held");
    second.has_said("granted");
    second.ends();
    assert!(is_free(&set, "k"), "nobody is before it");
}

/// Who came third watched the one who came first alone: nobody told it when the second was killed
/// that had been woken, and had not looked.
#[test]
fn who_waits_is_served_when_one_before_it_is_killed_that_was_woken() {
    let cases = [
        (["a/1", "a/2", "a/3"], 1),
        (["a/1"; 3], 1),
        (["a/1"; 3], 66),
    ];
    for (keys, first) in cases {
        let dir = Dir::default();
        let set = team_set(dir.store());
        let held = set.try_acquire(keys[0], Request::default()).wait();
        let mut held = held.expect("an answer").granted().expect("it is free");
        let wait = |_| waits(set.acquire(keys[0], Request::default().within(PATIENCE)));
        let first: Vec<_> = (0..first).map(wait).collect();
        let come = |key: &str| {
            let mut one = Other::start(dir.path(), "wait below a team");
            one.hears(key);
            one.has_said("waits");
            one
        };
        let (second, mut third) = (come(keys[1]), come(keys[2]));
        for one in first {
            held.release().wait().expect("held");
            let lease = block_on(one).expect("an answer").granted();
            held = lease.expect("its turn");
        }
        // The second has looked by then, and stands still outside a step: else what follows waits
        // until it is killed.
        let (_nobody, tells) = sync_channel::<()>(1);
        let _ = tells.recv_timeout(Duration::from_secs(1));
        stop(second.id());
        thread::scope(|scope| {
            let (ends, ended) = sync_channel(1);
            scope.spawn(move || {
                held.release().wait().expect("held");
                let _ = ends.send(());
            });
            let _ = ended.recv_timeout(Duration::from_secs(5));
            second.kill();
        });
        third.has_said("granted");
        third.ends();
    }
}

/// It has the same number, and was started when it was.
#[test]
fn what_a_process_held_before_it_ran_another_program_is_nobodys() {
    let dir = Dir::default();
    let set = set(dir.store());
    // For itself.
    let mut same = Other::start(dir.path(), "run another program");
    same.has_said("held");
    same.hears("take");
    same.has_said("taken");
    same.ends();
    assert!(is_free(&set, "k"));
    // And for others, who may wait for it.
    let mut same = Other::start(dir.path(), "run another program");
    same.has_said("held");
    let waiting = waits(set.acquire("k", Request::default().within(PATIENCE)));
    same.hears("stay");
    same.has_said("stays");
    assert!(block_on(waiting).expect("an answer").granted().is_some());
    assert!(is_free(&set, "k"));
    same.ends();
}

#[test]
fn processes_are_served_in_order_of_arrival() {
    let dir = Dir::default();
    let set = set(dir.store());
    for _ in 0..3 {
        let held = set.try_acquire("k", Request::default()).wait();
        let mut held = held.expect("an answer").granted().expect("it is free");
        let come = || {
            let mut one = Other::start(dir.path(), "wait");
            one.has_said("waits");
            one
        };
        let waiting = [(); 4].map(|()| come());
        assert!(!is_free(&set, "k"), "nobody overtakes");
        held.release().wait().expect("held");
        let came: Vec<u32> = waiting.iter().map(Other::id).collect();
        for mut one in waiting {
            one.has_said("granted");
            one.ends();
        }
        assert_eq!(noted(dir.path()), came);
        std::fs::remove_file(dir.path().join(ORDER)).expect("it is there");
        assert!(is_free(&set, "k"));
    }
}

/// A slot for an hour, in the words of a table.
fn fixture(store: &ShmStore) -> Fixture {
    Fixture::at(store, "u", plan(0, 1, &[(0, slots(1))]), machine_time())
}

/// Who renews a lease holds it from then on.
#[test]
fn a_lease_outlives_its_maker_if_another_process_renews_it() {
    let dir = Dir::default();
    let mut maker = Other::start(dir.path(), "make");
    maker.has_said("made");
    let store = dir.store();
    let fixture = fixture(&store);
    let until = fixture.now() + Span::from(HOUR);
    fixture
        .execute(b"k", Verb::Renew { id: 1, until })
        .expect("held");
    maker.kill();
    assert!(!fixture.admits(b"k", &[1]), "it is this process's now");
    fixture.end(b"k", 1, Ending::Release).expect("held");
    assert!(fixture.admits(b"k", &[1]));
}

/// Who holds it now is a process with which no lease ends.
#[test]
fn a_lease_ends_with_nobody_if_such_a_process_renews_it() {
    let dir = Dir::default();
    let mut maker = Other::start(dir.path(), "make");
    maker.has_said("made");
    let options = Options {
        leases_end_with_process: false,
        ..support::options(dir.path())
    };
    let fixture = fixture(&ShmStore::open("test", options).expect("a segment"));
    let until = fixture.now() + Span::from(HOUR);
    fixture
        .execute(b"k", Verb::Renew { id: 1, until })
        .expect("held");
    maker.kill();
    assert!(!fixture.admits(b"k", &[1]), "it was renewed");
}

/// Without the option its slot is held until it expires.
#[test]
fn leases_last_until_they_expire_where_they_do_not_end_with_their_process() {
    let dir = Dir::default();
    let options = || Options {
        leases_end_with_process: false,
        ..support::options(dir.path())
    };
    let set = set(ShmStore::open("test", options()).expect("a segment"));
    let held = set.try_acquire("k", Request::default()).wait();
    let held = held.expect("an answer").granted().expect("it is free");
    assert!(!is_free(&set, "k"));
    drop(held);
    assert!(is_free(&set, "k"));
}

#[test]
fn a_child_of_a_fork_is_a_process_of_its_own() {
    let dir = Dir::default();
    let mut forking = Other::start(dir.path(), "fork");
    forking.has_said("the child has it");
    forking.has_said("it is back");
    forking.has_said("the child has waited");
    forking.ends();
}

/// The child of a fork takes the slot and ends without a word; then one waits.
#[expect(unsafe_code, reason = "a fork is C's")]
fn fork(set: &LimitSet) {
    let child = |deed: &dyn Fn()| {
        // SAFETY: no other thread of this process holds a lock that the child needs: the
        // harness's own waits for this one.
        match unsafe { libc::fork() } {
            0 => {
                deed();
                // SAFETY: nothing of the parent's is torn down.
                unsafe { libc::_exit(0) }
            }
            pid => {
                let mut status = 0;
                // SAFETY: the child is this process's own.
                unsafe { libc::waitpid(pid, &raw mut status, 0) };
                assert_eq!(status, 0);
            }
        }
    };
    // The parent has asked, and waited, before.
    let held = set.try_acquire("k", Request::default()).wait();
    let held = held.expect("an answer").granted().expect("it is free");
    let late = set.acquire("k", Request::default().within(Duration::from_millis(1)));
    assert!(late.wait().expect("an answer").granted().is_none());
    drop(held);
    child(&|| {
        let held = set.try_acquire("k", Request::default()).wait();
        let held = held.expect("an answer").granted();
        assert!(held.is_some());
        // It ends with the child.
        let _kept = std::mem::ManuallyDrop::new(held);
    });
    say("the child has it");
    // A fork copies the generator from which the library draws ids: the parent spends here
    // those that the child has drawn.
    assert!(is_free(set, "elsewhere"));
    assert!(is_free(set, "k"));
    say("it is back");
    let held = set.try_acquire("k", Request::default()).wait();
    let held = held.expect("an answer").granted().expect("it is free");
    child(&|| {
        let late = set.acquire("k", Request::default().within(Duration::from_millis(20)));
        assert!(late.wait().expect("an answer").granted().is_none());
    });
    say("the child has waited");
    drop(held);
}

#[test]
fn two_stores_of_one_process_on_one_segment_share_everything() {
    let dir = Dir::default();
    let (one, other) = (set(dir.open(Clock::Server)), set(dir.open(Clock::Server)));
    let held = one.try_acquire("k", Request::default()).wait();
    let mut held = held.expect("an answer").granted().expect("it is free");
    assert!(!is_free(&other, "k"));
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let lease = other.acquire("k", Request::default().within(PATIENCE));
            lease.wait().expect("an answer").granted().is_some()
        });
        held.release().wait().expect("held");
        assert!(waits.join().expect("an answer"));
    });
    assert!(is_free(&one, "k"));
}
