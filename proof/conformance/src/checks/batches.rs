//! Several verbs in one command: each by itself, at one instant, those of one root in
//! their order.

use tidegate_core::{Amount, Log, Rule, Span, Verdict};
use tidegate_store::{Answer, Decision, Detail, Ending, Reply, StoreError, Terms, Verb};

use super::fixture::{Fixture, budget, plan, rate, slots};
use crate::subject::{Skipped, Subject};

const SECOND: u64 = 1_000_000;

/// Takes that say where they leave every limit.
const fn take(amounts: &[Amount]) -> Verb<'_> {
    Verb::Take {
        amounts,
        lease: None,
        detail: Detail::Always,
    }
}

fn decision(answer: &Answer) -> &Decision {
    match answer {
        Ok(Reply::Decision(decision)) => decision,
        answer => panic!("{answer:?} is no decision"),
    }
}

/// What is left of the first limit after a decision.
fn left(answer: &Answer) -> Amount {
    let standings = &decision(answer).standings;
    let first = standings.first().copied().flatten();
    first.expect("a standing").remaining
}

/// Of many roots and of one, so that every answer tells which question it is to.
pub(super) fn a_batch_is_answered_in_its_order(subject: &Subject) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, budget(100))]);
    let keys: Vec<_> = (0..40).map(|n| format!("key {}", n % 8)).collect();
    let amounts: Vec<_> = (0..40).map(|n| [1 + n / 8]).collect();
    let items = keys.iter().zip(&amounts);
    let items: Vec<_> = items.map(|(k, a)| (k.as_bytes(), take(a))).collect();
    let lefts: Vec<_> = fixture.batch(&items).iter().map(left).collect();
    let after = [99, 97, 94, 90, 85];
    let expected: Vec<_> = (0..40).map(|n| after[n / 8]).collect();
    assert_eq!(lefts, expected);
    let mut mixed = fixture.batch(&[
        (b"key 7", Verb::Reset),
        (b"key 0", take(&[90])),
        (b"key 7", Verb::Peek { amounts: &[] }),
        (b"key 7", Verb::Debit { amounts: &[300] }),
    ]);
    let (debit, peek) = (mixed.pop().expect("four"), mixed.pop().expect("four"));
    assert_eq!(mixed.remove(0), Ok(Reply::Done));
    assert!(!decision(&mixed[0]).verdict.admitted());
    assert_eq!((left(&peek), left(&debit)), (100, 0));
    assert_eq!(fixture.batch(&[]), []);
    Ok(())
}

/// A lease is granted, adjusted, renewed and ended by one command; what one of them gives
/// back is the next one's.
pub(super) fn those_of_one_root_are_decided_one_after_the_other(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 2, &[(0, budget(10)), (1, slots(1))]);
    let terms = |id| Terms {
        id,
        expires_at: fixture.now() + Span::from_micros(SECOND),
        idempotency: None,
        least: None,
    };
    let lease = |id, amounts| Verb::Take {
        amounts,
        lease: Some(terms(id)),
        detail: Detail::Always,
    };
    let adjust = Verb::Adjust {
        id: 1,
        to: &[Some(9), None],
        overdraw: false,
        detail: Detail::Always,
    };
    let end = |ending| Verb::End {
        id: 1,
        ending,
        remember: true,
    };
    let until = fixture.now() + Span::from_micros(2 * SECOND);
    let answers = fixture.batch(&[
        (b"a/x", lease(1, &[4, 1])),
        (b"a/x", lease(2, &[1, 1])),
        (b"a/y", take(&[7, 0])),
        (b"a/x", adjust),
        (b"a/y", take(&[2, 0])),
        (b"a/x", Verb::Renew { id: 1, until }),
        (b"a/x", end(Ending::Cancel)),
        (b"a/y", take(&[2, 0])),
        (b"a/x", lease(3, &[8, 1])),
        (b"a/x", end(Ending::Release)),
    ]);
    let admitted = |at: usize| decision(&answers[at]).verdict.admitted();
    assert!(admitted(0) && left(&answers[0]) == 6);
    assert!(!admitted(1), "the slot is held");
    assert!(!admitted(2), "4 of 10 are taken");
    assert!(admitted(3) && left(&answers[3]) == 1);
    assert!(!admitted(4), "9 of 10 are taken");
    assert_eq!(answers[5], Ok(Reply::Done));
    let settled = |at: usize| match &answers[at] {
        Ok(Reply::Settled(settlement)) => settlement.clone(),
        answer => panic!("an end is answered by {answer:?}"),
    };
    assert!(!settled(6).repeated && !settled(6).expired);
    assert!(admitted(7) && left(&answers[7]) == 8, "9 came back");
    assert!(admitted(8) && left(&answers[8]) == 0);
    assert!(settled(9).repeated, "it has ended");
    let uses = |at: usize| settled(at).uses.iter().map(|u| (u.taken, u.used)).collect();
    let first: Vec<_> = uses(6);
    assert_eq!((first, uses(9)), (vec![(9, 0), (1, 0)], uses(6)));
    Ok(())
}

