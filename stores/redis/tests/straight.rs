//! What random commands meet seldom on the straight way of leases, and the ends of its keys.

mod support;

use std::sync::Arc;

use support::{Fixture, KEEP, SECOND, ask, connect, hourly, machine_time, open, plan, rate, slots};
use tidegate_conformance::TableExt;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::Clock;
use tidegate_store::core::{Align, Rule, Span, Timestamp, Window};
use tidegate_store::{Detail, Ending, Hours, Plan, Reply, Select, Terms, Verb};

const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// A row until it equals "never seen", leases for as long as they are remembered: each is
/// kept a while longer, so that its end is not moved with each call, and never less long.
#[test]
fn the_keys_of_plain_leases_have_an_end() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, rate(1, 100)), (0, slots(9))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    let mut connection = connect(&server);
    let mut ends = |key: &str| -> i64 { ask(&mut connection, &["PEXPIRETIME", key]) };
    let keep = KEEP.as_micros() / 1_000;
    // The second lease is granted while the keys are kept for long enough.
    for seconds in [200, 100, 900] {
        let lease = fixture.lease(b"k", &[1, 1], seconds * SECOND).lease;
        let until = lease.expect("it fits").granted_at + Span::from_secs(seconds);
        let until_ms = until.as_micros() / 1_000;
        let row = ends("{tidegate:t:k}:r");
        assert!(
            (0..=120_000).contains(&(row - until_ms)),
            "{row} {until_ms}"
        );
        for key in ["{tidegate:t:k}:b", "{tidegate:t:k}:d"] {
            let over = ends(key) - until_ms - keep as i64;
            assert!((0..=240_000).contains(&over), "{key}: {over}");
        }
    }
}

#[test]
fn a_plain_lease_has_expired_at_its_expiry_and_not_before() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Caller);
    let rules = [(0, rate(1, 100)), (0, slots(9))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), START);
    for (id, micros, has_expired) in [(1, 999, false), (2, 1_000, true)] {
        assert!(fixture.lease(b"k", &[1, 1], 1_000).verdict.admitted());
        fixture.set_now(fixture.now() + Span::from_micros(micros));
        let settled = fixture.end(b"k", id, Ending::Release).expect("remembered");
        assert_eq!(settled.expired, has_expired, "after {micros} us");
    }
}

/// The window of before the reset begins when that of after does.
#[test]
fn what_was_taken_before_a_reset_is_not_given_back_to_a_window_after() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Caller);
    let window = Window::new(9, Align::Epoch(Span::from_secs(3_600))).expect("a window");
    let rules = [(0, Rule::Window(window)), (0, slots(9))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), START);
    assert!(fixture.lease(b"k", &[5, 1], SECOND).verdict.admitted());
    fixture.execute(b"k", Verb::Reset).expect("a reset");
    assert!(fixture.lease(b"k", &[4, 1], SECOND).verdict.admitted());
    fixture.end(b"k", 1, Ending::Cancel).expect("held");
    assert_eq!(fixture.left(b"k"), [5, 8]);
    fixture.end(b"k", 2, Ending::Cancel).expect("held");
    assert_eq!(fixture.left(b"k"), [9, 9]);
}

/// A drained row is gone, so that nothing of the change of limits is followed.
#[test]
fn an_end_is_remembered_for_as_long_as_the_newest_limits_say() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let before = plan(0, 1, &[(0, rate(1, 100))]);
    let mut fixture = Fixture::at(&store, "t", Arc::clone(&before), machine_time());
    fixture.lease(b"k", &[1], 900 * SECOND);
    let keep = Span::from_secs(86_400);
    fixture.plan = Arc::new(Plan::new(1, 1, before.limits().to_vec(), keep));
    let mut connection = connect(&server);
    // The server knows the limits by another key.
    for _ in 0..3 {
        fixture.lease(b"other", &[1], SECOND);
    }
    let gone: i64 = ask(&mut connection, &["DEL", "{tidegate:t:k}:r"]);
    assert_eq!(gone, 1);
    let end = Verb::End {
        id: 1,
        ending: Ending::Release,
        remember: true,
    };
    fixture.execute(b"k", end).expect("held");
    for key in ["{tidegate:t:k}:b", "{tidegate:t:k}:d"] {
        let left: i64 = ask(&mut connection, &["PTTL", key]);
        assert!(left > 86_300_000, "{key}: {left}");
    }
}

