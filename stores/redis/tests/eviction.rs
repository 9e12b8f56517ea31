//! What a server under `allkeys-lru` may drop, and what a failover may not know:
//! nothing is stuck for good, and no more starts over than was lost.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use support::{Fixture, SECOND, ask, connect, hourly, machine_time, open, plan, slots};
use tidegate::{Limit, LimitSet, Request};
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::{Witness, wait_for};
use tidegate_redis::{Clock, RedisStore};
use tidegate_store::core::Rule;
use tidegate_store::{Change, Definition, Ending, Event, Store, Verb};

/// Where the revisions of table "t" are.
const PLANS: &str = "{tidegate:t}:plans";

/// Long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// A process that starts, with these limits.
fn starts(server: &RedisServer, version: u64, rule: Rule) -> (RedisStore, Fixture) {
    let store = open(server, Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(version, 1, &[(0, rule)]), machine_time());
    (store, fixture)
}

fn evict(server: &RedisServer, key: &str) {
    let gone: i64 = ask(&mut connect(server), &["DEL", key]);
    assert_eq!(gone, 1, "{key} was there");
}

#[test]
fn who_starts_again_with_the_same_limits_knows_its_rows_without_the_plans() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (_, before) = starts(&server, 0, hourly(10));
    assert!(before.admits(b"k", &[8]));
    evict(&server, PLANS);
    let (_, after) = starts(&server, 0, hourly(10));
    assert_eq!(after.left(b"k"), [2]);
    assert!(after.admits(b"k", &[1]));
    // And whoever was there goes on.
    assert_eq!(before.left(b"k"), [1]);
}

/// A set that had another limit once: its limits are known by their names.
#[test]
fn who_starts_again_after_a_limit_was_removed_knows_what_is_held() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let set = |limits: Vec<Limit>| {
        let set = LimitSet::builder().name("t").limits(limits);
        let set = set.store(Arc::new(open(&server, Clock::Server)));
        set.build().expect("sound limits")
    };
    let gpu = || Limit::concurrency("gpu", 1);
    let before = set(vec![Limit::calls("rpm", 9, LONG), gpu()]);
    before.remove_limit("rpm").expect("it was there");
    let held = before
        .try_acquire("k", Request::default())
        .wait()
        .expect("an answer");
    let _held = held.granted().expect("it is free");
    evict(&server, PLANS);
    let after = set(vec![gpu()]);
    let refused = after
        .try_acquire("k", Request::default())
        .wait()
        .expect("an answer");
    assert!(refused.granted().is_none());
}

#[test]
fn a_row_by_limits_that_nobody_knows_counts_as_never_seen() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (store, before) = starts(&server, 0, hourly(10));
    assert!(before.admits(b"k", &[8]));
    drop((store, before));
    evict(&server, PLANS);
    // The number of the first is not that of the other.
    let (_, after) = starts(&server, 0, slots(3));
    assert_eq!(after.left(b"k"), [3]);
    let (_, later) = starts(&server, 1, hourly(20));
    assert_eq!(later.left(b"k"), [20]);
    assert!(later.admits(b"k", &[20]));
    assert!(!later.admits(b"k", &[1]));
}

/// How many of some requests are admitted; who cannot be told is not.
fn admitted(desks: &[&Fixture], key: &[u8]) -> u64 {
    let verdicts = desks.iter().map(|fixture| fixture.take(key, &[1]));
    verdicts.flatten().map(|v| u64::from(v.admitted())).sum()
}

/// Processes that do not agree, and the plans are lost: who knows nothing of the other
/// lets what is used start over once, and waits then until it is told.
#[test]
fn processes_that_do_not_agree_tell_their_limits_again() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (_, strict) = starts(&server, 0, hourly(10));
    let (_, loose) = starts(&server, 1, hourly(20));
    let (_, same) = starts(&server, 1, hourly(20));
    // The one knows the other's limits; these are the limits of a third, too.
    assert!(strict.admits(b"k", &[4]) && loose.admits(b"k", &[4]));
    assert_eq!(strict.left(b"k"), [2]);
    assert!(strict.admits(b"k", &[1]));
    evict(&server, PLANS);
    let told = || ask::<i64>(&mut connect(&server), &["HLEN", PLANS]);
    let mut total = 0;
    while told() < 3 + 2 {
        total += admitted(&[&strict, &same], b"k");
    }
    total += (0..50)
        .map(|_| admitted(&[&strict, &same], b"k"))
        .sum::<u64>();
    // The one before it was lost, then the larger budget, once.
    assert!((12..=21).contains(&total), "{total}");
}

