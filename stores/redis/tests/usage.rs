//! What was used, as it is listed while the server's own table changes, or has lost some of it.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::{Connection, Value};
use support::{Fixture, KEEP, SECOND, ask, connect, hourly, limit, machine_time, open, rate};
use tidegate_conformance::TableExt;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::Clock;
use tidegate_store::core::{Rule, Span};
use tidegate_store::{Ending, Hours, Plan, PlanLimit, Select, Usage};

const ROOTS: usize = 600;

/// So many other keys that the server's table has buckets to spare once they are gone.
const OTHERS: usize = 30_000;

/// A process whose plan counts what is used.
fn counting(server: &RedisServer) -> Fixture {
    counting_for(server, Clock::Server, 48)
}

/// The same, kept for so many hours.
fn counting_for(server: &RedisServer, clock: Clock, hours: u64) -> Fixture {
    counting_by(server, clock, hours, false)
}

/// One whose keys have so many levels.
fn counting_at(server: &RedisServer, levels: usize) -> Fixture {
    counting_of(server, Clock::Server, (levels, 48), false)
}

/// The same; `refunds`: what a lease took comes back as it expires.
fn counting_by(server: &RedisServer, clock: Clock, hours: u64, refunds: bool) -> Fixture {
    counting_of(server, clock, (1, hours), refunds)
}

fn counting_of(
    server: &RedisServer,
    clock: Clock,
    (levels, hours): (usize, u64),
    refunds: bool,
) -> Fixture {
    counting_by_rule(server, clock, (levels, hours), (hourly(1_000), refunds))
}

fn counting_by_rule(
    server: &RedisServer,
    clock: Clock,
    (levels, hours): (usize, u64),
    (rule, refunds): (Rule, bool),
) -> Fixture {
    let limit = PlanLimit {
        refund_on_expiry: refunds,
        ..limit("calls", 0, levels - 1, rule)
    };
    let plan = Plan::new(0, levels, vec![limit], KEEP);
    let plan = plan.counting_usage(Some(Span::from_micros(hours * 3_600 * SECOND)));
    let store = open(server, clock);
    Fixture::at(&store, "t", Arc::new(plan), machine_time())
}

/// All that is listed, in pages of `most`; `between` is called with the number of each.
fn listed(fixture: &Fixture, most: usize, mut between: impl FnMut(usize)) -> Vec<Usage> {
    let (mut all, mut after, mut pages) = (Vec::new(), None::<Vec<u8>>, 0);
    loop {
        let listing = fixture.listing(Select::All, most, after.as_deref());
        let page = fixture.table.list_usage(&listing, Hours::ALL);
        let page = page.expect("a page");
        all.extend(page.items);
        between(pages);
        pages += 1;
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

fn eval(connection: &mut Connection, script: &str) {
    let _: Value = ask(connection, &["EVAL", script, "0"]);
}

/// What the server's table of keys takes.
fn table_size(connection: &mut Connection) -> String {
    let stats: Value = ask(connection, &["MEMORY", "STATS"]);
    let stats = format!("{stats:?}");
    let (_, behind) = stats.split_once("overhead.hashtable.main").expect("a size");
    behind.chars().take(24).collect()
}

/// The keys of all that is listed, in pages of `most`.
fn keys(fixture: &Fixture, most: usize) -> Vec<String> {
    let told = listed(fixture, most, |_| {}).into_iter();
    told.map(|used| String::from_utf8_lossy(used.key.bytes()).into_owned())
        .collect()
}

/// Sums are made of it: the server's own table shrank between two pages, and a record came again.
#[test]
fn each_record_is_listed_once_while_the_server_s_own_table_shrinks() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let fixture = counting(&server);
    let mut connection = connect(&server);
    for n in 0..ROOTS {
        assert!(fixture.admits(format!("key {n}").as_bytes(), &[1]));
    }
    // The first listing makes a record of each.
    assert_eq!(listed(&fixture, 1_000, |_| {}).len(), ROOTS);
    let small = table_size(&mut connection);
    let told = listed(&fixture, 20, |page| {
        if page % 2 == 0 {
            let others = "redis.call('SET', 'other ' .. i, '1')";
            eval(
                &mut connection,
                &format!("for i = 1, {OTHERS} do {others} end"),
            );
            return;
        }
        let others = "redis.call('DEL', 'other ' .. i)";
        eval(
            &mut connection,
            &format!("for i = 1, {OTHERS} do {others} end"),
        );
        // It shrinks in its own time.
        for _ in 0..40 {
            if table_size(&mut connection) == small {
                break;
            }
            let _: Value = ask(&mut connection, &["BLPOP", "nothing", "0.05"]);
        }
    });
    let once: BTreeSet<_> = told.iter().map(|used| used.key.bytes()).collect();
    assert_eq!((told.len(), once.len()), (ROOTS, ROOTS));
    assert!(told.iter().all(|used| used.amount == 1));
}

/// The order of roots is made anew of when each was entered, or the other way round, by the
/// listing that finds one of them gone. Where all is lost, what is used from then on is listed.
#[test]
fn usage_is_listed_whichever_of_its_keys_the_server_has_dropped() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let fixture = counting(&server);
    let mut connection = connect(&server);
    let keys = || keys(&fixture, 2).join(" ");
    for key in [b"a", b"b", b"c"] {
        assert!(fixture.admits(key, &[1]));
    }
    assert_eq!(keys(), "a b c");
    for dropped in ["{tidegate:t}:used", "{tidegate:t}:used:until"] {
        let gone: i64 = ask(&mut connection, &["DEL", dropped]);
        assert_eq!(gone, 1, "{dropped} was there");
        assert_eq!(keys(), "a b c", "without {dropped}");
        let left: i64 = ask(&mut connection, &["PTTL", dropped]);
        assert!(left > 0, "{dropped} stays for good");
    }
    let _: Value = ask(&mut connection, &["FLUSHALL"]);
    // Who uses it finds within a second that the plans are lost, and begins anew.
    while keys().is_empty() {
        assert!(fixture.admits(b"d", &[1]));
        let _: Value = ask(&mut connection, &["BLPOP", "nothing", "0.05"]);
    }
    assert_eq!(keys(), "d");
}

