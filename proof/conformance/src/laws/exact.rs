//! What a bucket and a window admit, to the unit.

use std::sync::Arc;

use tidegate::Store;
use tidegate_core::{Bucket, Rule, Span};

use super::key::Key;
use super::kinds::Kind;
use super::past::wait;
use crate::rng::Rng;

/// Primes, for which nothing cancels: amount, period and burst.
const RATES: [[u64; 3]; 4] = [
    [7, 1_009, 11],
    [997, 999_983, 997],
    [104_729, 2_147_483_647, 5],
    [999_999_937, 1_000_003, 1_999_999_943],
];
const POLLS: usize = 8;
const STEPS: usize = 20;

/// Emptied again and again, and never full in between: counted here in 128 bits, from
/// the rate as written.
pub(super) fn a_bucket_grants_the_floor_of_burst_plus_elapsed_times_rate(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    for [amount, period, burst] in RATES {
        let bucket = Bucket::new(amount, Span::from_micros(period), burst);
        let mut key = Key::of(store, Kind::of(Rule::Bucket(bucket.expect("a rate"))));
        let (mut elapsed, mut granted) = (0, 0);
        // The longest wait after which it is surely not full.
        let longest = u128::from(burst - 1) * u128::from(period) / u128::from(amount);
        for _ in 0..POLLS {
            let there = key.standing().remaining;
            assert!(!key.spend(there + 1).verdict.admitted());
            assert!(there == 0 || key.spend(there).verdict.admitted());
            granted += u128::from(there);
            let yielded = elapsed * u128::from(amount) / u128::from(period);
            assert_eq!(granted, u128::from(burst) + yielded, "{amount}/{period}");
            let wait = rng.below(longest as u64 + 1);
            elapsed += u128::from(wait);
            key.now += wait as i64;
        }
    }
}

/// By windows computed here, whatever they are aligned to.
pub(super) fn in_each_window_exactly_the_capacity_is_admitted(
    store: &Arc<dyn Store>,
    rng: &mut Rng,
) {
    for kind in Kind::windows(rng) {
        let Rule::Window(window) = kind.rule else {
            continue;
        };
        let (mut key, mut open) = (Key::of(store, kind), None);
        for _ in 0..STEPS {
            key.now += wait(rng, &kind);
            open = open.filter(|&(end, _)| key.now < end);
            let opens = || (kind.end_of_window(window.align(), key.now), 0);
            let (end, used) = open.unwrap_or_else(opens);
            let sum = used + rng.between(1, window.capacity());
            let admitted = key.take(sum - used).0.verdict.admitted();
            assert_eq!(admitted, sum <= window.capacity(), "{kind:?}");
            if admitted {
                open = Some((end, sum));
            }
        }
    }
}
