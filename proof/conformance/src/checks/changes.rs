//! Limits changed while in use: at the next decision, for every key.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Limit, LimitSet};
use tidegate_core::{Bucket, Log, Ring, Rule, Span, Verdict};
use tidegate_store::{KeyCommand, KeyPath, Plan, PlanLimit, StoreError, Verb};

use super::fixture::{Fixture, budget, plan, rate, slots, table_name};
use crate::fixture::KEEP;
use crate::subject::{Skipped, Subject};
use crate::table_ext::TableExt;

/// Used and idle keys alike, at every instant from the change on.
pub(super) fn raising_a_limit_delays_no_one(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for (old, new) in raises() {
        let (mut raised, kept) = (fixture(subject, old), fixture(subject, old));
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
pub(super) fn fixture(subject: &Subject, rule: Rule) -> Fixture {
    let fixture = Fixture::new(subject, 1, &[(0, rule)]);
    fixture.hold(b"used", &[8], 5_000);
    fixture.hold(b"idle", &[5], 9_000);
    fixture
}

/// That there is never less left where a limit was raised.
pub(super) fn leaves_no_less(raised: &Fixture, kept: &Fixture, how: &str) {
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
    let mut fixture = Fixture::new(subject, 1, &[kept]);
    assert!(fixture.admits(b"k", &[40]));
    fixture.change(&[kept, added]);
    assert_eq!(fixture.left(b"k"), [60, 5]);
    assert!(fixture.admits(b"k", &[1, 5]));
    assert!(!fixture.admits(b"k", &[1, 1]));
    fixture.change(&[kept]);
    assert!(fixture.admits(b"k", &[59]));
    assert!(!fixture.admits(b"k", &[1]));
    Ok(())
}

pub(super) fn a_command_made_for_older_limits_is_told_so(subject: &Subject) -> Result<(), Skipped> {
    let mut fixture = Fixture::new(subject, 1, &[(0, rate(1, 10))]);
    let older = plan(0, 1, &[(0, rate(1, 10))]);
    assert!(fixture.admits(b"k", &[10]));
    fixture.change(&[(0, rate(1, 12))]);
    let command = KeyCommand {
        plan: &older,
        key: KeyPath::new(b"k", 1).expect("a key"),
        now: fixture.now(),
        calendars: &[],
        verb: Verb::Debit { amounts: &[5] },
    };
    assert_eq!(fixture.table.one(&command), Err(StoreError::StalePlan));
    assert_eq!(fixture.verdict(b"k", &[2]), Verdict::Admit);
    Ok(())
}

/// A roll-out: one of two servers knows of a change already, of the limit or of a key's
/// own, and requests go to both in turn.
pub(super) fn two_versions_asked_in_turn_admit_no_more_than_the_larger_alone(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    if !subject.abilities().shared {
        return Err("it serves one process at a time");
    }
    let hourly = |n| Rule::Bucket(Bucket::new(n, Span::from_secs(3_600), n).expect("a sound rate"));
    let log = |n| Rule::Log(Log::new(n, Span::from_secs(3_600), 99).expect("a sound log"));
    for (less, more) in [
        (hourly(20), hourly(40)),
        (budget(20), budget(40)),
        (log(20), log(40)),
    ] {
        for by_override in [false, true] {
            let (store, name) = (subject.fresh(), table_name());
            let old = Fixture::remembering(&*store, &name, plan(0, 1, &[(0, less)]));
            let common = if by_override { less } else { more };
            let mut new = Fixture::remembering(&*store, &name, plan(0, 1, &[(0, common)]));
            if by_override {
                new.give(&[(b"k", &[more])]);
            }
            let asked = (0..200).map(|ask| [&old, &new][ask % 2].admits(b"k", &[1]));
            assert_eq!(
                asked.filter(|admitted| *admitted).count(),
                40,
                "{less:?}, {more:?}"
            );
            // What was used is more than the lower one holds, and no debt to it.
            assert_eq!(old.left(b"k"), [0]);
        }
    }
    Ok(())
}

/// One has seen a limit go, the other was made after that; then one is added to both.
pub(super) fn a_limit_that_is_added_is_one_limit_to_sets_of_different_age(
    subject: &Subject,
) -> Result<(), Skipped> {
    if !subject.abilities().shared {
        return Err("it serves one process at a time");
    }
    let daily = |name, count| Limit::calls(name, count, Duration::from_secs(86_400));
    let (a, b, c) = (daily("a", 1_000), daily("b", 1_000), daily("c", 5));
    let (store, name) = (subject.fresh(), table_name());
    let set = |limits: &[Limit]| {
        let builder = LimitSet::builder().name(&*name).store(store.clone());
        builder
            .limits(limits.to_vec())
            .build()
            .expect("sound limits")
    };
    let old = set(&[a.clone(), b]);
    assert!(old.check("k", ()).wait().expect("an answer").admitted());
    old.replace_limits(std::slice::from_ref(&a))
        .expect("sound limits");
    let young = set(std::slice::from_ref(&a));
    for set in [&old, &young] {
        let limits = [a.clone(), c.clone()];
        set.replace_limits(&limits).expect("sound limits");
    }
    let asked = (0..40).map(|ask| [&old, &young][ask % 2].check("k", ()).wait());
    let admitted = asked.filter(|answer| answer.as_ref().expect("an answer").admitted());
    assert_eq!(admitted.count(), 5);
    Ok(())
}

/// One slot or rate that gives back at expiry what it took, or does not.
fn refunding(version: u64, rule: Rule, refund_on_expiry: bool) -> Arc<Plan> {
    let limits = plan(version, 1, &[(0, rule)]).limits().to_vec();
    let limits = limits.into_iter().map(|limit| PlanLimit {
        refund_on_expiry,
        ..limit
    });
    Arc::new(Plan::new(version, 1, limits.collect(), KEEP))
}

/// Nobody looked at a lease that had expired before the limits changed: it is as if
/// somebody had. What it took comes back if it did by the limits of then, and not by those
/// of now.
pub(super) fn what_expired_before_a_change_comes_back_by_the_limits_of_then(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let kept = raises().map(|(rule, _)| (rule, rule));
    let others = raises().into_iter().zip(raises().into_iter().rev());
    let others = others.map(|((rule, _), (other, _))| (rule, other));
    for (old, new) in raises().into_iter().chain(kept).chain(others) {
        for (before, after) in [(false, true), (true, false), (true, true)] {
            let how = format!("{old:?} ({before}) became {new:?} ({after})");
            let [looked, unlooked] = [true, false].map(|looks| {
                let plan = refunding(0, old, before);
                let mut fixture = Fixture::remembering(&*subject.fresh(), &table_name(), plan);
                fixture.hold(b"k", &[5], 1_000);
                fixture.pass(1_500);
                if looks {
                    fixture.left(b"k");
                }
                fixture.plan = refunding(1, new, after);
                fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
                fixture
            });
            if old == new {
                let left = if before || matches!(old, Rule::Slots(_)) {
                    8
                } else {
                    3
                };
                let drained = u64::from(matches!(old, Rule::Bucket(_)) && !before);
                assert_eq!(unlooked.left(b"k"), [left + drained], "{how}");
            }
            for _ in 0..12 {
                let (ours, theirs) = (unlooked.standings(b"k"), looked.standings(b"k"));
                assert_eq!(ours, theirs, "{how}");
                unlooked.pass(900);
                looked.pass(900);
            }
        }
    }
    Ok(())
}