/// A failover to a server that had not seen the newest revision.
#[test]
fn a_revision_that_a_new_master_does_not_know_is_told_again() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (_, first) = starts(&server, 0, hourly(10));
    assert!(first.admits(b"k", &[2]));
    let mut admin = connect(&server);
    let seen: Vec<u8> = ask(&mut admin, &["DUMP", PLANS]);
    let (_, second) = starts(&server, 1, hourly(20));
    assert!(second.admits(b"k", &[3]));
    assert!(second.admits(b"other", &[3]));
    let mut restore = redis::cmd("RESTORE");
    let restore = restore.arg(PLANS).arg(0).arg(seen).arg("REPLACE");
    restore.exec(&mut admin).expect("the plans of before");
    // A third is given a number of its own, whatever the lost one had.
    let (_, third) = starts(&server, 2, hourly(30));
    assert_eq!(third.left(b"k"), [30]);
    assert!(third.admits(b"k", &[30]));
    // The second finds that its own is lost, and tells it again.
    let told = || ask::<i64>(&mut connect(&server), &["HLEN", PLANS]);
    while told() < 3 + 3 {
        assert_eq!(second.left(b"k"), [0]);
    }
    assert_eq!(third.left(b"other"), [27]);
    assert!(!third.admits(b"k", &[1]));
}

#[test]
fn leases_whose_order_of_time_was_evicted_end_in_time() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (_, fixture) = starts(&server, 0, slots(2));
    assert!(fixture.lease(b"k", &[1], 60 * SECOND).verdict.admitted());
    assert!(fixture.lease(b"k", &[1], 60 * SECOND).verdict.admitted());
    evict(&server, "{tidegate:t:k}:d");
    fixture.end(b"k", 1, Ending::Cancel).expect("it is known");
    assert_eq!(fixture.left(b"k"), [1]);
    let ordered: i64 = ask(&mut connect(&server), &["ZCARD", "{tidegate:t:k}:d"]);
    assert_eq!(ordered, 1, "the other has its place again");
    fixture.end(b"k", 2, Ending::Cancel).expect("it is known");
    assert_eq!(fixture.left(b"k"), [2]);
}

/// So many leases that making the order anew would take long.
#[test]
fn of_many_leases_whose_order_was_evicted_nothing_is_known_until_they_expire() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (_, fixture) = starts(&server, 0, slots(5_000));
    for _ in 0..2_100 {
        assert!(fixture.lease(b"k", &[1], 600 * SECOND).verdict.admitted());
    }
    evict(&server, "{tidegate:t:k}:d");
    assert!(fixture.end(b"k", 1, Ending::Cancel).is_err());
    assert_eq!(fixture.left(b"k"), [2_900]);
    assert!(fixture.lease(b"k", &[1], SECOND).verdict.admitted());
    let last = fixture.last_lease();
    fixture
        .end(b"k", last, Ending::Cancel)
        .expect("it is known");
}

#[test]
fn leases_whose_records_were_evicted_hold_their_slots_until_they_expire() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (_, fixture) = starts(&server, 0, slots(2));
    assert!(fixture.lease(b"k", &[2], SECOND / 5).verdict.admitted());
    evict(&server, "{tidegate:t:k}:b");
    assert!(fixture.end(b"k", 1, Ending::Cancel).is_err());
    // What is left of them keeps nobody from anything, and is cleared away.
    while !fixture.lease(b"k", &[1], 60 * SECOND).verdict.admitted() {}
    let ordered: i64 = ask(&mut connect(&server), &["ZCARD", "{tidegate:t:k}:d"]);
    assert_eq!(ordered, 1, "of the lease that is held");
    let last = fixture.last_lease();
    fixture
        .end(b"k", last, Ending::Cancel)
        .expect("it is known");
}

/// A reset was the first to be noted after the records were evicted, and what was left of
/// them in the order of time stayed for good: before it nothing that was due was seen, and no
/// lease of the root was ever forgotten.
#[test]
fn a_reset_after_records_were_evicted_lets_the_leases_after_it_be_forgotten() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (_, fixture) = starts(&server, 0, slots(9));
    for _ in 0..3 {
        assert!(fixture.lease(b"k", &[1], SECOND / 5).verdict.admitted());
    }
    evict(&server, "{tidegate:t:k}:b");
    fixture.execute(b"k", Verb::Reset).expect("an answer");
    assert!(fixture.lease(b"k", &[1], 60 * SECOND).verdict.admitted());
    let ordered: i64 = ask(&mut connect(&server), &["ZCARD", "{tidegate:t:k}:d"]);
    assert!(
        ordered <= 2,
        "of the lease that is held, and of the reset: {ordered}"
    );
}

