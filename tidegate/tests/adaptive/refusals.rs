//! Upstreams that refuse, and programs that ask for less than they may.

use std::time::Duration;

use tidegate::adaptive::{Estimator, Sample};
use tidegate::{Outcome, Timestamp};

/// Windows of 100 samples of an upstream that refuses what is beyond `slots` in flight, and
/// is as fast as ever; the limits after each.
fn refuses_beyond(estimator: &mut Estimator, slots: u64, windows: usize) -> Vec<u64> {
    let mut now = 0;
    let mut window = || {
        for nth in 0..100 {
            now += 11_000;
            let in_flight = estimator.limit();
            // Each of those in flight is refused as often, in no order.
            let is_refused = (nth * 37 % 100) * in_flight / 100 >= slots;
            estimator.observe(&Sample {
                at: Timestamp::from_micros(now),
                signal: Duration::from_millis(10),
                in_flight,
                outcome: match is_refused {
                    true => Outcome::Dropped,
                    false => Outcome::Succeeded,
                },
            });
        }
        estimator.limit()
    };
    (0..windows).map(|_| window()).collect()
}

#[test]
fn guarded_vegas_and_aimd_stay_near_where_an_upstream_refuses() {
    let aimd = Estimator::aimd(Duration::from_secs(1));
    for mut estimator in [Estimator::guarded_vegas(), aimd] {
        refuses_beyond(&mut estimator, 30, 100);
        let limits = refuses_beyond(&mut estimator, 30, 1_000);
        let most = limits.iter().max();
        assert!(most <= Some(&60), "{most:?} of {estimator:?}");
        let mean = limits.iter().sum::<u64>() / 1_000;
        assert!(
            (20..=40).contains(&mean),
            "{mean}, at most {most:?}, of {estimator:?}"
        );
    }
}

#[test]
fn guarded_vegas_is_not_moved_by_a_drop_in_a_hundred() {
    let mut estimator = Estimator::guarded_vegas().starting_at(40);
    let mut now = 0;
    for nth in 1..=10_000 {
        now += 11_000;
        estimator.observe(&Sample {
            at: Timestamp::from_micros(now),
            signal: Duration::from_millis(10),
            in_flight: estimator.limit(),
            outcome: match nth % 100 {
                0 => Outcome::Dropped,
                _ => Outcome::Succeeded,
            },
        });
    }
    assert_eq!(estimator.limit(), 200);
}

/// What is asked for says nothing of what could be served, whatever the latency does.
#[test]
fn a_limit_of_which_less_than_half_is_used_stays() {
    let aimd = Estimator::aimd(Duration::from_secs(60));
    let all = [
        Estimator::guarded_vegas(),
        Estimator::gradient2(),
        Estimator::vegas(),
        aimd,
    ];
    for mut estimator in all {
        for nth in 0..500 {
            estimator.observe(&Sample {
                at: Timestamp::from_micros(nth * 20_000),
                signal: Duration::from_millis(10 + nth as u64 % 7),
                in_flight: 9,
                outcome: Outcome::Succeeded,
            });
        }
        let limit = estimator.limit();
        // Vegas may be at half of it, to probe.
        assert!([20, 10].contains(&limit), "{limit} of {estimator:?}");
    }
}

/// As a test above found: drops were taken for old ones until the clock had caught up.
#[test]
fn after_a_step_back_of_the_clock_samples_count_from_there_on() {
    let aimd = Estimator::aimd(Duration::from_secs(1));
    for mut estimator in [Estimator::guarded_vegas(), Estimator::gradient2(), aimd] {
        let mut moved = |start: i64, signal, outcome| {
            let before = estimator.limit();
            for nth in 0..100 {
                estimator.observe(&Sample {
                    at: Timestamp::from_micros(start + nth * 25_000),
                    signal: Duration::from_millis(signal),
                    in_flight: estimator.limit(),
                    outcome,
                });
            }
            estimator.limit() != before
        };
        assert!(moved(1 << 50, 10, Outcome::Succeeded));
        assert!(moved(1 << 51, 10, Outcome::Dropped) | moved(1 << 51, 20, Outcome::Succeeded));
        assert!(moved(0, 900, Outcome::Dropped) | moved(0, 900, Outcome::Succeeded));
    }
}
