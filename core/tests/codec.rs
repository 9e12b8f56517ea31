//! A state survives as bytes; bytes that are no state are refused with a typed
//! error, never misread, and never the cause of a panic, then or later.

mod common;

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::codec::{VERSION, decode, encode};
use tidegate_core::*;

fn bytes_of(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(state, &mut bytes);
    bytes
}

/// Bytes with a plausible head, so that most reach the depths of the decoder.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        4 => any::<[u8; 8]>(),
        4 => (0_u64..20).prop_map(u64::to_le_bytes),
        1 => Just(i64::MAX.to_le_bytes()),
        1 => Just(i64::MIN.to_le_bytes()),
        1 => Just(MAX_AMOUNT.to_le_bytes()),
        1 => Just(u64::MAX.to_le_bytes()),
    ];
    let count = prop_oneof![3 => Just(None), 3 => (0_u32..4).prop_map(Some)];
    (1..=VERSION, 0_u8..9, count, vec(word, 0..14)).prop_map(|(version, kind, count, words)| {
        let count = count.map(u32::to_le_bytes);
        let tail = words.into_iter().flatten();
        [version, kind]
            .into_iter()
            .chain(count.into_iter().flatten())
            .chain(tail)
            .collect()
    })
}

/// Slots have their count behind two words.
fn hostile_slots() -> impl Strategy<Value = Vec<u8>> {
    let edge = || prop_oneof![any::<i64>(), Just(i64::MAX), Just(i64::MIN), 0_i64..100];
    let holder = (edge(), any::<u128>(), 0..=MAX_AMOUNT / 2);
    (edge(), edge(), vec(holder, 0..3)).prop_map(|(at, fence, mut holders)| {
        holders.sort_unstable_by_key(|holder| holder.0);
        let mut bytes = vec![1, 5];
        bytes.extend(at.to_le_bytes());
        bytes.extend((fence as u64 | (fence as u64) << 1).to_le_bytes());
        bytes.extend((holders.len() as u32).to_le_bytes());
        for (expires, id, weight) in holders {
            bytes.extend(expires.to_le_bytes());
            bytes.extend(id.to_le_bytes());
            bytes.extend(weight.to_le_bytes());
        }
        bytes
    })
}

/// A bucket with low-water marks: every field plausible by itself.
fn hostile_low_water() -> impl Strategy<Value = Vec<u8>> {
    let edge = || prop_oneof![any::<i64>(), Just(i64::MAX), Just(i64::MIN), 0_i64..9];
    let level = || prop_oneof![4 => 0_u128..9, 1 => 0..1_u128 << 103];
    let marks = vec((edge(), level()), 0..35);
    (level(), edge(), edge(), edge(), marks, any::<bool>()).prop_map(
        |(now, at, since, last, mut marks, sorted)| {
            if sorted {
                marks.sort_unstable();
            }
            let mut bytes = vec![2, 6];
            bytes.extend(now.to_le_bytes());
            bytes.extend([at, since, last].map(i64::to_le_bytes).concat());
            bytes.extend((marks.len() as u32).to_le_bytes());
            for (number, level) in marks {
                bytes.extend(number.to_le_bytes());
                bytes.extend(level.to_le_bytes());
            }
            bytes
        },
    )
}

/// A bucket of which some is forgiven.
fn hostile_forgiven() -> impl Strategy<Value = Vec<u8>> {
    let edge = || prop_oneof![any::<i64>(), Just(i64::MAX), Just(i64::MIN), 0_i64..9];
    let level = || prop_oneof![4 => 0_u128..9, 1 => 0..1_u128 << 103];
    let bucket = (level(), edge(), hostile_low_water(), any::<bool>());
    bucket.prop_map(|(level, until, with_low_water, plain)| {
        let mut bytes = vec![3, 7];
        bytes.extend(level.to_le_bytes());
        bytes.extend(until.to_le_bytes());
        bytes.extend(&with_low_water[1..]);
        if plain {
            bytes[26] = 1;
            bytes.truncate(27 + 24);
        }
        bytes
    })
}

/// Every verb of `law` upon `state`; what it leaves can be kept and read.
fn survive(law: &Law, state: State, now: Timestamp, amount: Amount) -> Result<(), TestCaseError> {
    let mut key = Key::new(*law, now);
    key.state = state;
    key.rule
        .observe(&mut key.state, &decision_time(&law.rule, now));
    key.face();
    let charge = key.charge(amount);
    key.face();
    let _ = key.rule.forget_at(&key.state);
    let charged = decode(&bytes_of(&key.state));
    prop_assert_eq!(charged.as_ref(), Ok(&key.state));
    key.refund(&charge);
    let refunded = decode(&bytes_of(&key.state));
    prop_assert_eq!(refunded.as_ref(), Ok(&key.state));
    Ok(())
}

