//! Numbers that look random and are the same for the same seed, for ever.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
//! generators", OOPSLA 2014): a counter and a mixer, so that threads share it
//! with one atomic addition. For balancing and jitter; never for a secret.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far a step moves the counter: the golden ratio's fraction of 2^64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers.
#[derive(Debug)]
pub(crate) struct SplitMix(AtomicU64);

impl SplitMix {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next of 2^64 numbers.
    pub(crate) fn next(&self) -> u64 {
        mixed(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }

    /// One of `0..bound` (`bound` at least 1), each as likely as the other:
    /// what would favour the small ones is drawn again (Lemire 2019).
    pub(crate) fn below(&self, bound: u64) -> u64 {
        let uneven = bound.wrapping_neg() % bound;
        loop {
            let wide = u128::from(self.next()) * u128::from(bound);
            if wide as u64 >= uneven {
                return (wide >> 64) as u64;
            }
        }
    }
}

/// Spreads every bit of `number` over all of them.
pub(crate) const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_reference_implementation() {
        let random = SplitMix::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        let reference = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first, reference);
    }

    #[test]
    fn every_number_below_a_bound_comes_and_none_beyond() {
        let random = SplitMix::new(7);
        let mut seen = [0; 5];
        (0..1_000).for_each(|_| seen[random.below(5) as usize] += 1);
        assert!(seen.iter().all(|&count| count > 150));
        assert_eq!(random.below(1), 0);
    }
}