/// An order took as much memory as the records, and a third of the time of a first one, for roots
/// that have a few each.
#[test]
fn few_records_of_a_root_are_in_no_order_and_many_are() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let fixture = counting_at(&server, 2);
    let mut connection = connect(&server);
    let order = "{tidegate:t:a}:h";
    let mut in_order = || ask::<i64>(&mut connection, &["ZCARD", order]);
    let names = |users: u64| {
        (0..users)
            .map(|user| format!("a/{user:03}"))
            .collect::<Vec<_>>()
    };
    let admit = |users: std::ops::Range<u64>| {
        for user in users {
            assert!(fixture.admits(format!("a/{user:03}").as_bytes(), &[1]));
        }
    };
    let of = |most| {
        let all = listed(&fixture, most, |_| {});
        let keys = all
            .iter()
            .map(|used| String::from_utf8_lossy(used.key.bytes()).into_owned());
        keys.collect::<Vec<_>>()
    };
    admit(0..64);
    assert_eq!((of(7), of(1_000)), (names(64), names(64)));
    assert_eq!(in_order(), 0);
    admit(64..70);
    assert_eq!(in_order(), 70);
    assert_eq!((of(7), of(1_000)), (names(70), names(70)));
    admit(70..72);
    assert_eq!(in_order(), 72);
    // One that the server has dropped is made anew by who lists, and goes with the records.
    let gone: i64 = ask(&mut connect(&server), &["DEL", order]);
    assert_eq!((gone, of(7)), (1, names(72)));
    assert_eq!(in_order(), 72);
    let left: i64 = ask(&mut connect(&server), &["PTTL", order]);
    assert!(left > 0, "it stays for good");
}

/// What `lua/hours.lua` does, by a clock that is told: `now`, in the hour `hour`, with `keep` of an hour.
/// `add(of, at)` adds to the record of an hour at an instant.
fn told(server: &RedisServer, script: &str) -> Vec<i64> {
    let script = [
        include_str!("../lua/hours.lua"),
        "local HOUR = 3600000000
         local now = redis.call('TIME')[1] * 1000000
         local hour, keep = usage.hour_of(now), HOUR
         local function add(of, at)
           local field = struct.pack('>I4', of) .. 'key and limit'
           local is_new = usage.add(KEYS[1], field, 5)
           if is_new then usage.keep(KEYS[1], KEYS[2], { field }, of, keep, at, false) end
         end\n",
        script,
    ];
    ask(
        &mut connect(server),
        &["EVAL", &script.concat(), "2", "u", "h"],
    )
}

