//! A hot key past what a partition of DynamoDB's takes: six sets, each on a store of its own, under more
//! demand than there is, in virtual time, with every request counted by a proxy.

mod support;

use std::time::Duration;

use support::counting::{Counting, Request};
use tidegate::{Algorithm, Limit, LimitSet, ManualClock, Tier};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_dynamodb::Clock;

/// What a partition takes in a second.
const UNITS_A_SECOND: f64 = 1_000.0;

/// What the limit admits in a second: twenty times that.
const CAPACITY: u64 = 20_000;

const SETS: usize = 6;
const BATCH: u64 = 500;
const SECONDS: u64 = 2;
const STEPS_A_SECOND: u64 = 100;

/// Half as much again as there is is asked for, the nth set for an nth of what the first is.
fn asked_of(set: usize) -> u64 {
    let weights: f64 = (1..=SETS).map(|set| 1.0 / set as f64).sum();
    let all = 1.5 * CAPACITY as f64 / STEPS_A_SECOND as f64;
    (all / weights / (set + 1) as f64) as u64
}

#[test]
fn a_hot_key_past_what_a_partition_takes_is_decided_by_grants_of_it() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let time = ManualClock::default();
    let sets: Vec<_> = (0..SETS)
        .map(|_| {
            let window = Limit::calls("calls", CAPACITY, Duration::from_secs(1));
            let set = LimitSet::builder()
                .name("hot")
                .store(support::table(support::TABLE, &endpoint, Clock::Caller))
                .clock(time.clock())
                .limit(window.algorithm(Algorithm::FixedWindow))
                .tier(Tier::leased(BATCH).hold(Duration::from_millis(250)));
            set.build().expect("a set")
        })
        .collect();
    proxy.forget();
    let mut admitted = Vec::new();
    for second in 0..SECONDS {
        let mut of_second = 0;
        for _ in 0..STEPS_A_SECOND {
            for (number, set) in sets.iter().enumerate() {
                for _ in 0..asked_of(number) {
                    let decision = set.check("k", 1).wait().expect("an answer");
                    of_second += u64::from(decision.admitted());
                }
            }
            time.advance(Duration::from_micros(1_000_000 / STEPS_A_SECOND));
        }
        println!("second {second}: {of_second} of {CAPACITY}");
        admitted.push(of_second);
    }
    let asked = proxy.asked();
    let units: f64 = asked
        .iter()
        .filter(|asked| asked.is_write())
        .map(|asked| asked.units)
        .sum();
    let reads = asked
        .iter()
        .filter(|asked| !Request::is_write(asked))
        .count();
    println!(
        "{} requests, {reads} of them reads; {units} units written",
        asked.len()
    );
    for of_second in admitted {
        assert!(of_second <= CAPACITY, "never above the limit");
        assert!(of_second * 100 >= CAPACITY * 95, "{of_second}");
    }
    assert!(units / SECONDS as f64 <= UNITS_A_SECOND, "{units}");
}
