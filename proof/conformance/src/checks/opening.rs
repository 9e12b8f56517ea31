//! Tables opened twice, again, and after a restart.

use std::sync::Arc;

use tidegate_core::kernel::ring::MAX_SUB_WINDOWS;
use tidegate_core::{Align, Bucket, Log, MAX_AMOUNT, Ring, Rule, Slots, Span, Window};
use tidegate_store::{Ending, Store, StoreError};

use super::fixture::{Fixture, budget, plan, slots, table_name};
use crate::rng::Rng;
use crate::subject::{Skipped, Subject};

pub(super) fn two_opens_of_one_name_are_an_error(subject: &Subject) -> Result<(), Skipped> {
    if subject.abilities().shared {
        return Err("the store serves several processes, and so several opens");
    }
    let (store, name) = (subject.fresh(), table_name());
    let plan = plan(0, 1, &[(0, slots(1))]);
    let first = store.open(&name, &plan).expect("a table that opens");
    let second = store.open(&name, &plan).map(|_| ());
    assert_eq!(second, Err(StoreError::InUse(name.clone())));
    drop(first);
    assert!(store.open(&name, &plan).is_ok());
    Ok(())
}

/// Rows are kept by levels: under others they would not be found, and every
/// budget be granted again.
pub(super) fn a_table_opened_with_other_levels_is_an_error(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, name) = (subject.fresh(), table_name());
    let fixture = Fixture::remembering(&*store, &name, plan(0, 1, &[(0, budget(5))]));
    assert!(fixture.admits(b"a/b", &[5]));
    drop(fixture);
    let other = StoreError::OtherLevels {
        name: name.clone(),
        kept: 1,
        wanted: 2,
    };
    let deeper = store.open(&name, &plan(1, 2, &[(1, budget(5))]));
    assert_eq!(deeper.map(|_| ()), Err(other));
    Ok(())
}

pub(super) fn a_table_opened_again_goes_on_where_it_was_left(
    subject: &Subject,
) -> Result<(), Skipped> {
    let store = subject.fresh();
    goes_on(&store, &store);
    Ok(())
}

pub(super) fn state_survives_a_restart(subject: &Subject) -> Result<(), Skipped> {
    let reopened = subject.reopened_store()?;
    let before = subject.fresh();
    goes_on_after(before, reopened);
    Ok(())
}

fn goes_on(before: &Arc<dyn Store>, after: &Arc<dyn Store>) {
    let name = table_name();
    let left = leave(&**before, &name);
    find(&**after, &name, left);
}

/// The first store is gone before the second is opened.
fn goes_on_after(before: Arc<dyn Store>, reopen: impl Fn() -> Arc<dyn Store>) {
    let name = table_name();
    let left = leave(&*before, &name);
    drop(before);
    find(&*reopen(), &name, left);
}

/// Uses a table, and leaves it with a lease held: its id and its fence.
fn leave(store: &dyn Store, name: &str) -> (u128, u64) {
    let fixture = Fixture::remembering(store, name, plan(0, 1, &[(0, budget(50)), (0, slots(3))]));
    assert!(fixture.admits(b"k", &[20, 0]));
    fixture.hold(b"k", &[5, 1], 1_000_000)
}

/// Nobody in this process uses it any more; in another somebody may.
pub(super) fn a_table_that_is_forgotten_begins_anew_unless_others_share_it(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, name, other) = (subject.fresh(), table_name(), table_name());
    let (_, kept) = (leave(&*store, &name), leave(&*store, &other));
    store.forget(&name);
    if subject.abilities().shared {
        assert!(store.last_plan(&name).expect("an answer").is_some());
    }
    let plan = plan(1, 1, &[(0, budget(50)), (0, slots(3))]);
    let fixture = Fixture::remembering(&*store, &name, plan);
    let left = match subject.abilities().shared {
        true => [25, 2],
        false => [50, 3],
    };
    assert_eq!(fixture.left(b"k"), left);
    find(&*store, &other, kept);
    Ok(())
}

/// Everything is as it was left: use, holders, leases, fences, the plan.
fn find(store: &dyn Store, name: &str, (id, fence): (u128, u64)) {
    let last = store.last_plan(name).expect("an answer");
    let last = last.expect("the table is known");
    assert_eq!((last.version(), last.limits().len()), (0, 2));
    let plan = plan(last.version() + 1, 1, &[(0, budget(50)), (0, slots(3))]);
    let fixture = Fixture::remembering(store, name, plan);
    fixture.number_from(id);
    assert_eq!(fixture.left(b"k"), [25, 2]);
    let ended = fixture.end(b"k", id, Ending::Settle(&[Some(1), None]));
    assert!(!ended.expect("still held").repeated);
    assert_eq!(fixture.left(b"k"), [29, 3]);
    let again = fixture
        .lease_by(b"k", &[1, 1], 1_000, None)
        .expect("an answer");
    assert!(again.lease.expect("it fits").fence > fence);
}

/// Whatever is accepted is told by the store as it was given, at its widest and at its
/// narrowest.
pub(super) fn every_limit_that_can_be_made_is_read_back(subject: &Subject) -> Result<(), Skipped> {
    subject.reopened_store()?;
    let (store, mut rng) = (subject.fresh(), Rng::new(0));
    for _ in 0..20 {
        let rules: Vec<_> = any_rules(&mut rng)
            .into_iter()
            .map(|rule| (0, rule))
            .collect();
        let (name, plan) = (table_name(), plan(0, 1, &rules));
        let fixture = Fixture::remembering(&*store, &name, Arc::clone(&plan));
        fixture.standings(b"k");
        let last = store.last_plan(&name).expect("it can be read");
        assert_eq!(last.expect("it is known").limits(), plan.limits());
    }
    Ok(())
}

/// A rule of each kind.
fn any_rules(rng: &mut Rng) -> Vec<Rule> {
    let longest = Span::LONGEST_PERIOD.as_micros();
    let amount = |rng: &mut Rng| match rng.below(3) {
        0 => rng.between(1, 100),
        1 => rng.between(1, MAX_AMOUNT),
        _ => MAX_AMOUNT,
    };
    let period = |rng: &mut Rng| {
        let micros = match rng.below(4) {
            0 => 1_000,
            1 => rng.between(1_000, 5_000),
            2 => rng.between(1_000, longest),
            _ => longest,
        };
        Span::from_micros(micros)
    };
    let window = period(rng);
    let most = u64::from(MAX_SUB_WINDOWS).min(window.as_micros());
    let sub_windows = if rng.percent(50) {
        most
    } else {
        rng.between(1, most)
    };
    let rules = [
        Bucket::new(amount(rng), period(rng), amount(rng)).map(Rule::Bucket),
        Window::new(amount(rng), Align::Epoch(period(rng))).map(Rule::Window),
        Window::new(amount(rng), Align::FirstUse(period(rng))).map(Rule::Window),
        Ring::new(amount(rng), window, sub_windows as u32).map(Rule::Ring),
        Log::new(amount(rng), period(rng), rng.between(2, 1 << 20) as u32).map(Rule::Log),
        Slots::new(amount(rng), period(rng)).map(Rule::Slots),
    ];
    rules
        .into_iter()
        .map(|rule| rule.expect("in range"))
        .collect()
}
