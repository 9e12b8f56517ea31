//! Answers that are faster or slower by chance, by up to 20 and 50 % of their time: for how long it may
//! be, each limit stays where it was.

use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate::adaptive::Estimator;

use super::callers::{Callers, SERVED};

const NOISES: [f64; 3] = [0.0, 0.2, 0.5];

/// The limits of so many seconds, from the two hundredth on.
fn limits(estimator: Estimator, noise: f64, seconds: u64) -> Vec<u64> {
    let mut callers = Callers::begin(estimator, &[(seconds, SERVED)], noise, 1);
    callers.pass(200);
    callers.pass(seconds).limits
}

fn mean(limits: &[u64]) -> f64 {
    limits.iter().sum::<u64>() as f64 / limits.len() as f64
}

/// Whatever it is, it is no longer one later than sooner.
fn stays(estimator: fn() -> Estimator, noise: f64, expected: RangeInclusive<u64>) -> f64 {
    let limits = limits(estimator(), noise, 1_200);
    let outside = limits.iter().find(|limit| !expected.contains(limit));
    assert_eq!(outside, None, "noise {noise}");
    let (first, last) = (mean(&limits[..400]), mean(&limits[800..]));
    assert!(
        (first - last).abs() < 0.2 * first,
        "{first}, {last} in the end"
    );
    mean(&limits)
}

/// Around the 32 streams that come at the provider's pace.
#[test]
fn guarded_vegas_stays_around_what_is_served() {
    for noise in NOISES {
        let mean = stays(Estimator::guarded_vegas, noise, 15..=45);
        assert!((28.0..=40.0).contains(&mean), "{mean} at {noise}");
    }
}

#[test]
fn aimd_stays_around_its_timeout() {
    for noise in NOISES {
        let aimd = || Estimator::aimd(Duration::from_millis(250));
        let mean = stays(aimd, noise, 60..=130);
        assert!((70.0..=115.0).contains(&mean), "{mean} at {noise}");
    }
}

/// The shortest of answers that differ is too short, and its limit too low: never too high.
#[test]
fn vegas_is_lower_the_more_answers_differ() {
    let means = NOISES.map(|noise| stays(Estimator::vegas, noise, 1..=76));
    assert!(means.is_sorted_by(|a, b| a > b), "{means:?}");
    assert!(means[2] > 5.0, "{means:?}");
}

/// Whatever the provider serves: of all of them it alone needs a maximum that this survives.
#[test]
fn gradient2_goes_to_its_maximum_and_no_further() {
    for noise in NOISES {
        let estimator = Estimator::gradient2().within(1..=100).expect("a range");
        let limits = limits(estimator, noise, 800);
        assert!(limits.iter().all(|limit| *limit <= 100));
        assert!(
            mean(&limits[700..]) > 90.0,
            "noise {noise}: {}",
            mean(&limits[700..])
        );
    }
}
