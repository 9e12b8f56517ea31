//! Capacities that travel with commands: learnt, or shared.

use std::sync::Arc;

use tidegate_core::{
    Align, Amount, Bucket, Log, MAX_AMOUNT, Ring, Rule, Slots, Span, Verdict, Window,
};
use tidegate_store::{Adaptive, Ending, Plan, PlanLimit};

use super::fixture::{Fixture, budget, plan, rate, slots, table_name};
use crate::rng::Rng;
use crate::subject::{Skipped, Subject};

/// How often an adaptive caller changes its capacities: ten times a second.
const STEP: i64 = 100_000;

/// For so many steps, unless `TIDEGATE_CAPACITY_STEPS` says otherwise: a minute.
const STEPS: usize = 600;

/// The same plan, its limits adaptive.
fn adaptive(plan: &Plan) -> Arc<Plan> {
    let adaptive = |limit: &PlanLimit| PlanLimit {
        adaptive: Some(Adaptive::default()),
        ..limit.clone()
    };
    let limits = plan.limits().iter().map(adaptive).collect();
    Arc::new(Plan::new(
        plan.version(),
        plan.levels(),
        limits,
        plan.keep(),
    ))
}

fn set(plan: &Plan, position: usize, capacity: Amount) {
    let adaptive = plan.limits()[position].adaptive.as_ref();
    adaptive.expect("an adaptive limit").set(capacity);
}

fn fixture(subject: &Subject, levels: usize, rules: &[(usize, Rule)]) -> Fixture {
    let plan = adaptive(&plan(0, levels, rules));
    Fixture::remembering(&*subject.fresh(), &table_name(), plan)
}

/// One limit of each algorithm, all of whose usage can be said by an integer: the bucket
/// drains one unit a step, the others end nothing within the hours of the test.
fn each_kind() -> Vec<(usize, Rule)> {
    let hours = Span::from_secs(24 * 3_600);
    let step = Span::from_micros(STEP as u64);
    [
        Bucket::new(1, step, 20).map(Rule::Bucket),
        Window::new(20, Align::FirstUse(hours)).map(Rule::Window),
        Ring::new(20, hours, 24).map(Rule::Ring),
        Log::new(20, hours, 4_096).map(Rule::Log),
        Slots::new(20, hours).map(Rule::Slots),
    ]
    .into_iter()
    .map(|rule| (0, rule.expect("a sound rule")))
    .collect()
}

/// Every decision is the one that whoever counts by itself would make, and no change is a
/// revision of the limits.
pub(super) fn a_capacity_that_changes_ten_times_a_second_forgets_nothing(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let steps = std::env::var("TIDEGATE_CAPACITY_STEPS");
    let steps = steps.map_or(STEPS, |steps| steps.parse().expect("a number of steps"));
    let (store, name) = (subject.fresh(), table_name());
    let fixture = Fixture::remembering(&*store, &name, adaptive(&plan(0, 1, &each_kind())));
    let mut rng = Rng::new(7);
    let (mut used, mut held) = ([0_u64; 5], Vec::new());
    let (mut admitted, mut refused) = (0, 0);
    for step in 0..steps {
        fixture.pass(STEP);
        used[0] = used[0].saturating_sub(1);
        let cost = rng.between(1, 3);
        let amounts = [cost, cost, cost, cost, 1];
        let mut fits = true;
        for (position, used) in used.iter().enumerate() {
            let capacity = (used + rng.between(3, 12)).saturating_sub(4).max(1);
            set(&fixture.plan, position, capacity);
            fits &= used + amounts[position] <= capacity;
        }
        let decision = fixture.lease_by(b"k", &amounts, 12 * 3_600_000_000, None);
        let decision = decision.expect("no change of the limits");
        assert_eq!(decision.verdict.admitted(), fits, "at step {step}");
        match decision.lease {
            None => refused += 1,
            Some(lease) => {
                admitted += 1;
                held.push(lease.id);
                used.iter_mut().zip(amounts).for_each(|(u, a)| *u += a);
            }
        }
        if held.len() > 3 {
            let lease = held.remove(rng.below(held.len() as u64) as usize);
            let ended = fixture.end(b"k", lease, Ending::Release);
            ended.expect("it is held");
            used[4] -= 1;
        }
    }
    for (position, used) in used.into_iter().enumerate() {
        set(&fixture.plan, position, used.max(2) / 2);
    }
    let uses = |fixture: &Fixture| -> Vec<Amount> {
        let standings = fixture.standings(b"k");
        let used = standings.iter().map(|s| s.limit + s.debt - s.remaining);
        used.collect()
    };
    assert_eq!(uses(&fixture), used);
    assert!(admitted > steps / 8 && refused > steps / 8, "{admitted}");
    let last = store.last_plan(&name).expect("an answer");
    assert!(last.is_none_or(|plan| plan.version() == 0), "a revision");
    Ok(())
}

