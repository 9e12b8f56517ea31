//! What a node may spend of what it was granted, beside a ledger that counts by itself.
//! `PROPTEST_CASES=100000 cargo test -p tidegate-core --test units` looks harder.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{MAX_AMOUNT, Span, Timestamp, Units, sure_until};

/// What a node does with one of its grants.
#[derive(Clone, Debug)]
enum Deed {
    Spend {
        grant: usize,
        amounts: Vec<u64>,
        at: i64,
    },
    Refund {
        grant: usize,
        amounts: Vec<u64>,
    },
}

/// Small amounts, at times the largest.
fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..20_u64, 1 => Just(MAX_AMOUNT), 1 => 0..=MAX_AMOUNT]
}

fn deed() -> impl Strategy<Value = Deed> {
    let amounts = || vec(amount(), 1..4);
    prop_oneof![
        3 => (0..3_usize, amounts(), -5..60_i64)
            .prop_map(|(grant, amounts, at)| Deed::Spend { grant, amounts, at }),
        1 => (0..3_usize, amounts()).prop_map(|(grant, amounts)| Deed::Refund { grant, amounts }),
    ]
}

fn grants() -> impl Strategy<Value = Vec<(Vec<u64>, i64)>> {
    vec((vec(amount(), 3), 0..50_i64), 3)
}

const fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

proptest! {
    /// Nothing is spent at or after its end, never more than was granted, and a refund goes
    /// into its own grant: each grant's ledger is counted here by hand, and no other's moves.
    #[test]
    fn each_grant_is_spent_by_itself_and_before_its_end(
        grants in grants(),
        deeds in vec(deed(), 0..40),
    ) {
        let mut all: Vec<_> = grants.iter().map(|(g, end)| Units::new(g, at(*end))).collect();
        let mut ledger = vec![vec![0_u128; 3]; 3];
        for deed in deeds {
            match deed {
                Deed::Spend { grant, amounts, at: instant } => {
                    let (granted, end) = &grants[grant];
                    let fits = amounts.iter().enumerate().all(|(limit, &amount)| {
                        ledger[grant][limit] + u128::from(amount) <= u128::from(granted[limit])
                    });
                    let spent = all[grant].spend(&amounts, at(instant));
                    prop_assert_eq!(spent, fits && instant < *end);
                    if spent {
                        for (limit, &amount) in amounts.iter().enumerate() {
                            ledger[grant][limit] += u128::from(amount);
                        }
                    }
                }
                Deed::Refund { grant, amounts } => {
                    all[grant].refund(&amounts);
                    for (limit, &amount) in amounts.iter().enumerate() {
                        let spent = &mut ledger[grant][limit];
                        *spent = spent.saturating_sub(u128::from(amount));
                    }
                }
            }
            for (units, ledger) in all.iter().zip(&ledger) {
                for (limit, &spent) in ledger.iter().enumerate() {
                    prop_assert_eq!(u128::from(units.spent()[limit]), spent);
                    prop_assert!(units.spent()[limit] <= units.granted()[limit]);
                    prop_assert_eq!(units.left(limit), units.granted()[limit] - units.spent()[limit]);
                }
            }
        }
    }

    /// A clock that runs slow by a thousandth still ends before the store's does.
    #[test]
    fn a_clock_a_thousandth_slow_stops_before_the_end(length in 0..40_000_000_000_u64) {
        let (began, end) = (at(0), at(0) + Span::from_micros(length));
        let sure = sure_until(end, end.since(began));
        // When the slow clock shows `sure`, this much has really passed.
        let shown = u128::from(sure.since(began).as_micros());
        prop_assert!(shown * 1_000 <= u128::from(length) * 999 + 1_000);
        prop_assert!(sure <= end);
    }
}

#[test]
fn an_amount_of_a_limit_that_was_not_granted_is_not_covered() {
    let mut units = Units::new(&[5], at(10));
    assert!(!units.spend(&[1, 1], at(0)));
    assert!(units.spend(&[5, 0], at(9)));
    assert!(units.is_spent() && !units.spend(&[1], at(9)));
    assert!(units.spend(&[0], at(9)) && !units.spend(&[0], at(10)));
}