#[test]
fn a_look_at_a_plain_row_writes_nothing() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, rate(1, 100)), (0, slots(9))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    fixture.lease(b"k", &[5, 1], 900 * SECOND);
    let mut connection = connect(&server);
    let mut row = || -> Vec<u8> { ask(&mut connection, &["GET", "{tidegate:t:k}:r"]) };
    let before = row();
    assert_eq!(fixture.left(b"k")[1], 8);
    assert_eq!(row(), before);
}

#[test]
fn what_an_earlier_form_of_the_store_wrote_is_refused_with_a_clear_error() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, rate(1, 100)), (0, slots(9))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    fixture.lease(b"k", &[1, 1], 900 * SECOND);
    let mut connection = connect(&server);
    let old_holders = "local row = cmsgpack.pack(1, 1, { 0, { 5, 1, 7, 1, { 9 }, { 'id' }, { 1 } } }) \
        return redis.call('SET', KEYS[1], row)";
    let row: String = ask(
        &mut connection,
        &["EVAL", old_holders, "1", "{tidegate:t:row}:r"],
    );
    let number: i64 = ask(
        &mut connection,
        &["HSET", "{tidegate:t:ledger}:b", "n", "5"],
    );
    assert_eq!((row.as_str(), number), ("OK", 1));
    for key in [b"row".as_slice(), b"ledger"] {
        let amounts = [1, 1];
        let expires_at = machine_time() + Span::from_secs(60);
        let lease = Some(Terms {
            id: 77,
            expires_at,
            idempotency: None,
            least: None,
        });
        let detail = Detail::OnRefusal;
        let refused = fixture.execute(
            key,
            Verb::Take {
                amounts: &amounts,
                lease,
                detail,
            },
        );
        let why = refused.expect_err("it is not read").to_string();
        assert!(why.contains("an earlier form of this store"), "{why}");
    }
}

/// A refusal wrote nothing: each put the end of a window that a step back has moved off anew.
#[test]
fn a_window_that_a_step_back_moves_stays_moved_after_a_refusal() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Caller);
    let window = Window::new(5, Align::Epoch(Span::from_secs(3_600))).expect("a window");
    let rules = [(0, Rule::Window(window)), (0, slots(2))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), START);
    let minute = 60 * 1_000_000;
    let hour = START.as_micros() - START.as_micros() % (60 * minute);
    let at = |minutes: i64| fixture.set_now(Timestamp::from_micros(hour + minutes * minute));
    at(30);
    assert!(
        fixture
            .lease(b"k", &[0, 1], 300 * 60 * SECOND)
            .verdict
            .admitted()
    );
    assert!(fixture.admits(b"k", &[5, 0]));
    at(-150);
    fixture.end(b"k", 1, Ending::Release).expect("held");
    // The short way is not tried for 64 commands, where it has met something else.
    for _ in 0..100 {
        fixture.admits(b"other", &[1, 0]);
    }
    at(-149);
    assert!(!fixture.admits(b"k", &[1, 0]));
    at(-89);
    assert!(fixture.admits(b"k", &[1, 0]));
}

/// Grants are asked for so often that they go straight, too: one call of the short script
/// for a take that may be partial and for its end.
#[test]
fn what_is_taken_partly_goes_straight() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, hourly(100)), (0, rate(1, 50)), (0, slots(60))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    assert!(fixture.admits(b"k", &[90, 20, 0]));
    // The server knows the library, and the limits.
    let taken = partly(&fixture, 1, [8, 8, 8], [1, 1, 1]);
    assert_eq!(taken[..], [8, 8, 8]);
    log_calls(&server);
    // Two are left of the hour, some 22 of the bucket, 52 slots.
    let taken = partly(&fixture, 2, [8, 8, 60], [1, 1, 1]);
    assert_eq!(taken[..], [2, 8, 52]);
    fixture
        .end(b"k", 2, Ending::Settle(&[Some(1), Some(3), Some(0)]))
        .expect("held");
    assert_eq!(keys_of_calls(&server), ["4", "4"]);
    assert_eq!(fixture.left(b"k")[0], 1);
}

/// From here on the server logs what it is called with.
fn log_calls(server: &RedisServer) {
    // Each command of a script is in the log, too.
    for (name, value) in [
        ("slowlog-max-len", "100000"),
        ("slowlog-log-slower-than", "0"),
    ] {
        let set: String = ask(&mut connect(server), &["CONFIG", "SET", name, value]);
        assert_eq!(set, "OK");
    }
}