/// A lease of an hour ago that is settled notes more in that hour, which is over before the others.
#[test]
fn records_are_kept_for_as_long_as_the_last_of_them_though_an_earlier_one_is_new() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let script = "add(hour + 2, now + 2 * HOUR)
        add(hour + 1, now + 2 * HOUR)
        return { redis.call('HLEN', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1]), (hour + 4) * 3600000 }";
    let [records, until, over_at] = told(&server, script)[..] else {
        panic!("three numbers");
    };
    assert_eq!((records, until), (3, over_at));
}

/// Those that are over stayed for as long as there were few.
#[test]
fn few_records_that_are_over_are_dropped_too() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let script = "local most = 0
        for i = 0, 99 do
          add(hour + i, now + i * HOUR)
          most = math.max(most, redis.call('HLEN', KEYS[1]))
        end
        return { most, redis.call('EXISTS', KEYS[2]) }";
    assert_eq!(told(&server, script), [8, 0]);
}

/// An order that a server had kept without its records, or an older program had begun, was taken for that
/// of all: one record was not listed, and the others went with the last of those in it.
#[test]
fn an_order_that_is_not_of_all_records_is_made_anew() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let fixture = counting_at(&server, 2);
    let (records, order) = ("{tidegate:t:a}:u", "{tidegate:t:a}:h");
    let do_ask = |words: &[&str]| ask::<i64>(&mut connect(&server), words);
    let admit = |user: u64| assert!(fixture.admits(format!("a/{user:03}").as_bytes(), &[1]));
    let listed = || {
        let all = listed(&fixture, 7, |_| {});
        all.iter()
            .map(|used| String::from_utf8_lossy(used.key.bytes()).into_owned())
            .collect::<Vec<_>>()
    };
    let names =
        |users: std::ops::Range<u64>| users.map(|user| format!("a/{user:03}")).collect::<Vec<_>>();
    (0..66).for_each(admit);
    assert_eq!(
        (do_ask(&["ZCARD", order]), do_ask(&["DEL", records])),
        (66, 1)
    );
    (1..67).for_each(admit);
    assert_eq!(listed(), names(1..67));
    // One that is of some alone, as an older program makes it.
    assert_eq!(do_ask(&["DEL", records, order]), 2);
    (0..3).for_each(admit);
    assert_eq!(do_ask(&["ZADD", order, "0", "anything"]), 1);
    admit(3);
    assert_eq!(do_ask(&["EXISTS", order]), 0);
    assert_eq!(listed(), names(0..4));
}

/// Who was not the first to find the plans lost went on for an hour as if all it had used was listed.
#[test]
fn after_a_loss_each_process_has_what_it_uses_listed() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let (first, second) = (counting(&server), counting(&server));
    let mut connection = connect(&server);
    let lists = |key: &str| keys(&first, 10).iter().any(|listed| listed == key);
    assert!(first.admits(b"a", &[1]) && second.admits(b"b", &[1]));
    assert!(lists("a") && lists("b"));
    let _: Value = ask(&mut connection, &["FLUSHALL"]);
    while !lists("a") {
        assert!(first.admits(b"a", &[1]));
        let _: Value = ask(&mut connection, &["BLPOP", "nothing", "0.05"]);
    }
    for _ in 0..600 {
        assert!(second.admits(b"b", &[1]));
        if lists("b") {
            return;
        }
        let _: Value = ask(&mut connection, &["BLPOP", "nothing", "0.05"]);
    }
    panic!("what the second uses is not listed");
}

/// The other's retention held for the order of all roots.
#[test]
fn a_root_is_listed_for_as_long_as_who_keeps_its_usage_longest() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let long = counting_for(&server, Clock::Caller, 400 * 24);
    let short = counting_for(&server, Clock::Caller, 1);
    assert!(long.admits(b"a", &[1]));
    for fixture in [&long, &short] {
        fixture.set_now(fixture.now() + Span::from_micros(4 * 86_400 * SECOND));
    }
    assert!(short.admits(b"b", &[1]));
    assert_eq!(keys(&long, 10), ["a", "b"]);
}

