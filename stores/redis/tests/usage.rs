//! What was used, as it is listed while the server's own table changes, or has lost some of it.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::{Connection, Value};
use support::{Fixture, KEEP, SECOND, ask, connect, hourly, machine_time, open};
use tidegate_conformance::TableExt;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::Clock;
use tidegate_store::core::{Payment, Span};
use tidegate_store::{Hours, Listing, Plan, PlanLimit, Select, Usage};

const ROOTS: usize = 600;

/// So many other keys that the server's table has buckets to spare once they are gone.
const OTHERS: usize = 30_000;

/// A process whose plan counts what is used.
fn counting(server: &RedisServer) -> Fixture {
    let limit = PlanLimit {
        name: "calls".into(),
        uid: 0,
        rule: hourly(1_000),
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    };
    let plan = Plan::new(0, 1, vec![limit], KEEP);
    let plan = plan.counting_usage(Some(Span::from_micros(48 * 3_600 * SECOND)));
    let store = open(server, Clock::Server);
    Fixture::at(&store, "t", Arc::new(plan), machine_time())
}

/// All that is listed, in pages of `most`; `between` is called with the number of each.
fn listed(fixture: &Fixture, most: usize, mut between: impl FnMut(usize)) -> Vec<Usage> {
    let (mut all, mut after, mut pages) = (Vec::new(), None::<Vec<u8>>, 0);
    loop {
        let listing = Listing {
            select: Select::All,
            after: after.as_deref(),
            most,
            now: machine_time(),
            levels: 1,
        };
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
    let keys = || {
        let told = listed(&fixture, 2, |_| {}).into_iter();
        let keys = told.map(|used| String::from_utf8_lossy(used.key.bytes()).into_owned());
        keys.collect::<Vec<_>>().join(" ")
    };
    for key in [b"a", b"b", b"c"] {
        assert!(fixture.admits(key, &[1]));
    }
    assert_eq!(keys(), "a b c");
    for dropped in [
        "{tidegate:t}:used",
        "{tidegate:t}:used:since",
        "{tidegate:t:b}:h",
    ] {
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
    }
    assert_eq!(keys(), "d");
}
