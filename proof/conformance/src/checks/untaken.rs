//! Answers that nobody takes: whoever sent the command went away before its answer came.
//! A store that answers at once has no such answers.

use tidegate_core::{Amount, Span};
use tidegate_store::{Command, Detail, Ending, Out, Reply, Terms, Verb};

use super::fixture::{Fixture, budget, slots};
use crate::subject::{Skipped, Subject};

const HOUR: u64 = 3_600_000_000;
const COMMANDS: u64 = 30;

/// So often is a table looked at before it counts as one that stays so.
const LOOKS: usize = 20_000;

/// So often while an adjustment that was dropped may be under way.
const GLANCES: usize = 20;

impl Fixture {
    /// Sends a command, and drops what would be its answer.
    fn send(&self, key: &[u8], verb: Verb<'_>) -> Result<(), Skipped> {
        let mut answer = Ok(Reply::Done);
        let command = Command::from(self.command(key, verb));
        let execution = self.table.execute(&command, Out::new(&mut answer));
        let later = execution.pending().ok_or("it answers at once")?;
        drop(later);
        Ok(())
    }

    /// Looks at a key until so much of its limits is left.
    fn becomes(&self, key: &[u8], left: &[Amount]) {
        for _ in 0..LOOKS {
            if self.left(key) == left {
                return;
            }
        }
        assert_eq!(self.left(key), left);
    }

    fn lease_of<'v>(&self, amounts: &'v [Amount], id: u64, again: Option<&'v [u8]>) -> Verb<'v> {
        Verb::Take {
            amounts,
            lease: Some(Terms {
                id: u128::from(id),
                expires_at: self.now() + Span::from_micros(HOUR),
                idempotency: again,
                least: None,
            }),
            detail: Detail::Always,
        }
    }
}

/// It would be held until it expires, by nobody. The charge beside it says that the
/// commands had arrived.
pub(super) fn a_lease_whose_answer_nobody_takes_is_given_back(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, budget(1_000)), (0, slots(100))]);
    for id in 1..=COMMANDS {
        fixture.send(b"k", fixture.lease_of(&[1, 1], id, None))?;
        fixture.send(b"k", Verb::Debit { amounts: &[10, 0] })?;
    }
    fixture.becomes(b"k", &[1_000 - 10 * COMMANDS, 100]);
    Ok(())
}

pub(super) fn what_is_charged_without_a_lease_stays_charged_whoever_takes_the_answer(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, budget(1_000))]);
    let take = Verb::Take {
        amounts: &[3],
        lease: None,
        detail: Detail::Verdict,
    };
    for _ in 0..COMMANDS {
        fixture.send(b"k", take)?;
    }
    fixture.becomes(b"k", &[1_000 - 3 * COMMANDS]);
    Ok(())
}

/// Its sender repeats it by the same idempotency key: the lease is granted once, and held.
pub(super) fn a_lease_of_an_idempotency_key_stays_for_the_retry(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, budget(1_000)), (0, slots(100))]);
    for n in 0..COMMANDS {
        let (key, once) = (format!("key {n}"), Some(&b"once"[..]));
        let key = key.as_bytes();
        fixture.send(key, fixture.lease_of(&[1, 1], 1_000 + n, once))?;
        fixture.send(key, Verb::Debit { amounts: &[10, 0] })?;
        fixture.becomes(key, &[989, 99]);
        let retry = fixture.decide(key, fixture.lease_of(&[1, 1], 5_000 + n, once));
        let lease = retry.expect("an answer").lease.expect("it is held");
        assert_eq!((lease.id, lease.repeated), (u128::from(1_000 + n), true));
        let ended = fixture.end(key, lease.id, Ending::Cancel).expect("held");
        assert!(!ended.repeated);
        assert_eq!(fixture.left(key), [990, 100]);
    }
    Ok(())
}

/// What it was to give back is given back.
pub(super) fn an_end_whose_answer_nobody_takes_is_an_end(subject: &Subject) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, slots(100))]);
    for _ in 0..COMMANDS {
        let (id, _) = fixture.hold(b"k", &[1], HOUR);
        let end = Verb::End {
            id,
            ending: Ending::Release,
            remember: true,
        };
        fixture.send(b"k", end)?;
    }
    fixture.becomes(b"k", &[100]);
    Ok(())
}

/// Its sender went away: at each moment the lease has all of it or nothing, more and less
/// alike; asked for again it is made once; and the lease gives back what it has by then.
pub(super) fn an_adjustment_whose_answer_nobody_takes_is_made_whole_or_not_and_once_by_a_retry(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, budget(1_000)), (0, slots(100))]);
    let before = [960, 98];
    let cases = [([90, 5], [910, 95]), ([10, 1], [990, 99])];
    for n in 0..COMMANDS {
        let (to, after) = cases[n as usize % cases.len()];
        let (key, to) = (format!("key {n}"), to.map(Some));
        let key = key.as_bytes();
        let (id, _) = fixture.hold(key, &[40, 2], HOUR);
        let adjust = Verb::Adjust {
            id,
            to: &to,
            overdraw: false,
            detail: Detail::OnRefusal,
        };
        fixture.send(key, adjust)?;
        for _ in 0..GLANCES {
            let left = fixture.left(key);
            assert!(left == before || left == after, "{left:?}");
        }
        let again = fixture.decide(key, adjust).expect("it is held");
        assert!(again.verdict.admitted());
        assert_eq!(fixture.left(key), after);
        fixture.end(key, id, Ending::Cancel).expect("held");
        assert_eq!(fixture.left(key), [1_000, 100]);
    }
    Ok(())
}