/// Roots that are over go as others are entered, new or not: else each of them is asked for, listing
/// by listing.
#[test]
fn roots_whose_records_are_over_go_while_others_are_used() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let fixture = counting_for(&server, Clock::Caller, 1);
    let mut connection = connect(&server);
    for n in 0..40 {
        assert!(fixture.admits(format!("key {n}").as_bytes(), &[1]));
    }
    let mut entered = |words: [&str; 2]| ask::<i64>(&mut connection, &words);
    assert_eq!(entered(["ZCARD", "{tidegate:t}:used"]), 40);
    fixture.set_now(fixture.now() + Span::from_micros(2 * 86_400 * SECOND));
    assert!(fixture.admits(b"key 0", &[1]));
    fixture.set_now(fixture.now() + Span::from_micros(86_400 * SECOND));
    for left in [8, 1] {
        assert!(fixture.admits(b"key 0", &[1]));
        assert_eq!(entered(["ZCARD", "{tidegate:t}:used"]), left);
        assert_eq!(entered(["ZCARD", "{tidegate:t}:used:until"]), left);
        fixture.set_now(fixture.now() + Span::from_micros(7_200 * SECOND));
    }
}

/// The root was not entered where the connection was lost between that and the use.
#[test]
fn what_is_used_as_a_connection_is_lost_is_listed() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let fixture = counting(&server);
    let mut connection = connect(&server);
    assert!(fixture.admits(b"key", &[1]));
    let mut used = BTreeSet::from(["key".to_owned()]);
    for n in 0..100 {
        let _: Value = ask(&mut connection, &["CLIENT", "KILL", "SKIPME", "yes"]);
        let key = format!("key {n}");
        if fixture.take(key.as_bytes(), &[1]).is_ok() {
            used.insert(key);
        }
    }
    let told: BTreeSet<_> = keys(&fixture, 100).into_iter().collect();
    assert!(used.is_subset(&told), "{:?}", used.difference(&told));
}

/// What it gives back was noted by whatever asked for its root next, and by nothing that lists.
#[test]
fn what_an_expired_lease_gives_back_is_not_listed_as_used() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let fixture = counting_by(&server, Clock::Caller, 48, true);
    let amounts = |fixture: &Fixture| -> Vec<u64> {
        let told = listed(fixture, 2, |_| {}).into_iter();
        told.map(|used| used.amount).collect()
    };
    for key in [b"a", b"b", b"c"] {
        let lease = fixture.lease(key, &[5], SECOND).lease;
        assert!(lease.is_some());
    }
    assert!(fixture.admits(b"b", &[2]));
    assert_eq!(amounts(&fixture), [5, 7, 5]);
    fixture.set_now(fixture.now() + Span::from_micros(2 * SECOND));
    assert_eq!(amounts(&fixture), [2]);
}

/// A lease that nobody ended was forgotten while what it gave back was still to be noted.
#[test]
fn a_lease_is_known_for_as_long_as_what_it_gives_back_was_used() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let fixture = counting_by(&server, Clock::Server, 48, true);
    let mut connection = connect(&server);
    let mut kept = || -> i64 { ask(&mut connection, &["PTTL", "{tidegate:t:k}:b"]) };
    let lease = fixture.lease(b"k", &[5], SECOND).lease.expect("it fits");
    assert!(kept() > 48 * 3_600_000);
    let settled = Ending::Settle(&[Some(3)]);
    fixture.end(b"k", lease.id, settled).expect("held");
    assert!(kept() <= 48 * 3_600_000);
}

/// Until `is_so`, for a minute at most.
fn wait_until(connection: &mut Connection, mut is_so: impl FnMut(&mut Connection) -> bool) {
    for _ in 0..6_000 {
        if is_so(connection) {
            return;
        }
        let _: Value = ask(connection, &["BLPOP", "nothing", "0.01"]);
    }
    panic!("not in a minute");
}

fn is_there(connection: &mut Connection, name: &str) -> bool {
    ask::<i64>(connection, &["EXISTS", name]) == 1
}

const ROW: &str = "{tidegate:t:key 7}:r";

const RECORDS: &str = "{tidegate:t:key 7}:u";