fn instants() -> impl Strategy<Value = Timestamp> {
    let micros = prop_oneof![any::<i64>(), Just(i64::MAX), Just(i64::MIN), 0_i64..100];
    micros.prop_map(Timestamp::from_micros)
}

proptest! {
    #[test]
    fn state_bytes_round_trip_and_bad_bytes_are_refused(
        law in laws(), origin in origins(), past in pasts(), extra in any::<u8>(), version in VERSION + 1..,
    ) {
        let state = Key::after(law, origin, &past).state;
        let mut bytes = bytes_of(&state);
        let read = decode(&bytes);
        prop_assert_eq!(read.as_ref(), Ok(&state));
        for cut in 0..bytes.len() {
            prop_assert_eq!(decode(&bytes[..cut]), Err(DecodeError::Truncated));
        }
        bytes.push(extra);
        prop_assert!(matches!(decode(&bytes), Err(DecodeError::Corrupt(_))));
        bytes[0] = version;
        prop_assert_eq!(decode(&bytes), Err(DecodeError::Newer { version, reads: VERSION }));
        bytes[0] = 0;
        prop_assert!(matches!(decode(&bytes), Err(DecodeError::Corrupt(_))));
    }

    /// What is read is what was written: no two byte strings are one state.
    #[test]
    fn bad_bytes_are_never_misread(bytes in prop_oneof![hostile(), hostile_slots(), hostile_low_water(), hostile_forgiven(), vec(any::<u8>(), 0..80)]) {
        if let Ok(state) = decode(&bytes) {
            prop_assert_eq!(bytes_of(&state), bytes);
        }
    }

    /// A state that was accepted can be used by any rule, at any instant.
    #[test]
    fn accepted_bytes_never_panic_later(
        law in laws(), bytes in prop_oneof![hostile(), hostile_slots(), hostile_low_water(), hostile_forgiven()],
        now in instants(), amount in prop_oneof![0_u64..10, Just(MAX_AMOUNT)],
    ) {
        if let Ok(state) = decode(&bytes) {
            survive(&law, state, now, amount)?;
        }
    }
}

/// Bytes as a hex dump without spaces; `_` and blanks only for the reader.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    let pair = |pair: &[u32]| (pair[0] * 16 + pair[1]) as u8;
    digits.chunks_exact(2).map(pair).collect()
}

/// The state that charges leave, and the bytes it must be. Slots are charged by
/// leases, everything else without.
fn stays(rule: Rule, charges: &[(i64, Amount)], expected: &str) {
    let leased = rule.is_held();
    let mut state = State::Fresh;
    for &(now, amount) in charges {
        let time = DecisionTime::at(Timestamp::from_micros(now));
        let term = LeaseTerm {
            id: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10 + u128::from(amount),
            expires_at: time.now + Span::MILLISECOND,
        };
        rule.charge(&mut state, amount, &time, leased.then_some(term));
    }
    assert_eq!(bytes_of(&state), hex(expected), "{rule:?} is written anew");
    assert_eq!(decode(&hex(expected)), Ok(state), "{rule:?} is misread");
}

/// The format is a promise to states already written: these bytes stay.
#[test]
fn the_bytes_of_version_1_stay() {
    let (second, two_ms) = (Span::SECOND, Span::from_millis(2));
    let window = |align| Rule::Window(Window::new(9, align).unwrap());
    assert_eq!(bytes_of(&State::Fresh), [1, 0]);
    stays(
        Rule::Bucket(Bucket::new(1, second, 5).unwrap()),
        &[(258, 2)],
        "01 01 80841e00_00000000_00000000_00000000 0201000000000000",
    );
    stays(
        window(Align::Epoch(two_ms)),
        &[(4_100, 2), (5_000, 3)],
        "01 02 a00f000000000000 7017000000000000 0500000000000000",
    );
    stays(
        window(Align::FirstUse(two_ms)),
        &[(-4_100, 2)],
        "01 02 fcefffffffffffff ccf7ffffffffffff 0200000000000000",
    );
    stays(
        Rule::Ring(Ring::new(9, two_ms, 2).unwrap()),
        &[(4_100, 2), (5_100, 3)],
        "01 03 02000000 0400000000000000 0200000000000000 0500000000000000 0300000000000000",
    );
    stays(
        Rule::Log(Log::new(9, two_ms, 4).unwrap()),
        &[(4_100, 2), (5_100, 3)],
        "01 04 02000000 0410000000000000 0200000000000000 ec13000000000000 0300000000000000",
    );
    stays(
        Rule::Slots(Slots::new(9, two_ms).unwrap()),
        &[(4_100, 2), (4_300, 3)],
        "01 05 cc10000000000000 cc10000000000000 02000000 \
         ec13000000000000 120f0e0d0c0b0a09_0807060504030201 0200000000000000 \
         b414000000000000 130f0e0d0c0b0a09_0807060504030201 0300000000000000",
    );
}

