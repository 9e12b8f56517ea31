//! A bucket is exact for ever: whatever the rate, and however awkwardly its
//! period divides, a bucket emptied again and again grants `floor(burst +
//! elapsed * rate)`, to the unit, over many periods.
//!
//! The expectation is computed here, in 128 bits, from the rate as written:
//! not reduced, no levels, nothing carried from poll to poll but the sum.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::*;

const CASES: u32 = 1_000;
const LONGEST: u64 = 400 * 86_400_000_000;

/// Primes, for which nothing cancels.
const PRIME_AMOUNTS: [u64; 6] = [1, 7, 997, 104_729, 999_999_937, 999_999_999_989];
const PRIME_PERIODS: [u64; 5] = [1_009, 999_983, 1_000_003, 2_147_483_647, 99_999_999_977];

/// A rate as an operator writes it.
#[derive(Clone, Copy, Debug)]
struct Rate {
    amount: u64,
    period: u64,
    burst: u64,
}

/// A bucket polled greedily: each poll takes all that is there.
struct Greedy {
    bucket: Bucket,
    state: kernel::bucket::State,
    granted: u128,
}

impl Greedy {
    fn new(rate: Rate) -> Self {
        let period = Span::from_micros(rate.period);
        Self {
            bucket: Bucket::new(rate.amount, period, rate.burst).unwrap(),
            state: Default::default(),
            granted: 0,
        }
    }

    fn poll(&mut self, now: i64) -> Result<(), TestCaseError> {
        let time = DecisionTime::at(Timestamp::from_micros(now));
        let all = self.bucket.standing(&self.state, &time).remaining;
        prop_assert!(self.bucket.quote(&self.state, all, &time).admitted());
        let more = self.bucket.quote(&self.state, all + 1, &time);
        prop_assert!(!more.admitted());
        self.bucket.charge(&mut self.state, all, &time);
        self.granted += u128::from(all);
        Ok(())
    }
}

/// The same by whole fractions: `tokens / period` are there, never over `burst`.
struct Fractions {
    rate: Rate,
    tokens: u128,
    granted: u128,
}

impl Fractions {
    fn poll(&mut self, elapsed: u64) {
        let period = u128::from(self.rate.period);
        let full = u128::from(self.rate.burst) * period;
        let refilled = self.tokens + u128::from(elapsed) * u128::from(self.rate.amount);
        self.tokens = refilled.min(full);
        self.granted += self.tokens / period;
        self.tokens %= period;
    }
}

fn amounts() -> impl Strategy<Value = u64> {
    prop_oneof![
        prop::sample::select(&PRIME_AMOUNTS[..]),
        1_u64..1_000,
        1_u64..=1_000_000_000_000,
    ]
}

fn spans() -> impl Strategy<Value = u64> {
    prop_oneof![
        prop::sample::select(&PRIME_PERIODS[..]),
        1_000_u64..10_000_000,
        1_000_u64..=LONGEST,
    ]
}

/// Half of them with bursts that last for whole periods.
fn rates() -> impl Strategy<Value = Rate> {
    let burst = prop_oneof![Just(None), (1_u64..=1_000_000_000_000).prop_map(Some)];
    let times = 1_u64..4;
    (amounts(), spans(), burst, times).prop_map(|(amount, period, burst, times)| Rate {
        amount,
        period,
        burst: burst.unwrap_or(amount * times + 1),
    })
}

/// The longest wait after which a bucket that was emptied is surely not full.
fn longest_wait(rate: Rate) -> u128 {
    u128::from(rate.burst - 1) * u128::from(rate.period) / u128::from(rate.amount)
}

/// Polls at random waits of `1/65536`ths of `longest`, and checks the sum
/// against the one formula after each.
fn grants_exactly(
    rate: Rate,
    start: i64,
    waits: &[u16],
    longest: u128,
) -> Result<(), TestCaseError> {
    let (mut greedy, mut elapsed) = (Greedy::new(rate), 0_u128);
    greedy.poll(start)?;
    for &wait in waits {
        elapsed += (longest * (u128::from(wait) + 1)) >> 16;
        greedy.poll(start + elapsed as i64)?;
        let refilled = elapsed * u128::from(rate.amount) / u128::from(rate.period);
        prop_assert_eq!(greedy.granted, u128::from(rate.burst) + refilled);
    }
    Ok(())
}

fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = usual.cases.max(CASES);
    ProptestConfig { cases, ..usual }
}

proptest! {
    #![proptest_config(config())]

    /// Elsewhere a fraction was lost at each refill (Portkey).
    #[test]
    fn a_bucket_never_full_grants_floor_of_burst_plus_elapsed_times_rate(
        rate in rates(), start in -1_000_000_000_i64..2_000_000_000_000_000, waits in vec(any::<u16>(), 1..60),
    ) {
        // A span of at most 3,000 years in all keeps every instant in range.
        let longest = longest_wait(rate).min(50 * 365 * 86_400_000_000);
        grants_exactly(rate, start, &waits, longest)?;
    }

    #[test]
    fn a_bucket_that_is_full_at_times_loses_only_what_overflows(
        rate in rates(), start in -1_000_000_000_i64..2_000_000_000_000_000, waits in vec(any::<u16>(), 1..60),
    ) {
        let (mut greedy, mut now) = (Greedy::new(rate), start);
        let mut fractions = Fractions { rate, tokens: 0, granted: u128::from(rate.burst) };
        greedy.poll(now)?;
        let longest = (3 * longest_wait(rate) + 3 * u128::from(rate.period)).min(50 * 365 * 86_400_000_000);
        for wait in waits {
            let wait = ((longest * (u128::from(wait) + 1)) >> 16) as u64;
            now += wait as i64;
            greedy.poll(now)?;
            fractions.poll(wait);
            prop_assert_eq!(greedy.granted, fractions.granted);
        }
    }
}

/// The ends of the range, over many of their own periods.
#[test]
fn ten_million_a_second_and_one_a_year_are_exact() {
    let year = 365 * 86_400_000_000;
    let fast = Rate {
        amount: 10_000_000,
        period: 1_000_000,
        burst: 10_000_000,
    };
    let slow = Rate {
        amount: 1,
        period: year,
        burst: 2,
    };
    for (rate, longest) in [(fast, 999_999), (slow, u128::from(year))] {
        let waits: Vec<u16> = (0..1_000_u32)
            .map(|n| (n * 40_503 % 65_536) as u16)
            .collect();
        grants_exactly(rate, 1_700_000_000_000_000, &waits, longest).unwrap();
    }
}