/// It stays for what it has counted.
#[test]
fn a_drained_row_with_usage_is_neither_listed_nor_counted_as_a_key() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let fixture = counting_by_rule(&server, Clock::Server, (1, 48), (rate(1_000, 9), false));
    let mut connection = connect(&server);
    for n in 0..300 {
        let key = format!("key {n}");
        assert!(fixture.admits(key.as_bytes(), &[1]) && fixture.admits(key.as_bytes(), &[2]));
    }
    wait_until(&mut connection, |_| {
        let listing = fixture.listing(Select::All, 1_000, None);
        let page = fixture.table.list_keys(&listing).expect("a page");
        page.items.is_empty()
    });
    let count = fixture.table.count(fixture.now()).expect("a count");
    assert_eq!(count.keys, 0);
    assert!(is_there(&mut connection, ROW) && !is_there(&mut connection, RECORDS));
    for most in [7, 1_000] {
        let told = listed(&fixture, most, |_| {});
        assert!(told.iter().all(|used| used.amount == 3), "{told:?}");
        assert_eq!(told.len(), 300);
    }
    assert!(is_there(&mut connection, RECORDS));
    wait_until(&mut connection, |connection| !is_there(connection, ROW));
}

/// Of several limits and of leases, too; and the row goes on as it was.
#[test]
fn a_listing_moves_what_a_row_has_counted_to_the_records_once() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let named = |(uid, name)| limit(name, uid, 0, rate(1, 1_000_000));
    let limits = [(0, "calls"), (1, "tokens")].map(named);
    let plan = Plan::new(0, 1, limits.to_vec(), KEEP);
    let plan = plan.counting_usage(Some(Span::from_micros(3_600 * SECOND)));
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", Arc::new(plan), machine_time());
    let mut connection = connect(&server);
    let sum = |fixture: &Fixture| {
        let told = listed(fixture, 9, |_| {}).into_iter();
        told.map(|used| used.amount).sum::<u64>()
    };
    let mut lease = None;
    for n in 1..=4 {
        assert!(fixture.admits(b"key 7", &[1, 10_000]));
        let granted = fixture.lease(b"key 7", &[1, 20_000], 600 * SECOND).lease;
        if let Some(id) = lease.replace(granted.expect("it is free").id) {
            let used = Ending::Settle(&[None, Some(5_000)]);
            fixture.end(b"key 7", id, used).expect("it is held");
        }
        let expected = 2 * n + 10_000 * n + 20_000 + 5_000 * (n - 1);
        assert_eq!((sum(&fixture), sum(&fixture)), (expected, expected));
        assert!(is_there(&mut connection, ROW) && is_there(&mut connection, RECORDS));
    }
    let drained = 1_000_000 - fixture.left(b"key 7")[1];
    assert!((74_000..=75_000).contains(&drained), "{drained}");
}

/// They went when the older plan would have dropped them, with what was used by the newer.
#[test]
fn records_are_kept_for_as_long_as_the_newer_plan_says() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let keeping = |hours| {
        let rule = (rate(1, 1_000_000), false);
        counting_by_rule(&server, Clock::Server, (1, hours), rule)
    };
    let mut connection = connect(&server);
    let mut hours_left = || ask::<i64>(&mut connection, &["PTTL", RECORDS]) / 3_600_000;
    let short = keeping(1);
    assert!(short.admits(b"key 7", &[500_000]));
    assert_eq!(listed(&short, 9, |_| {}).len(), 1);
    assert!((1..=2).contains(&hours_left()));
    assert!(short.admits(b"key 7", &[1]));
    let long = keeping(48);
    assert!(long.admits(b"key 7", &[1]));
    assert!((48..=49).contains(&hours_left()));
    assert_eq!(listed(&long, 9, |_| {})[0].amount, 500_002);
}

