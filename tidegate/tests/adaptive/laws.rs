//! Whatever the samples are.

use std::ops::RangeInclusive;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::adaptive::{Estimator, Sample};
use tidegate::{MAX_AMOUNT, Outcome, Timestamp};

fn estimators() -> impl Strategy<Value = Estimator> {
    let algorithm = prop_oneof![
        signals().prop_map(Estimator::aimd),
        Just(Estimator::vegas()),
        Just(Estimator::gradient2()),
        Just(Estimator::guarded_vegas()),
    ];
    (algorithm, ranges(), amounts()).prop_map(|(estimator, range, start)| {
        let ranged = estimator.within(range).expect("a range");
        ranged.starting_at(start)
    })
}

fn ranges() -> impl Strategy<Value = RangeInclusive<u64>> {
    let bound = || prop_oneof![1..=100_u64, 1..=MAX_AMOUNT];
    (bound(), bound()).prop_map(|(a, b)| a.min(b)..=a.max(b))
}

fn amounts() -> impl Strategy<Value = u64> {
    prop_oneof![0..=100_u64, any::<u64>()]
}

fn signals() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..10_000_000_u64).prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_micros),
    ]
}

/// Clocks that stand, that go on, and that jump.
fn instants() -> impl Strategy<Value = Vec<i64>> {
    let step = prop_oneof![Just(0), 0..5_000_000_i64, any::<i64>()];
    prop::collection::vec(step, 1..400).prop_map(|steps| {
        let mut at = 0_i64;
        let next = |step| {
            at = at.wrapping_add(step);
            at
        };
        steps.into_iter().map(next).collect()
    })
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let outcome = prop_oneof![
        6 => Just(Outcome::Succeeded),
        1 => Just(Outcome::Ignored),
        2 => Just(Outcome::Dropped),
    ];
    instants().prop_flat_map(move |instants| {
        let each = (signals(), amounts(), outcome.clone());
        prop::collection::vec(each, instants.len()).prop_map(move |rest| {
            let sample = |(at, (signal, in_flight, outcome)): (&i64, _)| Sample {
                at: Timestamp::from_micros(*at),
                signal,
                in_flight,
                outcome,
            };
            instants.iter().zip(rest).map(sample).collect()
        })
    })
}

/// The range of an estimator, as its debugging says it.
fn range_of(estimator: &Estimator) -> RangeInclusive<u64> {
    let lowest = estimator.clone().starting_at(0).limit();
    lowest..=estimator.clone().starting_at(u64::MAX).limit()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_limit_is_within_its_range_whatever_the_samples(
        mut estimator in estimators(),
        samples in samples(),
    ) {
        let range = range_of(&estimator);
        // Often enough for windows to fill.
        for sample in samples.iter().cycle().take(2_000) {
            let limit = estimator.observe(sample);
            prop_assert!(range.contains(&limit), "{limit} of {range:?}");
            prop_assert_eq!(limit, estimator.limit());
        }
    }

    #[test]
    fn the_same_samples_give_the_same_limits(
        mut estimator in estimators(),
        samples in samples(),
    ) {
        let mut other = estimator.clone();
        for sample in &samples {
            prop_assert_eq!(estimator.observe(sample), other.observe(sample));
        }
    }

    #[test]
    fn what_is_ignored_changes_nothing(
        mut estimator in estimators(),
        samples in samples(),
    ) {
        let mut without = estimator.clone();
        for sample in &samples {
            estimator.observe(&Sample { outcome: Outcome::Ignored, ..*sample });
            prop_assert_eq!(estimator.observe(sample), without.observe(sample));
        }
    }
}

/// A window that no time passes in never ends, and is no larger for it.
#[test]
fn while_the_clock_stands_a_window_goes_on() {
    for mut estimator in [Estimator::guarded_vegas(), Estimator::gradient2()] {
        for nth in 0..100_000 {
            let limit = estimator.observe(&Sample {
                at: Timestamp::from_micros(0),
                signal: Duration::from_micros(nth),
                in_flight: 20,
                outcome: Outcome::Succeeded,
            });
            assert_eq!(limit, 20);
        }
    }
}

#[test]
fn a_range_that_is_none_is_refused() {
    let within = |range| Estimator::default().within(range).map(|e| e.limit());
    assert_eq!(within(30..=40), Ok(30));
    assert_eq!(within(1..=MAX_AMOUNT), Ok(20));
    #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    let wrong = [0..=5, 6..=5, 1..=MAX_AMOUNT + 1, u64::MAX..=u64::MAX];
    let texts = wrong.map(|range| within(range).expect_err("no range").to_string());
    assert_eq!(texts[0], "minimum is 0; it must be 1 to 9007199254740991");
    assert_eq!(texts[1], "maximum is 5; it must be 6 to 9007199254740991");
}
