//! Takes that may be partial: as much as is there, the least at least, and until when it is good.

use tidegate_core::{Amount, Span, Timestamp, Verdict};
use tidegate_store::{Detail, Ending, Partial, Reply, StoreError, Terms, Verb};

use super::fixture::{Fixture, budget, rate, slots};
use crate::fixture::hourly;
use crate::subject::{Skipped, Subject};

const SECOND: u64 = 1_000_000;

impl Fixture {
    /// Takes as much as is there of `amounts`, `least` at least, for so many microseconds.
    fn take_partly(
        &self,
        key: &[u8],
        (amounts, least): (&[Amount], &[Amount]),
        micros: u64,
    ) -> Result<Reply, StoreError> {
        let terms = Terms {
            id: self.last_lease() + 1,
            expires_at: self.now() + Span::from_micros(micros),
            idempotency: None,
            least: Some(least),
        };
        self.number_from(terms.id);
        self.execute(
            key,
            Verb::Take {
                amounts,
                lease: Some(terms),
                detail: Detail::Verdict,
            },
        )
    }

    /// The same, where it is granted.
    fn part(&self, key: &[u8], asked: (&[Amount], &[Amount]), micros: u64) -> Partial {
        match self.take_partly(key, asked, micros) {
            Ok(Reply::Partial(partial)) => *partial,
            other => panic!("{asked:?} is answered by {other:?}"),
        }
    }

    /// The same, where it is refused.
    fn no_part(&self, key: &[u8], asked: (&[Amount], &[Amount])) -> Verdict {
        match self.take_partly(key, asked, SECOND) {
            Ok(Reply::Decision(decision)) => decision.verdict,
            other => panic!("{asked:?} is answered by {other:?}"),
        }
    }
}

/// An organisation's rate and budget over a user's rate and slots.
fn hierarchy(subject: &Subject) -> Fixture {
    let rules = [
        (0, rate(1, 20)),
        (0, budget(9)),
        (1, rate(1, 6)),
        (1, slots(4)),
    ];
    Fixture::new(subject, 2, &rules)
}

pub(super) fn a_take_that_may_be_partial_gets_of_each_limit_what_is_there(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = hierarchy(subject);
    let all = fixture.part(b"a/x", (&[5, 5, 5, 1], &[1, 1, 1, 1]), SECOND);
    assert_eq!(all.amounts[..], [5, 5, 5, 1]);
    assert!(all.decision.verdict.admitted());
    let lease = all.decision.lease.expect("a lease");
    assert!(!lease.repeated && lease.fence > 0);
    // Of the budget 4 are left, of the user's rate 1, of his slots 3.
    let rest = fixture.part(b"a/x", (&[5, 5, 5, 5], &[1, 1, 1, 1]), SECOND);
    assert_eq!(rest.amounts[..], [5, 4, 1, 3]);
    assert_eq!(fixture.left(b"a/x"), [10, 0, 0, 0]);
    let left = rest.decision.standings.iter().flatten();
    assert_eq!(
        left.map(|limit| limit.remaining).collect::<Vec<_>>(),
        [10, 0, 0, 0]
    );
    // What is not asked for is not taken, and a key that is its ancestor alone takes nothing
    // of the levels below.
    let above = fixture.part(b"a", (&[7, 0, 9, 9], &[3, 0, 9, 9]), SECOND);
    assert_eq!(above.amounts[..], [7, 0, 0, 0]);
    // Of a least that names no limit, each is 0.
    let any = fixture.part(b"b/y", (&[5, 20, 5, 9], &[]), SECOND);
    assert_eq!(any.amounts[..], [5, 9, 5, 4]);
    Ok(())
}

pub(super) fn a_take_of_less_than_the_least_takes_nothing_and_says_when_it_is_there(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, rate(1, 10)), (0, rate(1, 100))]);
    assert!(fixture.admits(b"k", &[8, 0]));
    let after = Span::from_millis(1);
    let verdict = fixture.no_part(b"k", (&[10, 50], &[3, 50]));
    assert_eq!(verdict, Verdict::NotUntil(fixture.now() + after));
    assert_eq!(fixture.no_part(b"k", (&[11, 1], &[11, 1])), Verdict::Never);
    assert_eq!(fixture.left(b"k"), [2, 100]);
    // A least that is more than what is asked for is all of that.
    let all = fixture.part(b"k", (&[2, 1], &[9, 9]), SECOND);
    assert_eq!(all.amounts[..], [2, 1]);
    fixture.pass(3_000);
    let later = fixture.part(b"k", (&[10, 10], &[3, 10]), SECOND);
    assert_eq!(later.amounts[..], [3, 10]);
    Ok(())
}

pub(super) fn what_was_taken_partly_is_good_until_the_window_ends_or_the_lease(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let rules = [(0, budget(9)), (0, hourly(100)), (0, rate(1, 50))];
    let fixture = Fixture::new(subject, 1, &rules);
    let until = |at: Timestamp, micros| at + Span::from_micros(micros);
    fixture.pass(4_000);
    let (now, ends) = (fixture.now(), until(fixture.now(), 6_000));
    let of_window = fixture.part(b"k", (&[2, 2, 2], &[1, 1, 1]), SECOND);
    assert_eq!(of_window.good_until, ends, "the budget's ten milliseconds");
    let of_lease = fixture.part(b"k", (&[2, 2, 2], &[1, 1, 1]), 5_000);
    assert_eq!(of_lease.good_until, until(now, 5_000));
    let of_hour = fixture.part(b"k", (&[0, 2, 2], &[0, 1, 1]), 7_200 * SECOND);
    assert_eq!(of_hour.good_until, until(now, 3_600 * SECOND));
    let of_rate = fixture.part(b"k", (&[0, 0, 2], &[0, 0, 1]), 7_200 * SECOND);
    assert_eq!(of_rate.good_until, until(now, 7_200 * SECOND));
    Ok(())
}

pub(super) fn what_was_taken_partly_and_not_used_comes_back_where_it_was_charged(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, hourly(10)), (0, slots(4))]);
    let part = fixture.part(b"k", (&[20, 1], &[1, 1]), 60 * SECOND);
    assert_eq!(part.amounts[..], [10, 1]);
    let id = part.decision.lease.expect("a lease").id;
    let settled = fixture.end(b"k", id, Ending::Settle(&[Some(3), None]));
    let settled = settled.expect("it ends");
    assert_eq!((settled.uses[0].taken, settled.uses[0].used), (10, 3));
    assert_eq!(fixture.left(b"k"), [7, 4]);
    let lost = fixture.part(b"k", (&[20, 0], &[1, 0]), 60 * SECOND);
    let id = lost.decision.lease.expect("a lease").id;
    fixture.end(b"k", id, Ending::Cancel).expect("it ends");
    assert_eq!(fixture.left(b"k"), [7, 4]);
    Ok(())
}
