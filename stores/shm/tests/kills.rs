//! A process is killed, as by `kill -9`, at one point after the other of what it does: the
//! segment is sound afterwards, nothing is lost, and nobody hangs.
//!
//! 300 kills, or as many as `TIDEGATE_KILLS` says.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use support::Dir;
use support::child::{Other, asked, say};
use tidegate::{Limit, LimitSet, Request, Store as _};
use tidegate_shm::ShmStore;
use tidegate_store::core::Timestamp;
use tidegate_store::{Change, Definition, Event};

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than the test.
const HOUR: Duration = Duration::from_secs(3_600);
const FOREVER: Duration = Duration::from_secs(400 * 86_400);
const BUDGET: u64 = 1_000_000_000_000;

/// So many slots there are of each key.
const SLOTS: u64 = 2;

/// So often a process asks, if it is not killed before.
const ASKS: usize = 12;

fn set(store: Arc<ShmStore>) -> LimitSet {
    let set = LimitSet::builder()
        .name("t")
        .levels(["tenant", "user"])
        .limits([
            Limit::budget("budget", BUDGET, FOREVER),
            Limit::concurrency("slots", SLOTS).ttl(HOUR),
        ]);
    set.store(store).build().expect("sound")
}

/// The same limits for keys without levels, whose roots a process may have at hand.
fn plain(store: Arc<ShmStore>) -> LimitSet {
    let set = LimitSet::builder().name("plain").limits([
        Limit::budget("budget", BUDGET, FOREVER),
        Limit::concurrency("slots", SLOTS).ttl(HOUR),
    ]);
    set.store(store).build().expect("sound")
}

/// A unit and a slot.
const ONE: &[(&str, u64)] = &[("budget", 1), ("slots", 1)];

/// A slot alone.
const SLOT: &[(&str, u64)] = &[("slots", 1)];

fn used(set: &LimitSet, key: &str) -> u64 {
    let left = set.peek(key, Request::named(SLOT)).wait();
    let left = left.expect("an answer");
    BUDGET - left.standing("budget").expect("it is of the set").remaining
}

/// What the other process does: takes, waits, holds, gives back, defines, in every way.
#[test]
fn deeds_of_another_process() {
    let Some((dir, deed)) = asked() else { return };
    let (key, last) = deed.split_once(' ').expect("two words");
    if let Ok(last) = last.parse() {
        tidegate_shm::arm(last, tidegate_shm::killed);
    }
    let store = ShmStore::open("test", support::options(dir)).expect("a segment");
    let store = Arc::new(store);
    let set = match key.contains('/') {
        true => set(Arc::clone(&store)),
        false => plain(Arc::clone(&store)),
    };
    let mut held = Vec::new();
    let asks = if last == ENDLESS { usize::MAX } else { ASKS };
    for round in 0..asks {
        say("asks");
        let granted = set
            .acquire(key, Request::named(ONE).within(PATIENCE))
            .wait()
            .expect("an answer");
        held.push(granted.granted().expect("its turn"));
        say("has");
        // Of several that hold one and ask for another, each may wait for the other.
        let way = if key.starts_with(ONE_AT_ONCE) {
            3
        } else {
            round % 4
        };
        match way {
            0 => held[0].renew(HOUR).wait().map(drop).expect("held"),
            1 => held.remove(0).release().wait().map(drop).expect("held"),
            2 => {
                let definition = Definition::new(key, round.to_string());
                let defined = store.change("kills", Change::from(definition).telling(event(key)));
                assert!(defined.wait().expect("an answer").is_changed());
                held.remove(0).release().wait().map(drop).expect("held");
            }
            _ => {
                while let Some(mut one) = held.pop() {
                    one.release().wait().expect("held");
                }
            }
        }
    }
    drop(held);
    drop(set);
    drop(store);
    say(&format!("passed {}", tidegate_shm::passed()));
}

