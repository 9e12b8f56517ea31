//! Limits changed while in use: at the next decision, for every key.

use tidegate::contract::core::{Log, Ring, Rule, Span, Verdict};
use tidegate::contract::{Command, KeyPath, StoreError, Verb};

use super::Skipped;
use super::desk::{Desk, budget, plan, rate, slots};
use crate::Subject;

/// Used and idle keys alike, at every instant from the change on.
pub(super) fn raising_a_limit_delays_no_one(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for (old, new) in raises() {
        let (mut raised, kept) = (desk(subject, old), desk(subject, old));
        raised.pass(300);
        kept.pass(300);
        raised.change(&[(0, new)]);
        leaves_no_less(&raised, &kept, &format!("{old:?} became {new:?}"));
    }
    Ok(())
}

/// Limits, and what each is raised to.
pub(super) fn raises() -> [(Rule, Rule); 6] {
    let window = Span::from_millis(10);
    let ring = |capacity| Rule::Ring(Ring::new(capacity, window, 4).expect("a sound ring"));
    let log = |capacity| Rule::Log(Log::new(capacity, window, 9).expect("a sound log"));
    [
        (rate(1, 8), rate(1, 12)),
        (rate(1, 8), rate(3, 8)),
        (budget(8), budget(11)),
        (slots(8), slots(9)),
        (ring(8), ring(12)),
        (log(8), log(12)),
    ]
}

/// A limit that is used up for one key and half used for another.
pub(super) fn desk(subject: &Subject, rule: Rule) -> Desk {
    let desk = Desk::new(subject, 1, &[(0, rule)]);
    desk.hold(b"used", &[8], 5_000);
    desk.hold(b"idle", &[5], 9_000);
    desk
}

/// That there is never less left where a limit was raised.
pub(super) fn leaves_no_less(raised: &Desk, kept: &Desk, how: &str) {
    for _ in 0..20 {
        raised.pass(700);
        kept.pass(700);
        for key in [&b"used"[..], b"idle"] {
            let (more, less) = (raised.left(key)[0], kept.left(key)[0]);
            assert!(more >= less, "{more} left, not {less}, after {how}");
        }
    }
}

pub(super) fn a_limit_counts_from_when_it_was_added_to_when_it_was_removed(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (kept, added) = ((0, budget(100)), (0, rate(1, 5)));
    let mut desk = Desk::new(subject, 1, &[kept]);
    assert!(desk.admits(b"k", &[40]));
    desk.change(&[kept, added]);
    assert_eq!(desk.left(b"k"), [60, 5]);
    assert!(desk.admits(b"k", &[1, 5]));
    assert!(!desk.admits(b"k", &[1, 1]));
    desk.change(&[kept]);
    assert!(desk.admits(b"k", &[59]));
    assert!(!desk.admits(b"k", &[1]));
    Ok(())
}

pub(super) fn a_command_made_for_older_limits_is_told_so(subject: &Subject) -> Result<(), Skipped> {
    let mut desk = Desk::new(subject, 1, &[(0, rate(1, 10))]);
    let older = plan(0, 1, &[(0, rate(1, 10))]);
    assert!(desk.admits(b"k", &[10]));
    desk.change(&[(0, rate(1, 12))]);
    let command = Command {
        plan: &older,
        key: KeyPath::new(b"k", 1).expect("a key"),
        now: desk.now(),
        calendars: &[],
        verb: Verb::Debit { amounts: &[5] },
    };
    assert_eq!(desk.table.execute(&command), Err(StoreError::StalePlan));
    assert_eq!(desk.verdict(b"k", &[2]), Verdict::Admit);
    Ok(())
}