/// What it moved was dropped, or the records swept, by its own retention.
#[test]
fn a_listing_by_an_older_plan_drops_nothing_that_a_newer_one_keeps() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let keeping = |hours| {
        let rule = (rate(1, 1_000_000), false);
        counting_by_rule(&server, Clock::Caller, (1, hours), rule)
    };
    let (short, long) = (keeping(1), keeping(400 * 24));
    let pass = |hours: u64| {
        for fixture in [&long, &short] {
            fixture.set_now(fixture.now() + Span::from_micros(hours * 3_600 * SECOND));
        }
    };
    let told = || {
        let told = listed(&long, 100, |_| {}).into_iter();
        told.map(|used| used.amount).collect::<Vec<_>>()
    };
    assert!(long.admits(b"key 7", &[500]));
    pass(3);
    assert_eq!(listed(&short, 9, |_| {}), []);
    assert_eq!(told(), [500]);
    // Each but the last of them is a record; the eighth is one at which those that are over go.
    for _ in 0..7 {
        assert!(long.admits(b"key 7", &[100]));
        pass(1);
    }
    assert!(long.admits(b"key 7", &[5]));
    assert_eq!(listed(&short, 9, |_| {}).len(), 2);
    assert_eq!(told(), [500, 100, 100, 100, 100, 100, 100, 100, 5]);
}

/// The order went three days after it was made, by the retention of then.
#[test]
fn the_order_of_roots_is_kept_for_as_long_as_the_newer_plan_says() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let mut connection = connect(&server);
    let mut days_left = |name| ask::<i64>(&mut connection, &["PTTL", name]) / 86_400_000;
    let mut fixture = counting_for(&server, Clock::Server, 1);
    assert!(fixture.admits(b"a", &[1]));
    assert!(days_left("{tidegate:t}:used") < 5);
    let plan = Plan::new(1, 1, fixture.plan.limits().to_vec(), KEEP);
    let plan = plan.counting_usage(Some(Span::from_micros(400 * 86_400 * SECOND)));
    fixture.plan = Arc::new(plan);
    fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    assert!(fixture.admits(b"b", &[1]));
    assert!(days_left("{tidegate:t}:used") >= 402);
    assert!(days_left("{tidegate:t}:used:until") >= 402);
}

/// A row of which nothing of the hour is counted, as after a lease of the hour before, is kept for its
/// limits alone; and was for no longer once something was.
#[test]
fn what_is_used_of_a_row_that_had_counted_nothing_is_kept_as_all_usage() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let rule = (rate(100, 1_000), false);
    let fixture = counting_by_rule(&server, Clock::Server, (1, 48), rule);
    assert!(fixture.admits(b"key 7", &[400]));
    let mut connection = connect(&server);
    let nothing = "local row = redis.call('GET', KEYS[1])
        local format = '<BBdddBddddI4ddd'
        local numbers = { struct.unpack(format, row) }
        local rest = string.sub(row, numbers[15])
        numbers[5], numbers[14] = numbers[13] + 1000000, 0
        row = struct.pack(format, unpack(numbers, 1, 14)) .. rest
        redis.call('SET', KEYS[1], row, 'PXAT', math.ceil(numbers[5] / 1000))";
    let _: Value = ask(&mut connection, &["EVAL", nothing, "1", ROW]);
    let mut left = || ask::<i64>(&mut connection, &["PTTL", ROW]);
    assert!((1..10_000).contains(&left()));
    assert!(fixture.admits(b"key 7", &[4]));
    assert!(left() > 47 * 3_600_000);
    assert_eq!(listed(&fixture, 9, |_| {})[0].amount, 4);
}

/// A listing had the records kept for as long as they were before, and its next one again.
#[test]
fn a_shorter_retention_holds_though_usage_is_listed_every_hour() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let keeping = |hours| {
        let rule = (rate(1_000, 1_000_000), false);
        counting_by_rule(&server, Clock::Caller, (1, hours), rule)
    };
    let (long, short) = (keeping(400 * 24), keeping(1));
    assert!(long.admits(b"key 7", &[5]));
    assert_eq!(listed(&long, 9, |_| {})[0].amount, 5);
    let mut connection = connect(&server);
    // As once it has drained, by the server's clock.
    assert_eq!(ask::<i64>(&mut connection, &["DEL", ROW]), 1);
    for _ in 0..40 {
        short.set_now(short.now() + Span::from_micros(3_600 * SECOND));
        assert!(short.admits(b"key 7", &[1]));
        assert!(!listed(&short, 9, |_| {}).is_empty());
    }
    let records: i64 = ask(&mut connection, &["HLEN", RECORDS]);
    assert!(records < 12, "{records}");
}