/// Below what is in use nothing is granted until it fits again; more counts at once.
pub(super) fn a_capacity_is_lowered_and_raised_between_two_commands(
    subject: &Subject,
) -> Result<(), Skipped> {
    for rule in [rate(1, 10), budget(10), slots(10)] {
        let fixture = fixture(subject, 1, &[(0, rule)]);
        fixture.hold(b"k", &[6], 5_000_000);
        set(&fixture.plan, 0, 4);
        let standing = fixture.standings(b"k")[0];
        assert_eq!(
            (standing.limit, standing.remaining, standing.debt),
            (4, 0, 2),
            "of {rule:?}"
        );
        assert!(matches!(fixture.verdict(b"k", &[4]), Verdict::NotUntil(_)));
        assert_eq!(fixture.verdict(b"k", &[5]), Verdict::Never);
        assert!(fixture.admits(b"other", &[4]));
        set(&fixture.plan, 0, 25);
        assert_eq!(fixture.left(b"k"), [19], "of {rule:?}");
        // What no rule can have is not gone by.
        for capacity in [0, MAX_AMOUNT + 1] {
            set(&fixture.plan, 0, capacity);
            assert_eq!(fixture.left(b"k"), [4], "of {rule:?}");
        }
    }
    Ok(())
}

/// Who asks next need not know what another learnt: each goes by its own, and what is in
/// use is counted for both.
pub(super) fn two_callers_with_capacities_of_their_own_count_the_same_usage(
    subject: &Subject,
) -> Result<(), Skipped> {
    for rule in [rate(1, 10), budget(10), slots(10)] {
        let fixture = fixture(subject, 1, &[(0, rule)]);
        let other = fixture.beside(adaptive(&fixture.plan));
        set(&fixture.plan, 0, 20);
        set(&other.plan, 0, 5);
        fixture.hold(b"k", &[4], 5_000_000);
        other.hold(b"k", &[1], 5_000_000);
        assert_eq!((fixture.left(b"k"), other.left(b"k")), (vec![15], vec![0]));
        fixture.hold(b"k", &[15], 5_000_000);
        assert_eq!(other.standings(b"k")[0].debt, 15, "of {rule:?}");
    }
    Ok(())
}

/// An override says how much a key may have: what is learnt for all others is not its.
pub(super) fn a_key_with_limits_of_its_own_has_no_other_capacity(
    subject: &Subject,
) -> Result<(), Skipped> {
    for (common, own) in [(rate(1, 8), rate(1, 20)), (budget(8), budget(20))] {
        let rules = [(0, common), (1, common)];
        let mut fixture = fixture(subject, 2, &rules);
        fixture.give(&[(b"a/own", &[own])]);
        set(&fixture.plan, 0, 100);
        set(&fixture.plan, 1, 3);
        assert!(fixture.admits(b"a/own", &[5, 15]), "of {common:?}");
        assert_eq!(fixture.left(b"a/own"), [95, 5]);
        assert!(!fixture.admits(b"a/other", &[4, 4]));
        assert!(fixture.admits(b"a/other", &[3, 3]));
        fixture.give(&[]);
        assert_eq!(fixture.left(b"a/own"), [92, 0], "of {common:?}");
    }
    Ok(())
}
