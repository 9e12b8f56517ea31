//! Signals that vary by chance, by 0, 2 and 10 % of themselves.

use std::time::Duration;

use tidegate::adaptive::Estimator;

use crate::server::{Run, SERVER};

const NOISES: [f64; 3] = [0.0, 0.02, 0.1];
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

fn wide(estimator: Estimator) -> Estimator {
    estimator.within(1..=1_000).expect("a range")
}

fn mean(limits: &[u64]) -> f64 {
    limits.iter().sum::<u64>() as f64 / limits.len() as f64
}

/// Around what the server serves with a short queue, and no longer one later than sooner.
/// failsafe-go's limiter is within 13 to 70 there, 42 to 44 in the mean.
#[test]
fn guarded_vegas_stays_around_what_is_served() {
    for (noise, least, most) in [(0.0, 55, 55), (0.02, 40, 62), (0.1, 30, 80)] {
        for seed in SEEDS {
            let mut run = Run::windows(wide(Estimator::guarded_vegas()), noise, seed);
            run.limits(100, SERVER);
            let limits = run.limits(20_000, SERVER);
            let outside = limits.iter().find(|limit| !(least..=most).contains(*limit));
            assert_eq!(outside, None, "noise {noise}, seed {seed}");
            let (all, last) = (mean(&limits), mean(&limits[15_000..]));
            assert!(
                (46.0..=56.0).contains(&all),
                "{all} at {noise}, seed {seed}"
            );
            assert!((all - last).abs() < 4.0, "{all}, {last} in the end");
        }
    }
}

/// Noise makes its shortest signal too short and its limit too low, never too high.
#[test]
fn vegas_is_lower_the_more_noise_there_is() {
    for seed in SEEDS {
        let means = NOISES.map(|noise| {
            let mut run = Run::samples(wide(Estimator::vegas()), noise, seed);
            run.limits(100, SERVER);
            let limits = run.limits(20_000, SERVER);
            assert!(limits.iter().all(|limit| *limit <= 70), "noise {noise}");
            mean(&limits)
        });
        assert!(means.is_sorted_by(|a, b| a > b), "{means:?}");
        assert!(means[2] > 10.0, "{means:?}");
    }
}

#[test]
fn aimd_stays_below_its_timeout() {
    for seed in SEEDS {
        for noise in NOISES {
            let estimator = wide(Estimator::aimd(Duration::from_millis(15)));
            let mut run = Run::samples(estimator, noise, seed);
            run.limits(100, SERVER);
            let limits = run.limits(20_000, SERVER);
            assert!(limits.iter().all(|limit| (40..=95).contains(limit)));
        }
    }
}

#[test]
fn gradient2_stays_within_its_maximum() {
    for seed in SEEDS {
        for noise in NOISES {
            let mut run = Run::windows(Estimator::gradient2(), noise, seed);
            let limits = run.limits(3_000, SERVER);
            assert!(limits.iter().all(|limit| *limit <= 200));
            assert!(mean(&limits[2_000..]) > 190.0);
        }
    }
}