/// An error, or a refusal, is that item's alone; and all that was admitted was charged.
pub(super) fn what_one_of_a_batch_is_refused_is_no_concern_of_the_others(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (whole, single) = (
        Fixture::new(subject, 2, &[(0, budget(9)), (1, budget(5))]),
        Fixture::new(subject, 2, &[(0, budget(9)), (1, budget(5))]),
    );
    let unknown = Verb::End {
        id: 77,
        ending: Ending::Cancel,
        remember: false,
    };
    let items: [(&[u8], Verb<'_>); 9] = [
        (b"a/x", take(&[3, 3])),
        (b"b/x", unknown),
        (b"a/x", take(&[3, 3])),
        (b"c", Verb::Debit { amounts: &[12] }),
        (b"a/y", take(&[3, 3])),
        (b"c/x", take(&[1, 1])),
        (b"b/x", take(&[5, 5])),
        (b"a/x", unknown),
        (b"a/z", take(&[3, 3])),
    ];
    let together = whole.batch(&items);
    let ask = |&(key, verb): &(&[u8], Verb<'_>)| single.execute(key, verb);
    let verdict = |answer: &Answer| match answer {
        Ok(reply) => Ok(reply.verdict().map(|verdict| verdict.admitted())),
        Err(error) => Err(error.clone()),
    };
    let apart: Vec<_> = items.iter().map(ask).map(|a| verdict(&a)).collect();
    assert_eq!(together.iter().map(verdict).collect::<Vec<_>>(), apart);
    assert_eq!(apart[1], Err(StoreError::UnknownLease));
    for (key, left) in [
        (&b"a/x"[..], [0, 2]),
        (b"a/y", [0, 2]),
        (b"a/z", [0, 2]),
        (b"b/x", [4, 0]),
        (b"c/x", [0, 5]),
    ] {
        assert_eq!(whole.left(key), left, "{}", key.escape_ascii());
        assert_eq!(single.left(key), left, "{}", key.escape_ascii());
    }
    Ok(())
}

/// Every refusal names the same instant, and every lease the same one, of every root.
pub(super) fn a_batch_is_decided_at_one_instant(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, rate(1, 8)), (0, slots(8))]);
    let keys: Vec<_> = (0..32_u128).map(|n| format!("key {n}")).collect();
    fixture.pass(250);
    let take = |amounts, id| Verb::Take {
        amounts,
        lease: Some(Terms {
            id,
            expires_at: fixture.now() + Span::from_micros(SECOND),
            idempotency: None,
            least: None,
        }),
        detail: Detail::Always,
    };
    let all = |amounts, first| -> Vec<Answer> {
        let ids = keys.iter().zip(first..);
        let items = ids.map(|(key, id)| (key.as_bytes(), take(amounts, id)));
        fixture.batch(&items.collect::<Vec<_>>())
    };
    for answer in all(&[8, 1], 1) {
        let lease = decision(&answer).lease.expect("it fits");
        assert_eq!(lease.granted_at, fixture.now());
        assert_eq!(lease.expires_at, fixture.now() + Span::from_micros(SECOND));
    }
    fixture.pass(1_500);
    let at = Verdict::NotUntil(fixture.now() + Span::from_micros(1_500));
    for answer in all(&[3, 1], 100) {
        assert_eq!(decision(&answer).verdict, at);
    }
    Ok(())
}

