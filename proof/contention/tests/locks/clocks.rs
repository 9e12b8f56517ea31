//! A client whose clock is an hour off: the server's clock decides when a slot is free,
//! and how long it is held.

use std::time::Duration;

use tidegate::lock::LeasedSemaphore;
use tidegate::{Clock, Timestamp};
use tidegate_conformance::WrongClock;
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_store::core::Span;

use crate::holder::Holder;
use crate::holders::{LATE, acquire};
use crate::servers::{Server, on_each, process, semaphore};

/// How long the process whose clock is off has what it holds, unless it renews it: for
/// longer than a loaded machine keeps it from doing so.
const TTL: Duration = Duration::from_secs(6);

/// How long another holds what it waits for.
const BRIEF: Duration = Duration::from_secs(1);

/// So far is a process from DynamoDB's time at most.
const APART: Span = Span::from_secs(2);

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_client_whose_clock_is_an_hour_off_waits_holds_renews_and_releases_by_the_servers() {
    let Some(wrong) = WrongClock::find() else {
        return;
    };
    on_each(|server| {
        std::thread::scope(|scope| {
            for by in ["+1h", "-1h"] {
                let (server, wrong) = (&*server, &wrong);
                scope.spawn(move || goes_by_the_servers(server, wrong, by));
            }
        });
    });
}

/// A slot for each, under a key of its own.
fn goes_by_the_servers(server: &Server, wrong: &WrongClock, by: &str) {
    let url = server.url();
    let mut process = process("hold", &url, 1, TTL);
    wrong.set(process.arg(format!("--key={by}")), by);
    let mut off = Holder::spawn(process);
    is_an_hour_off(&mut off, by);
    let [brief, right] = [BRIEF, TTL].map(|ttl| semaphore(&url, 1, ttl).of(by));
    let begun = waits_until_the_slot_is_free(&mut off, &brief);
    // It renews, and another who waits for longer than a ttl does not get it.
    let longer = TTL + TTL / 4;
    let got = right.acquire_within(longer).wait().expect("an answer");
    assert!(got.is_none(), "{url} {by}: taken from who renews it");
    assert_eq!(off.ask("sure"), "true", "{url} {by}");
    assert_eq!(off.ask("release"), "Some(Ok(()))", "{url} {by}");
    let next = acquire(&right);
    assert!(next.fence() >= begun + longer.as_micros() as u64);
    println!("{url} {by}: held for as long as it was renewed");
    off.kill();
}

/// By the clock of this process, which is right.
fn is_an_hour_off(off: &mut Holder, by: &str) {
    let its: i64 = off.ask("time").parse().expect("microseconds");
    let (its, right) = (Timestamp::from_micros(its), Clock::system().now());
    let (earlier, later) = if by == "+1h" {
        (right, its)
    } else {
        (its, right)
    };
    let off = later.since(earlier).as_duration();
    assert!(off > HOUR * 9 / 10 && off < HOUR * 11 / 10, "{by}: {off:?}");
}

/// By the server's clock: a fence is the microsecond of its grant. Answers its fence.
fn waits_until_the_slot_is_free(off: &mut Holder, brief: &LeasedSemaphore) -> u64 {
    let left = acquire(brief);
    let free_at = left.fence() + BRIEF.as_micros() as u64;
    left.detach();
    let granted: u64 = off.ask("acquire").parse().expect("a fence");
    assert!(granted >= free_at, "granted before it was free");
    let waited_in_vain = Duration::from_micros(granted - free_at);
    assert!(waited_in_vain <= LATE, "{waited_in_vain:?}");
    granted
}

/// Of a store that has no server's clock: its processes are brought together by the first
/// answer, before anything is decided. A fence is the microsecond of its grant.
#[test]
fn a_process_whose_clock_is_an_hour_off_decides_within_two_seconds_of_dynamodbs() {
    let (Some(wrong), Some(server)) = (WrongClock::find(), DynamodbServer::start()) else {
        return;
    };
    for by in ["+1h", "-1h"] {
        let mut process = process("hold", &server.url(), 1, TTL);
        wrong.set(process.arg(format!("--key={by}")), by);
        let mut off = Holder::spawn(process);
        is_an_hour_off(&mut off, by);
        let before = Clock::system().now();
        let granted: i64 = off.ask("acquire").parse().expect("a fence");
        let (granted, after) = (Timestamp::from_micros(granted), Clock::system().now());
        assert!(before.since(granted) <= APART, "{by}: {granted:?} is early");
        assert!(granted.since(after) <= APART, "{by}: {granted:?} is late");
        off.kill();
    }
}