/// Version 2 adds one kind, and writes nothing else: a build that reads version
/// 1 alone reads all it can, and says of the rest that it is newer.
#[test]
fn the_bytes_of_version_2_stay() {
    let rule = Rule::Bucket(Bucket::new(1, Span::SECOND, 5).unwrap());
    let mut state = State::Fresh;
    let mut charge = |now: i64, term| {
        let time = DecisionTime::at(Timestamp::from_micros(now));
        rule.charge(&mut state, 2, &time, term);
    };
    let term = LeaseTerm {
        id: 1,
        expires_at: Timestamp::MAX,
    };
    charge(258, Some(term));
    charge(258, None);
    charge(259, Some(term));
    let wide = |level: u128| level.to_le_bytes();
    let mut expected = vec![2, 6];
    expected.extend(wide(5_999_999));
    expected.extend([259, 258, 259].map(i64::to_le_bytes).concat());
    expected.extend([1, 0, 0, 0]);
    expected.extend(258_i64.to_le_bytes());
    expected.extend(wide(2_000_000));
    assert_eq!(bytes_of(&state), expected);
}

/// Version 3 adds one kind: of a burst that was lowered to less than was used.
#[test]
fn the_bytes_of_version_3_stay() {
    let time = DecisionTime::at(Timestamp::from_micros(258));
    let bucket = |burst| Rule::Bucket(Bucket::new(1, Span::SECOND, burst).unwrap());
    let mut state = State::Fresh;
    bucket(5).charge(&mut state, 4, &time, None);
    bucket(3).adopt(&mut state, &bucket(5), &time);
    let wide = |level: u128| level.to_le_bytes();
    let mut expected = vec![3, 7];
    expected.extend(wide(1_000_000));
    expected.extend(i64::MAX.to_le_bytes());
    expected.push(1);
    expected.extend(wide(4_000_000));
    expected.extend(258_i64.to_le_bytes());
    assert_eq!(bytes_of(&state), expected);
    assert_eq!(decode(&expected), Ok(state));
}

/// What no writer produces, field by field.
#[test]
fn lows_out_of_order_or_out_of_bounds_are_refused() {
    let bytes = |since: i64, last: i64, marks: &[(i64, u128)]| {
        let mut bytes = vec![2, 6];
        bytes.extend([0; 24]);
        bytes.extend([since, last].map(i64::to_le_bytes).concat());
        bytes.extend((marks.len() as u32).to_le_bytes());
        for (number, level) in marks {
            bytes.extend(number.to_le_bytes());
            bytes.extend(level.to_le_bytes());
        }
        decode(&bytes).map(|_| ())
    };
    let order = Err(DecodeError::Corrupt("order"));
    assert_eq!(bytes(3, 9, &[(3, 1), (9, 2)]), Ok(()));
    assert_eq!(bytes(9, 3, &[]), order);
    assert_eq!(bytes(3, 9, &[(2, 1)]), order);
    assert_eq!(bytes(3, 9, &[(10, 1)]), order);
    assert_eq!(bytes(3, 9, &[(4, 1), (4, 2)]), order);
    assert_eq!(bytes(3, 9, &[(4, 2), (5, 2)]), order);
    assert_eq!(bytes(3, 9, &[(4, 2), (5, 1)]), order);
    let level = Err(DecodeError::Corrupt("level"));
    assert_eq!(bytes(3, 9, &[(4, 1 << 102)]), level);
    let many: Vec<_> = (0..33).map(|n| (n, n as u128)).collect();
    assert_eq!(bytes(0, 32, &many), Err(DecodeError::Corrupt("count")));
    assert_eq!(bytes(0, 32, &many[..32]), Ok(()));
}