/// Whoever waits has a place again, within a second or so, and is served.
#[test]
fn who_waits_and_is_dropped_from_the_order_stands_in_line_again() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let limit = Limit::concurrency("slots", 1);
    let set = LimitSet::builder().name("t").limit(limit);
    let set = set.store(Arc::new(open(&server, Clock::Server)));
    let set = set.build().expect("sound limits");
    let in_line = || ask::<i64>(&mut connect(&server), &["ZCARD", "{tidegate:t:k}:q"]);
    std::thread::scope(|scope| {
        let held = set
            .try_acquire("k", Request::default())
            .wait()
            .expect("an answer");
        let held = held.granted().expect("it is free");
        let waits = || {
            set.acquire("k", Request::default().within(LONG))
                .wait()
                .map(drop)
        };
        let waiting = scope.spawn(waits);
        while in_line() == 0 {}
        evict(&server, "{tidegate:t:k}:q");
        while in_line() == 0 {
            assert!(!waiting.is_finished(), "it waits for what is held");
        }
        drop(held);
        waiting.join().expect("it ends").expect("served");
    });
}

/// So many keys do not fit; so often a process is started.
const KEYS: u64 = 3_000;
const TURNS: u64 = 5_000;
const RUNS: u64 = 3;
const CAPACITY: u64 = 1;
const TOO_MUCH: u64 = 900 << 10;

/// Where the test ends what it listens to.
const END: &str = "end";

/// How often each key was evicted, until the test says that it ends.
fn evictions(server: &RedisServer) -> std::thread::JoinHandle<HashMap<String, u64>> {
    let mut connection = connect(server);
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    let listening = std::thread::spawn(move || {
        let mut subscriber = connection.as_pubsub();
        let channels = ["__keyevent@0__:evicted", END];
        subscriber.subscribe(&channels).expect("it listens");
        ready.send(()).expect("it is awaited");
        let mut evicted = HashMap::new();
        loop {
            let message = subscriber.get_message().expect("a message");
            if message.get_channel_name() == END {
                return evicted;
            }
            let key = message.get_payload().expect("a key");
            *evicted.entry(key).or_default() += 1;
        }
    });
    is_ready.recv().expect("it listens");
    listening
}

/// From now on there is no room for all that is there.
fn crowd(server: &RedisServer) {
    let mut admin = connect(server);
    let info: String = ask(&mut admin, &["INFO", "memory"]);
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    let used: u64 = used.expect("a size").parse().expect("a number");
    let most = (used - TOO_MUCH).to_string();
    let _: String = ask(&mut admin, &["CONFIG", "SET", "maxmemory", &most]);
}

/// Takes what is left of each key, and of some again and again; counts what it was given.
fn runs(server: &RedisServer, run: u64, admitted: &mut HashMap<u64, u64>) {
    let (_store, fixture) = starts(server, 0, hourly(CAPACITY));
    fixture.number_from(u128::from(run * TURNS));
    for turn in 0..TURNS {
        let key = if turn % 5 < 2 {
            turn % 100
        } else {
            turn % KEYS
        };
        let name = format!("{key}").into_bytes();
        let decision = fixture.lease(&name, &[1], 3_600 * SECOND);
        if decision.verdict.admitted() {
            *admitted.entry(key).or_default() += 1;
        }
    }
}

/// A real server that is too small. Every budget that was exceeded was a row that the
/// server has dropped.
#[test]
fn a_server_that_is_too_small_starts_over_what_it_drops_and_nothing_else() {
    let options = [
        "--maxmemory-policy",
        "allkeys-lru",
        "--notify-keyspace-events",
        "Ee",
    ];
    let Some(server) = RedisServer::start_with(&options) else {
        return;
    };
    let (evicted, mut admitted) = (evictions(&server), HashMap::new());
    for run in 0..RUNS {
        if run == 1 {
            crowd(&server);
        }
        runs(&server, run, &mut admitted);
    }
    let _: i64 = ask(&mut connect(&server), &["PUBLISH", END, ""]);
    let evicted = evicted.join().expect("it ends");
    let mut over = 0;
    for (key, &number) in &admitted {
        let row = format!("{{tidegate:t:{key}}}:r");
        let dropped = evicted.get(&row).copied().unwrap_or(0);
        let most = CAPACITY * (1 + dropped);
        assert!(number <= most, "{key}: {number} of {most}");
        over += u64::from(number > CAPACITY);
    }
    println!("{over} of {} budgets started over", admitted.len());
    assert!(over > 0, "all had room");
    assert!(evicted.contains_key(PLANS), "the plans were lost, too");
}

/// Where what is defined for "me" is; its last changes.
const OWN: [&str; 2] = ["{tidegate:me}:own", "{tidegate:me}:own:log"];