/// With how many keys each script of the log was called, the newest first. The whole script has five
/// at least.
fn keys_of_calls(server: &RedisServer) -> Vec<String> {
    let slow: Vec<Vec<redis::Value>> = ask(&mut connect(server), &["SLOWLOG", "GET", "-1"]);
    let called = slow.iter().filter_map(|entry| {
        let words: Vec<Vec<u8>> = redis::from_redis_value_ref(entry.get(3)?).ok()?;
        let is_call = words[0] == b"EVALSHA" || words[0] == b"FCALL";
        is_call.then(|| String::from_utf8_lossy(&words[2]).into_owned())
    });
    called.collect()
}

/// A spent grant is left to expire: one for each hundred decisions of a fleet.
#[test]
fn leases_that_are_left_to_expire_go_straight_too() {
    for usage in [None, Some(Span::from_secs(86_400))] {
        if let Some(server) = RedisServer::start() {
            leases_are_left_to_expire(&server, usage);
        }
    }
}

fn leases_are_left_to_expire(server: &RedisServer, usage: Option<Span>) {
    let store = open(server, Clock::Caller);
    let rules = [(0, hourly(1_000)), (0, rate(1, 1_000)), (0, slots(9))];
    let plan = Plan::clone(&plan(0, 1, &rules)).counting_usage(usage);
    let fixture = Fixture::at(&store, "t", Arc::new(plan), START);
    let keys = if usage.is_some() { "6" } else { "4" };
    let one = || {
        fixture.set_now(fixture.now() + Span::from_micros(300));
        assert!(fixture.lease(b"k", &[1, 1, 1], 1_000).verdict.admitted());
    };
    (0..20).for_each(|_| one());
    log_calls(server);
    (0..100).for_each(|_| one());
    assert_eq!(keys_of_calls(server), vec![keys; 100]);
    // An end that is late finds it expired, and its slots and its part of the window are as the whole script has
    // them.
    let settled = fixture
        .end(b"k", 50, Ending::Settle(&[Some(3), Some(0), Some(1)]))
        .expect("remembered");
    assert!(settled.expired);
    assert_eq!(keys_of_calls(server), vec![keys; 101]);
    assert_eq!(fixture.left(b"k")[0], 1_000 - 122);
    let used = |hours| {
        let listing = fixture.listing(Select::All, 1_000, None);
        let page = fixture.table.list_usage(&listing, hours).expect("a page");
        page.items.iter().map(|used| used.amount).sum::<u64>()
    };
    // Of the window and of the bucket, as they were taken and ended.
    let counted = usage.map_or(0, |_| 122 + 119);
    assert_eq!(used(Hours::ALL), counted);
    // What was reset since gives nothing back to what comes after.
    fixture.execute(b"k", Verb::Reset).expect("a reset");
    (0..20).for_each(|_| one());
    fixture.end(b"k", 60, Ending::Cancel).expect("remembered");
    fixture.end(b"k", 130, Ending::Cancel).expect("remembered");
    assert_eq!(fixture.left(b"k")[0], 1_000 - 19);
    // All are forgotten in the end, some with each take.
    fixture.set_now(fixture.now() + KEEP);
    (0..100).for_each(|_| one());
    let known: i64 = ask(&mut connect(server), &["HLEN", "{tidegate:t:k}:b"]);
    assert!(known <= 101, "{known}");
    let late = fixture.end(b"k", 70, Ending::Release);
    assert!(late.is_err(), "{late:?}");
}

/// How much a take of `amounts`, of `least` at least, has taken.
fn partly(fixture: &Fixture, id: u128, amounts: [u64; 3], least: [u64; 3]) -> Vec<u64> {
    let terms = Terms {
        id,
        expires_at: fixture.now() + Span::from_secs(600),
        idempotency: None,
        least: Some(&least),
    };
    let verb = Verb::Take {
        amounts: &amounts,
        lease: Some(terms),
        detail: Detail::Always,
    };
    match fixture.execute(b"k", verb) {
        Ok(Reply::Partial(partial)) => {
            assert_eq!(partial.decision.lease.map(|lease| lease.id), Some(id));
            partial.amounts.to_vec()
        }
        other => panic!("{other:?}"),
    }
}
