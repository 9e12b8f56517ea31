//! A capacity or a latency that changes, while the server stays saturated.

use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate::adaptive::{Estimator, Sample};
use tidegate::{Outcome, Timestamp};

use crate::server::{Run, SERVER, Server};

const HALVED: Server = Server {
    slots: 25,
    ..SERVER
};
const DOUBLED: Server = Server {
    slots: 100,
    ..SERVER
};
const SLOWER: Server = Server {
    micros: 20_000.0,
    ..SERVER
};
const FASTER: Server = Server {
    micros: 5_000.0,
    ..SERVER
};
/// A slower one has five times the latency, at the same capacity.
const FAR: Server = Server {
    micros: 50_000.0,
    ..SERVER
};

fn wide(estimator: Estimator) -> Estimator {
    estimator.within(1..=1_000).expect("a range")
}

/// After `settle` windows of `SERVER` and as many of `next`, all limits of a thousand more
/// are within `expected`.
fn settles(mut run: Run, settle: usize, next: Server, expected: RangeInclusive<u64>) {
    run.limits(settle, SERVER);
    run.limits(settle, next);
    let limits = run.limits(1_000, next);
    let (least, most) = (limits.iter().min(), limits.iter().max());
    assert!(
        limits.iter().all(|limit| expected.contains(limit)),
        "{least:?} to {most:?}, not {expected:?}"
    );
}

/// A hundred windows, at a second each or more.
#[test]
fn guarded_vegas_follows_a_capacity_and_a_latency() {
    for seed in 1..=5 {
        for noise in [0.0, 0.02] {
            let run = || Run::windows(wide(Estimator::guarded_vegas()), noise, seed);
            settles(run(), 100, HALVED, 16..=35);
            settles(run(), 100, DOUBLED, 80..=125);
            settles(run(), 100, SLOWER, 40..=65);
            settles(run(), 100, FASTER, 40..=65);
            settles(run(), 100, FAR, 40..=65);
        }
        let run = || Run::windows(wide(Estimator::guarded_vegas()), 0.1, seed);
        settles(run(), 100, HALVED, 15..=45);
        settles(run(), 300, DOUBLED, 50..=150);
        settles(run(), 100, SLOWER, 30..=80);
        settles(run(), 300, FASTER, 30..=100);
    }
}

/// Before a queue becomes a time-out: ten windows after the capacity was halved it holds no
/// more than that takes with a short queue.
#[test]
fn guarded_vegas_comes_down_at_once() {
    for noise in [0.0, 0.02] {
        let mut run = Run::windows(Estimator::guarded_vegas(), noise, 1);
        run.limits(100, SERVER);
        let limits = run.limits(15, HALVED);
        assert!(limits[14] <= 30, "{limits:?}");
    }
}

/// It begins far above what the server serves, and so has never seen it without a queue; at
/// its maximum, where it cannot even move up to see what that does.
#[test]
fn guarded_vegas_finds_down_from_a_start_that_is_too_high() {
    for (slots, start, expected) in [(5, 20, 1..=15), (10, 20, 4..=20), (50, 200, 40..=62)] {
        for noise in [0.0, 0.02] {
            let server = Server { slots, ..SERVER };
            let estimator = Estimator::guarded_vegas().starting_at(start);
            let mut run = Run::windows(estimator, noise, 1);
            run.limits(300, server);
            let limits = run.limits(3_000, server);
            let outside = limits.iter().find(|limit| !expected.contains(*limit));
            assert_eq!(outside, None, "{slots} slots, noise {noise}");
            let served: u64 = limits.iter().map(|limit| *limit.min(&slots)).sum();
            assert!(served * 10 > slots * 3_000 * 9, "{slots} slots: {served}");
        }
    }
}

/// Within one interval of its probes.
#[test]
fn vegas_follows_a_capacity_and_a_latency() {
    let run = || Run::samples(wide(Estimator::vegas()), 0.0, 1);
    // While it probes it is at half of it.
    settles(run(), 3_000, HALVED, 15..=31);
    settles(run(), 4_000, DOUBLED, 53..=106);
    settles(run(), 3_000, SLOWER, 28..=56);
    settles(run(), 3_000, FASTER, 28..=57);
}

/// It follows its time-out: 50 slots of 10 ms serve 125 in 25 ms.
#[test]
fn aimd_follows_what_is_served_within_its_timeout() {
    let timeout = Duration::from_millis(25);
    let run = || Run::samples(wide(Estimator::aimd(timeout)), 0.0, 1);
    settles(run(), 2_000, SERVER, 112..=126);
    settles(run(), 2_000, HALVED, 55..=63);
    settles(run(), 2_000, DOUBLED, 224..=251);
    settles(run(), 2_000, SLOWER, 55..=63);
    settles(run(), 2_000, FASTER, 224..=251);
}

/// A long average finds a step down for a while, and then takes it for normal.
#[test]
fn gradient2_comes_down_and_goes_back_to_its_maximum() {
    for next in [HALVED, SLOWER] {
        let mut run = Run::windows(Estimator::gradient2(), 0.0, 1);
        run.limits(1_000, SERVER);
        let limits = run.limits(2_000, next);
        assert!(limits[10] < 160, "{}", limits[10]);
        assert_eq!(limits[1_999], 200);
    }
    for next in [DOUBLED, FASTER] {
        let run = Run::windows(Estimator::gradient2(), 0.0, 1);
        settles(run, 1_000, next, 200..=200);
    }
}

/// Windows were thrown away for ever in which few calls ended.
#[test]
fn a_limit_moves_also_where_calls_are_so_long_that_few_end() {
    for (mut estimator, in_flight) in [
        (Estimator::guarded_vegas(), 20),
        (Estimator::guarded_vegas().starting_at(1), 1),
    ] {
        let before = estimator.limit();
        for nth in 0..200 {
            estimator.observe(&Sample {
                at: Timestamp::from_micros((1 << 50) + nth * 5_000_000),
                signal: Duration::from_secs(90),
                in_flight,
                outcome: Outcome::Succeeded,
            });
        }
        assert!(estimator.limit() > before, "{estimator:?}");
    }
}