/// A row with a log may be large: a store that writes few of those in a step writes more steps.
pub(super) fn a_batch_of_many_rows_with_logs_is_decided(subject: &Subject) -> Result<(), Skipped> {
    let hour = Span::from_secs(3_600);
    let log = |capacity| Rule::Log(Log::new(capacity, hour, 200).expect("a sound log"));
    let fixture = Fixture::new(subject, 2, &[(0, log(70)), (1, log(2))]);
    let keys: Vec<_> = (0..90).map(|n| format!("a/{}", n % 30)).collect();
    let items = keys.iter().map(|key| (key.as_bytes(), take(&[1, 1])));
    let answers = fixture.batch(&items.collect::<Vec<_>>());
    let admitted = answers.iter().map(|answer| decision(answer).verdict);
    assert_eq!(admitted.filter(|verdict| verdict.admitted()).count(), 60);
    assert_eq!((left(&answers[59]), left(&answers[89])), (10, 10));
    assert_eq!(fixture.left(b"a/7"), [10, 0]);
    Ok(())
}

/// A unit drains each microsecond. Of one key, and of many under one root, as many are admitted
/// as if no time passed.
pub(super) fn nothing_drains_between_those_of_a_batch(subject: &Subject) -> Result<(), Skipped> {
    let fixture = Fixture::new(
        subject,
        2,
        &[(0, rate(1_000, 1_000)), (1, rate(1_000, 200))],
    );
    let keys: Vec<_> = (0..600).map(|n| format!("a/{}", n % 20)).collect();
    let items: Vec<_> = keys
        .iter()
        .map(|key| (key.as_bytes(), take(&[10, 10])))
        .collect();
    let admitted = |answers: &[Answer]| {
        let admitted = answers.iter().map(decision);
        admitted.filter(|one| one.verdict.admitted()).count()
    };
    assert_eq!(admitted(&fixture.batch(&items)), 100);
    let of_one = vec![(b"b/x".as_slice(), take(&[10, 10])); 300];
    assert_eq!(admitted(&fixture.batch(&of_one)), 20);
    let single = Fixture::new(subject, 1, &[(0, rate(1_000, 1_000))]);
    let answers = single.batch(&vec![(b"c".as_slice(), take(&[10])); 600]);
    assert_eq!(admitted(&answers), 100);
    assert!(
        answers[..100]
            .iter()
            .all(|answer| decision(answer).verdict.admitted())
    );
    assert_eq!((left(&answers[0]), left(&answers[99])), (990, 0));
    Ok(())
}

pub(super) fn a_batch_made_for_older_limits_is_told_so_and_charges_nothing(
    subject: &Subject,
) -> Result<(), Skipped> {
    let mut fixture = Fixture::new(subject, 1, &[(0, budget(10))]);
    assert!(fixture.admits(b"a", &[1]));
    let older = fixture.beside(plan(0, 1, &[(0, budget(10))]));
    fixture.change(&[(0, budget(12))]);
    let items: [(&[u8], Verb<'_>); 3] = [
        (b"a", take(&[2])),
        (b"b", Verb::Debit { amounts: &[2] }),
        (b"a", Verb::Reset),
    ];
    for answer in older.batch(&items) {
        assert_eq!(answer, Err(StoreError::StalePlan));
    }
    assert_eq!(
        (fixture.left(b"a"), fixture.left(b"b")),
        (vec![11], vec![12])
    );
    Ok(())
}