/// What is told of a change; of so few that each makes room for itself.
fn event(key: &str) -> Event {
    Event {
        subject: key.as_bytes().to_vec(),
        body: b"told".to_vec(),
        at: Timestamp::from_micros(0),
        lasts: HOUR,
        most: 40,
        version: 0,
    }
}

/// Each definition has its event, and they agree, wherever a process was killed.
fn events_are_those_of_changes(store: &ShmStore) {
    let all = store
        .events("kills", None, None, 100, Timestamp::MIN)
        .wait();
    let all = all.expect("an answer").items;
    assert!(all.len() <= 40, "{}", all.len());
    let page = store.definitions_page("kills", b"", None, 100).wait();
    let defined = page.expect("an answer").items;
    let newest = defined.iter().map(|one| one.version).max();
    assert_eq!(newest, all.last().map(|event| event.version));
    for one in defined {
        let about = store.events("kills", Some(&one.key), None, 100, Timestamp::MIN);
        let about = about.wait().expect("an answer").items;
        let theirs = all.iter().filter(|event| event.subject == one.key);
        let versions = about.iter().map(|event| event.version);
        assert!(versions.eq(theirs.map(|event| event.version)), "{about:?}");
        // The oldest may have gone.
        let last = about.last().map(|event| event.version);
        assert!(last.is_none_or(|last| last == one.version), "{last:?}");
    }
}

/// With what keys begin of which a process holds one slot at once.
const ONE_AT_ONCE: &str = "one";

/// In place of a point: it goes on until it is killed from without.
const ENDLESS: &str = "endless";

/// How many points there are in all that a process does with a key.
fn points(dir: &Dir, key: &str) -> u64 {
    let mut whole = Other::start(dir.path(), &format!("{key} -"));
    loop {
        let said = whole.says().expect("it ends");
        if let Some(passed) = said.strip_prefix("passed ") {
            return passed.parse().expect("a number");
        }
    }
}

fn kills() -> u64 {
    let said = std::env::var("TIDEGATE_KILLS").ok();
    said.map_or(300, |said| said.parse().expect("how many kills"))
}

#[test]
fn a_process_killed_at_any_point_leaves_a_segment_that_goes_on() {
    let dir = Dir::default();
    let store = Arc::new(dir.store());
    let set = set(Arc::clone(&store));
    let (points, kills) = (points(&dir, "whole/one"), kills());
    println!("{points} points, {kills} kills");
    for round in 0..kills {
        // Every part of it is met, and each time another point of it.
        let last = 1 + (round * points / kills.min(points) + round / points) % points;
        let key = format!("tenant/{}", round % 16);
        one_kill(&dir, &set, (&key, &last.to_string()), None);
        events_are_those_of_changes(&store);
        if (round + 1) % 1_000 == 0 {
            println!("{} killed", round + 1);
        }
    }
}

/// Nobody else asks: what it has at hand is never stale, and it writes the fast way.
#[test]
fn a_process_killed_alone_leaves_all_of_a_step_or_nothing_of_it() {
    let dir = Dir::default();
    let set = plain(Arc::new(dir.store()));
    let (points, kills) = (points(&dir, "whole"), kills());
    for round in 0..kills / 2 {
        let last = 1 + round * points / (kills / 2);
        let key = format!("tenant-{}", round % 16);
        let before = used(&set, &key);
        let other = Other::start(dir.path(), &format!("{key} {last}"));
        let (asked, had) = until_killed(other);
        let used = used(&set, &key) - before;
        assert!(
            (had..=asked).contains(&used),
            "killed at {last}: asked {asked}, had {had}, and {used} are used"
        );
        all_slots_are_free(&set, &key);
    }
}

/// Wherever the kill meets it, between any two instructions.
#[test]
fn a_process_killed_at_any_moment_leaves_a_segment_that_goes_on() {
    let dir = Dir::default();
    let set = set(Arc::new(dir.store()));
    for round in 0..kills() / 5 {
        let after = Duration::from_micros(round * 7_919 % 20_000);
        let key = format!("tenant/{}", round % 16);
        one_kill(&dir, &set, (&key, ENDLESS), Some(after));
    }
}

