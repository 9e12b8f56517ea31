//! Taken wholly or not at all, refused to the microsecond.

use tidegate_core::{Amount, Verdict};

use super::fixture::{Fixture, START, budget, rate, slots};
use crate::rng::Rng;
use crate::subject::{Skipped, Subject};

/// An organisation's rate and budget over a user's rate.
fn hierarchy(subject: &Subject) -> Fixture {
    Fixture::new(
        subject,
        2,
        &[(0, rate(3, 20)), (0, budget(9)), (1, rate(1, 6))],
    )
}

pub(super) fn all_or_nothing_across_limits_and_ancestors(subject: &Subject) -> Result<(), Skipped> {
    let fixture = hierarchy(subject);
    assert!(fixture.admits(b"acme/alice", &[4, 4, 4]));
    assert_eq!(fixture.left(b"acme/alice"), [16, 5, 2]);
    // Refused by the key's own limit, by the ancestor's, and by one of many.
    for amounts in [[1, 1, 3], [1, 6, 1], [17, 0, 1], [0, 6, 0]] {
        assert!(!fixture.admits(b"acme/alice", &amounts));
    }
    assert!(!fixture.admits(b"acme/bob", &[1, 6, 6]));
    assert_eq!(fixture.left(b"acme/alice"), [16, 5, 2]);
    assert_eq!(fixture.left(b"acme/bob"), [16, 5, 6]);
    assert!(fixture.admits(b"acme/bob", &[5, 5, 6]));
    assert_eq!(fixture.left(b"acme"), [11, 0]);
    Ok(())
}

pub(super) fn a_refusal_changes_nothing(subject: &Subject) -> Result<(), Skipped> {
    let rules = [
        (0, rate(2, 9)),
        (0, budget(12)),
        (1, slots(3)),
        (1, rate(1, 7)),
    ];
    let fixture = Fixture::new(subject, 2, &rules);
    let keys: [&[u8]; 3] = [b"a/x", b"a/y", b"b/x"];
    let mut rng = Rng::new(7);
    for _ in 0..400 {
        let key = *rng.pick(&keys);
        let amounts = [2, 4, 2, 3].map(|most| rng.below(most + 2));
        let before: Vec<_> = keys.iter().map(|key| fixture.standings(key)).collect();
        let decision = match rng.percent(50) {
            true => fixture.lease_by(key, &amounts, rng.between(1, 3_000), Some(&[1])),
            false => fixture.decision(key, &amounts),
        };
        if !decision.expect("an answer").verdict.admitted() {
            let after: Vec<_> = keys.iter().map(|key| fixture.standings(key)).collect();
            assert_eq!(before, after, "{amounts:?} of {key:?}");
        }
        fixture.pass(rng.below(900) as i64);
    }
    Ok(())
}

/// With one instant of the last refill for all limits of a key, a slow one would lose its fraction
/// each time that a fast one is asked.
pub(super) fn a_limit_beside_a_busy_one_refills_at_its_own_rate(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, rate(1_000, 1_000)), (0, rate(3, 3))]);
    let mut slow = 0;
    for _ in 0..500 {
        assert!(fixture.admits(b"acme", &[1, 0]));
        slow += u32::from(fixture.admits(b"acme", &[0, 1]));
        fixture.pass(4);
    }
    // Three at once, and of three in a millisecond those that came in the 1.996 ms to the last.
    assert_eq!(slow, 3 + 5);
    Ok(())
}

pub(super) fn the_reported_instant_is_exact_across_limits_and_ancestors(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let mut rng = Rng::new(3);
    let mut refused = 0;
    for _ in 0..60 {
        let fixture = hierarchy(subject);
        let amounts: [Amount; 3] = [rng.between(1, 20), rng.between(1, 9), rng.between(1, 6)];
        fixture.set(rng.below(9_000) as i64);
        fixture.admits(b"acme/bob", &[rng.below(20), rng.below(9), 0]);
        fixture.admits(b"acme/alice", &[1, 0, rng.below(6)]);
        if let Verdict::NotUntil(at) = fixture.verdict(b"acme/alice", &amounts) {
            refused += 1;
            fixture.set(at.as_micros() - START - 1);
            assert_eq!(
                fixture.verdict(b"acme/alice", &amounts),
                Verdict::NotUntil(at)
            );
            fixture.set(at.as_micros() - START);
            assert_eq!(fixture.verdict(b"acme/alice", &amounts), Verdict::Admit);
        }
    }
    assert!(refused > 10, "only {refused} were refused");
    Ok(())
}

pub(super) fn a_debit_is_charged_whether_it_fits_or_not(subject: &Subject) -> Result<(), Skipped> {
    let fixture = hierarchy(subject);
    let answer = fixture.debit(b"acme/alice", &[25, 3, 8]);
    assert!(!answer.verdict.admitted(), "nothing more may start");
    let debts = fixture.standings(b"acme/alice");
    let debts: Vec<_> = debts.iter().map(|standing| standing.debt).collect();
    assert_eq!(debts, [5, 0, 2]);
    Ok(())
}

/// Counted by a clock that only goes forward: no more than the time yields. (A
/// set's clock never steps back; two of its threads may come out of order, and
/// the next process may read another clock.)
/// Elsewhere buckets went by the clock of the client (Portkey).
pub(super) fn a_clock_that_steps_back_admits_nothing_more(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for rules in [
        &[(0, rate(2, 10))][..],
        &[(0, rate(2, 10)), (0, budget(1_000))],
    ] {
        let fixture = Fixture::new(subject, 1, rules);
        let (mut rng, mut elapsed, mut granted) = (Rng::new(11), 0, 0);
        for _ in 0..2_000 {
            match rng.below(8) {
                0 => fixture.pass(-(rng.between(1, 40_000) as i64)),
                1..4 => {
                    let micros = rng.below(900);
                    elapsed += micros;
                    fixture.pass(micros as i64);
                }
                _ => granted += u64::from(fixture.admits(b"k", &vec![1; rules.len()])),
            }
            assert!(
                granted * 1_000 <= 10_000 + 2 * elapsed,
                "{granted} in {elapsed}us"
            );
        }
        assert!(granted > 0);
    }
    Ok(())
}