/// Those that were there hear of what is defined next, and who knows less than that of
/// everything, whatever the server has dropped before.
#[test]
fn what_is_defined_is_followed_whichever_of_its_keys_the_server_has_dropped() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (here, there) = (open(&server, Clock::Server), open(&server, Clock::Server));
    let (one, other) = (Witness::of(&here, "me"), Witness::of(&there, "me"));
    let define = |key: &str, value: &str| {
        let definition = Definition::new(key, value);
        assert!(wait_for(here.define("me", definition)).expect("room"));
    };
    let version = || {
        wait_for(there.definitions("me", 0))
            .expect("an answer")
            .version
    };
    for (round, dropped) in [&OWN[1..], &OWN].into_iter().enumerate() {
        let value = round.to_string();
        define("early", &value);
        let early = version();
        define("late", &value);
        dropped.iter().for_each(|key| evict(&server, key));
        define("after", &value);
        for follower in [&one, &other] {
            follower.awaits(b"after", Some(value.as_bytes()));
        }
        let since = wait_for(there.definitions("me", early)).expect("an answer");
        assert!(since.whole && since.version > early, "{dropped:?}");
        let names_late = since.changed.iter().any(|one| one.key == b"late");
        assert_eq!(names_late, !dropped.contains(&OWN[0]), "{dropped:?}");
        assert_eq!(one.knows(b"late"), other.knows(b"late"));
    }
}

/// A failover to a server that had not seen the last changes: others are made in their place
/// before anybody looks. Who followed kept what was lost, since it was told of these alone.
#[test]
fn who_knows_a_change_that_a_new_master_does_not_have_is_told_everything() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let define = |key: &str, value: &str| {
        let definition = Definition::new(key, value);
        let made = wait_for(store.change("me", definition.into())).expect("room");
        assert!(made.is_changed());
    };
    let since = |version| wait_for(store.definitions("me", version)).expect("an answer");
    define("kept", "1");
    let mut admin = connect(&server);
    let seen = OWN.map(|key| ask::<Vec<u8>>(&mut admin, &["DUMP", key]));
    let kept = since(0).version;
    define("lost", "1");
    let lost = since(kept);
    assert_eq!((lost.whole, lost.changed.len()), (false, 1));
    for (key, seen) in OWN.into_iter().zip(seen) {
        let mut restore = redis::cmd("RESTORE");
        let restore = restore.arg(key).arg(0).arg(seen).arg("REPLACE");
        restore.exec(&mut admin).expect("what was defined before");
    }
    define("new", "1");
    define("newer", "1");
    let told = since(lost.version);
    assert!(told.whole && told.version > lost.version);
    assert!(told.changed.iter().all(|one| one.key != b"lost"));
    assert_eq!(told.changed.len(), 3);
    // Who had not seen them goes on.
    let told = since(kept);
    assert_eq!((told.whole, told.changed.len()), (false, 2));
}

/// The order of keys is made anew by the page that finds it gone; of what was told, what is
/// left of it is gone, too, and what is told from then on is kept.
#[test]
fn pages_and_events_go_on_whichever_of_their_keys_the_server_has_dropped() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let tell = |key: &str| {
        let event = Event {
            subject: b"s".to_vec(),
            body: key.as_bytes().to_vec(),
            at: machine_time(),
            lasts: Duration::from_secs(3_600),
            most: 100,
            version: 0,
        };
        let change = Change::from(Definition::new(key, b"v")).telling(event);
        assert!(
            wait_for(store.change("me", change))
                .expect("room")
                .is_changed()
        );
    };
    let keys = || {
        let page = wait_for(store.definitions_page("me", b"", None, 100)).expect("an answer");
        let keys = page.items.into_iter().map(|one| one.key);
        keys.collect::<Vec<_>>()
    };
    let events = || {
        let page = store.events("me", Some(b"s"), None, 100, machine_time());
        let page = wait_for(page).expect("an answer");
        let bodies = page.items.into_iter().map(|one| one.body);
        bodies.collect::<Vec<_>>()
    };
    tell("a");
    tell("b");
    evict(&server, "{tidegate:me}:own:keys");
    assert_eq!(keys(), [b"a", b"b"]);
    evict(&server, "{tidegate:me}:own:keys");
    tell("c");
    assert_eq!(keys(), [b"a", b"b", b"c"]);
    evict(&server, OWN[0]);
    tell("d");
    assert_eq!(keys(), [b"d"], "what was defined is gone");
    assert_eq!(events(), [b"a", b"b", b"c", b"d"]);
    for dropped in ["", ":order", ":about", ":ends"] {
        evict(&server, &format!("{{tidegate:me}}:told{dropped}"));
        tell("e");
        assert_eq!(events(), [b"e"], "{dropped}");
        tell("f");
        assert_eq!(events(), [b"e", b"f"], "{dropped}");
    }
}
