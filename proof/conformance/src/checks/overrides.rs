//! Keys with limits of their own: set, changed and taken while in use.

use std::sync::Arc;

use tidegate_core::Rule;
use tidegate_store::{Plan, Store};

use super::changes::{fixture, leaves_no_less, raises};
use super::fixture::{Fixture, budget, overrides, plan, rate, slots, table_name};
use crate::subject::{Skipped, Subject};

pub(super) fn a_limit_of_its_own_holds_for_its_key_and_no_other(
    subject: &Subject,
) -> Result<(), Skipped> {
    for (common, own) in [(rate(1, 8), rate(1, 20)), (budget(8), budget(20))] {
        let mut fixture = Fixture::new(subject, 1, &[(0, common)]);
        fixture.give(&[(b"own", &[own])]);
        assert!(fixture.admits(b"own", &[20]));
        assert!(!fixture.admits(b"own", &[1]));
        assert!(!fixture.admits(b"other", &[9]));
        assert!(fixture.admits(b"other", &[8]));
        fixture.give(&[]);
        assert_eq!(fixture.left(b"own"), [0]);
    }
    Ok(())
}

/// Used and idle keys alike, by every kind, at every instant from the change on.
pub(super) fn raising_a_keys_own_limit_delays_no_one(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for (old, new) in raises() {
        for from in [None, Some(old)] {
            let (mut raised, mut kept) = (fixture(subject, old), fixture(subject, old));
            if let Some(own) = from {
                raised.give(&[(b"used", &[own]), (b"idle", &[own])]);
                kept.give(&[(b"used", &[own]), (b"idle", &[own])]);
            }
            raised.pass(300);
            kept.pass(300);
            raised.give(&[(b"used", &[new]), (b"idle", &[new])]);
            leaves_no_less(&raised, &kept, &format!("{old:?} became {new:?}"));
        }
    }
    Ok(())
}

pub(super) fn a_lowered_limit_of_a_key_keeps_what_was_used(
    subject: &Subject,
) -> Result<(), Skipped> {
    for (common, own) in [
        (rate(1, 8), rate(1, 5)),
        (budget(8), budget(5)),
        (slots(8), slots(5)),
    ] {
        let mut fixture = Fixture::new(subject, 1, &[(0, common)]);
        fixture.hold(b"k", &[4], 5_000);
        fixture.give(&[(b"k", &[own])]);
        assert_eq!(fixture.left(b"k"), [1], "of {own:?}");
        fixture.give(&[]);
        assert_eq!(fixture.left(b"k"), [4], "of {common:?}");
    }
    Ok(())
}

pub(super) fn ancestors_have_limits_of_their_own(subject: &Subject) -> Result<(), Skipped> {
    let mut fixture = Fixture::new(subject, 2, &[(0, budget(10)), (1, budget(4))]);
    fixture.give(&[(b"a", &[budget(20)]), (b"a/x", &[budget(15)])]);
    assert!(fixture.admits(b"a/x", &[15, 15]));
    assert!(!fixture.admits(b"a/y", &[5, 5]));
    assert!(fixture.admits(b"a/y", &[4, 4]));
    assert!(!fixture.admits(b"a/z", &[2, 2]));
    assert!(!fixture.admits(b"b/x", &[5, 5]));
    fixture.give(&[(b"a/x", &[budget(15)])]);
    assert_eq!(fixture.left(b"a/z"), [0, 4]);
    assert_eq!(fixture.left(b"b/x"), [10, 4]);
    Ok(())
}

pub(super) fn a_limit_of_its_own_outlives_the_rows_of_its_key(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for (common, own) in [(rate(1, 8), rate(1, 20)), (budget(8), budget(20))] {
        let store = subject.bounded_store(3, 10)?;
        let mut fixture = Fixture::remembering(&*store, &table_name(), plan(0, 1, &[(0, common)]));
        fixture.give(&[(b"own", &[own])]);
        for round in 0_u8..4 {
            assert!(fixture.admits(b"own", &[20]));
            assert!(!fixture.admits(b"own", &[1]));
            fixture.pass(40_000);
            assert!((0..3).all(|other| fixture.admits(&[round, other], &[8])));
            fixture.pass(40_000);
        }
    }
    Ok(())
}

/// The table is opened again with the same limits of its key's own, or others.
pub(super) fn what_was_used_by_limits_of_its_own_survives_a_restart(
    subject: &Subject,
) -> Result<(), Skipped> {
    let reopen = subject.reopened_store()?;
    for (common, own) in [(rate(1, 8), rate(1, 100)), (budget(8), budget(100))] {
        let (name, rules) = (table_name(), [(0, common)]);
        let store = subject.fresh();
        let mut fixture = Fixture::remembering(&*store, &name, plan(0, 1, &rules));
        fixture.give(&[(b"own", &[own])]);
        assert!(fixture.admits(b"own", &[60]));
        assert!(fixture.admits(b"other", &[5]));
        drop((fixture, store));
        let again = |store: &dyn Store, given: &[(&[u8], &[Rule])]| {
            let last = store.last_plan(&name).expect("an answer");
            let version = last.expect("it is known").version() + 1;
            let plan = Plan::clone(&plan(version, 1, &rules));
            let overrides = overrides(&plan, given);
            Fixture::remembering(store, &name, Arc::new(plan.with_overrides(overrides)))
        };
        for given in [own, own] {
            let store = reopen();
            let fixture = again(&*store, &[(b"own", &[given])]);
            assert_eq!(
                (fixture.left(b"own"), fixture.left(b"other")),
                (vec![40], vec![3])
            );
        }
        let store = reopen();
        let fixture = again(&*store, &[]);
        assert_eq!(
            (fixture.left(b"own"), fixture.left(b"other")),
            (vec![0], vec![3])
        );
    }
    Ok(())
}

/// Some stores went on by the key's own limits to the last change, past the one that had removed
/// the limit.
pub(super) fn a_limit_of_its_own_that_was_removed_counts_from_when_it_is_added_again(
    subject: &Subject,
) -> Result<(), Skipped> {
    for (common, own) in [(rate(1, 8), rate(1, 20)), (budget(8), budget(20))] {
        let stays = (0, budget(1_000));
        let mut fixture = Fixture::new(subject, 1, &[stays, (0, common)]);
        fixture.give(&[(b"own", &[budget(900), own])]);
        assert!(fixture.admits(b"own", &[1, 20]));
        fixture.change(&[stays]);
        assert!(fixture.admits(b"other", &[1]));
        fixture.change(&[stays, (0, common)]);
        fixture.give(&[(b"own", &[budget(900), own])]);
        assert_eq!(fixture.left(b"own"), [899, 20], "{own:?}");
    }
    Ok(())
}