/// Some of them while they take back what another had begun.
#[test]
fn several_processes_killed_at_once_leave_a_segment_that_goes_on() {
    let dir = Dir::default();
    let set = set(Arc::new(dir.store()));
    for round in 0..kills() / 6 {
        let key = format!("{ONE_AT_ONCE}/{}", round % 4);
        let before = used(&set, &key);
        let others = [0, 1, 2, 3].map(|other| {
            let last = 1 + (round * 4 + other) * 7_919 % 400;
            Other::start(dir.path(), &format!("{key} {last}"))
        });
        let said = others.map(until_killed);
        let (asked, had) = said
            .iter()
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        all_slots_are_free(&set, &key);
        let used = used(&set, &key) - before;
        assert!(
            (had..=asked).contains(&used),
            "asked {asked}, had {had}, and {used} are used"
        );
    }
}

/// How often it has asked, and how often it had what it asked for, until it was killed or
/// had done all.
fn until_killed(mut other: Other) -> (u64, u64) {
    let said = asked_and_had(&mut other, || {});
    other.ends_or_is_killed();
    said
}

/// How often it asks, and how often it has what it asked for; `begun` is called when it has
/// asked first.
fn asked_and_had(other: &mut Other, begun: impl FnOnce()) -> (u64, u64) {
    let (mut asked, mut had, mut begun) = (0, 0, Some(begun));
    while let Some(said) = other.says() {
        if let Some(begun) = begun.take() {
            begun();
        }
        match &*said {
            "asks" => asked += 1,
            "has" => had += 1,
            _ => {}
        }
    }
    (asked, had)
}

/// Else the tests here would pass while what they kill does nothing.
#[test]
#[should_panic(expected = "exit status: 101")]
fn a_process_that_panics_is_not_taken_for_one_that_was_killed() {
    let dir = Dir::default();
    let _store = dir.store();
    until_killed(Other::start(dir.path(), "a-deed-of-one-word"));
}

/// All slots are free, and no more.
fn all_slots_are_free(set: &LimitSet, key: &str) {
    let take = |_| {
        let patient = Request::named(SLOT).within(PATIENCE);
        let granted = set.acquire(key, patient).wait().expect("an answer");
        granted.granted().expect("its slot is back")
    };
    let all: Vec<_> = (0..SLOTS).map(take).collect();
    let more = set.try_acquire(key, Request::named(SLOT));
    assert!(more.wait().expect("an answer").granted().is_none());
    for mut lease in all {
        lease.release().wait().expect("held");
    }
}

/// A process is killed at a point while another waits, takes and gives back beside it.
fn one_kill(dir: &Dir, set: &LimitSet, (key, last): (&str, &str), after: Option<Duration>) {
    let before = used(set, key);
    let is_over = AtomicBool::new(false);
    let (own, (asked, had)) = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut own = 0;
            while !is_over.load(Ordering::SeqCst) {
                let granted = set
                    .acquire(key, Request::named(ONE).within(PATIENCE))
                    .wait()
                    .expect("an answer");
                let mut lease = granted.granted().expect("its turn");
                own += 1;
                lease.release().wait().expect("held");
            }
            own
        });
        let mut other = Other::start(dir.path(), &format!("{key} {last}"));
        let pid = other.id();
        let (_goes_on, ends) = std::sync::mpsc::sync_channel::<()>(0);
        let said = asked_and_had(&mut other, || {
            if let Some(after) = after {
                let _ = ends.recv_timeout(after);
                support::child::kill(pid);
            }
        });
        is_over.store(true, Ordering::SeqCst);
        other.ends_or_is_killed();
        (beside.join().expect("nobody hangs"), said)
    });
    all_slots_are_free(set, key);
    let used = used(set, key) - before - own;
    assert!(
        (had..=asked).contains(&used),
        "killed at {last}: asked {asked}, had {had}, and {used} are used"
    );
}
