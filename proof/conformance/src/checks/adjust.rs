//! A lease that is adjusted: more, all or nothing; less; into debt.

use std::sync::Arc;

use tidegate_core::{Align, Amount, Bucket, Log, MAX_AMOUNT, Ring, Rule, Span, Verdict, Window};
use tidegate_store::{Decision, Detail, Ending, Plan, StoreError, Verb};

use super::fixture::{Fixture, budget, plan, rate, slots, table_name};
use crate::fixture::KEEP;
use crate::subject::{Skipped, Subject};

const SECOND: u64 = 1_000_000;

impl Fixture {
    fn change_of(
        &self,
        key: &[u8],
        id: u128,
        to: &[Option<Amount>],
        overdraw: bool,
    ) -> Result<Decision, StoreError> {
        let verb = Verb::Adjust {
            id,
            to,
            overdraw,
            detail: Detail::OnRefusal,
        };
        self.execute(key, verb)?.decision()
    }

    fn adjust(&self, id: u128, to: &[Option<Amount>]) -> Verdict {
        let decision = self.change_of(b"k", id, to, false).expect("it is held");
        let lease = decision.lease.map(|lease| (lease.id, lease.repeated));
        assert_eq!(lease, decision.verdict.admitted().then_some((id, true)));
        decision.verdict
    }
}

pub(super) fn a_lease_is_adjusted_all_or_nothing(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, budget(100)), (0, slots(3))]);
    let (id, _) = fixture.hold(b"k", &[40, 1], SECOND);
    assert!(fixture.adjust(id, &[Some(90), None]).admitted());
    assert_eq!(fixture.left(b"k"), [10, 2]);
    let (other, _) = fixture.hold(b"k", &[1, 1], SECOND);
    // The slots are there, the rest is not; and the other way about.
    assert!(!fixture.adjust(id, &[Some(100), Some(2)]).admitted());
    assert!(!fixture.adjust(id, &[Some(99), Some(3)]).admitted());
    assert_eq!(fixture.left(b"k"), [9, 1], "a refusal changes nothing");
    assert!(fixture.adjust(id, &[Some(99), Some(2)]).admitted());
    assert_eq!(fixture.left(b"k"), [0, 0]);
    assert_eq!(fixture.adjust(id, &[None, Some(4)]), Verdict::Never);
    assert!(fixture.adjust(id, &[Some(20), Some(1)]).admitted());
    assert_eq!(fixture.left(b"k"), [79, 1]);
    fixture.end(b"k", other, Ending::Cancel).expect("held");
    let settled = fixture.end(b"k", id, Ending::Settle(&[Some(30), None]));
    let uses = settled.expect("held").uses;
    let uses: Vec<_> = uses.iter().map(|u| (u.uid, u.taken, u.used)).collect();
    assert_eq!(uses, [(0, 20, 30), (1, 1, 1)]);
    assert_eq!(fixture.left(b"k"), [70, 3]);
    Ok(())
}

pub(super) fn an_adjustment_that_is_repeated_changes_nothing(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, budget(100)), (0, slots(3))]);
    let (id, fence) = fixture.hold(b"k", &[40, 1], SECOND);
    for to in [[Some(60), Some(2)], [Some(0), Some(0)], [Some(7), Some(3)]] {
        for _ in 0..3 {
            assert!(fixture.adjust(id, &to).admitted());
            let [taken, held] = to.map(Option::unwrap_or_default);
            assert_eq!(fixture.left(b"k"), [100 - taken, 3 - held]);
        }
    }
    let decision = fixture.change_of(b"k", id, &[None, None], false);
    let lease = decision
        .expect("it is held")
        .lease
        .expect("nothing is asked");
    assert!(lease.fence > fence, "slots that were asked for anew");
    fixture.end(b"k", id, Ending::Cancel).expect("held");
    assert_eq!(fixture.left(b"k"), [100, 3]);
    Ok(())
}

pub(super) fn a_lease_is_adjusted_into_debt_where_that_is_said(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, rate(1, 100)), (0, slots(2))]);
    let (id, _) = fixture.hold(b"k", &[40, 1], SECOND);
    let over = |to: &[Option<Amount>]| fixture.change_of(b"k", id, to, true).expect("it is held");
    assert!(over(&[Some(150), None]).verdict.admitted());
    // Fifty over the brim, and one for the take.
    assert_eq!(
        fixture.verdict(b"k", &[1, 0]),
        Verdict::NotUntil(fixture.now() + Span::from_millis(51))
    );
    assert_eq!(over(&[Some(500), Some(3)]).verdict, Verdict::Never);
    assert_eq!(
        fixture.verdict(b"k", &[1, 0]),
        Verdict::NotUntil(fixture.now() + Span::from_millis(51))
    );
    fixture.pass(51_000);
    assert!(fixture.admits(b"k", &[1, 0]));
    fixture.end(b"k", id, Ending::Cancel).expect("held");
    Ok(())
}

/// What it had taken of one had come back, and was never taken again.
pub(super) fn a_shadow_that_let_a_lease_in_counts_whatever_it_is_adjusted_to(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let rules = [budget(100), budget(90), slots(20)];
    let mut limits = plan(0, 1, &rules.map(|rule| (0, rule))).limits().to_vec();
    for limit in &mut limits[1..] {
        limit.shadow = true;
    }
    let plan = Arc::new(Plan::new(0, 1, limits, KEEP));
    let fixture = Fixture::remembering(&*subject.fresh(), &table_name(), plan);
    let (id, _) = fixture.hold(b"k", &[10, 10, 1], SECOND);
    for (to, overdraw) in [
        (0, false),
        (7, false),
        (12, true),
        (0, true),
        (0, false),
        (4, true),
    ] {
        let changed = fixture.change_of(b"k", id, &[Some(to); 3], overdraw);
        assert!(changed.expect("it is held").verdict.admitted());
        assert_eq!(fixture.left(b"k"), [100 - to, 90 - to, 20 - to]);
    }
    for to in [[None, Some(0), None], [Some(5), None, Some(0)]] {
        let changed = fixture.change_of(b"k", id, &to, false);
        assert!(changed.expect("it is held").verdict.admitted());
    }
    assert_eq!(fixture.left(b"k"), [95, 90, 20]);
    let settled = fixture.end(b"k", id, Ending::Settle(&[None, Some(6), None]));
    let uses = settled.expect("held").uses;
    let mut uses: Vec<_> = uses.iter().map(|u| (u.uid, u.taken, u.used)).collect();
    uses.sort_unstable();
    assert_eq!(uses, [(0, 5, 5), (1, 0, 6), (2, 0, 0)]);
    assert_eq!(fixture.left(b"k"), [95, 84, 20]);
    Ok(())
}

/// What had come back of it is charged once when it is used after all, and told once.
pub(super) fn a_shadow_that_is_none_any_more_is_charged_once(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let rules = [budget(100), budget(90)].map(|rule| (0, rule));
    let mut limits = plan(0, 1, &rules).limits().to_vec();
    limits[1].shadow = true;
    let plan = Arc::new(Plan::new(0, 1, limits, KEEP));
    let mut fixture = Fixture::remembering(&*subject.fresh(), &table_name(), plan);
    let (settled, _) = fixture.hold(b"k", &[10, 10], SECOND);
    let (released, _) = fixture.hold(b"k", &[1, 1], SECOND);
    for id in [settled, released] {
        assert!(fixture.adjust(id, &[None, Some(0)]).admitted());
    }
    fixture.change(&rules);
    for id in [settled, released] {
        assert!(fixture.adjust(id, &[Some(12), None]).admitted());
    }
    let uses = |id, ending| {
        let uses = fixture.end(b"k", id, ending).expect("held").uses;
        let mut uses: Vec<_> = uses.iter().map(|u| (u.uid, u.taken, u.used)).collect();
        uses.sort_unstable();
        uses
    };
    let all_of_it = uses(settled, Ending::Settle(&[None, Some(6)]));
    assert_eq!(all_of_it, [(0, 12, 12), (1, 0, 6)]);
    assert_eq!(uses(released, Ending::Release), [(0, 12, 12), (1, 0, 0)]);
    assert_eq!(fixture.left(b"k"), [76, 84]);
    Ok(())
}

/// It goes on as if it had, as where the lease is settled.
pub(super) fn a_shadow_of_which_a_lease_has_nothing_stays_so_when_it_is_adjusted(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let rules = [budget(100), budget(10), slots(1)];
    let mut limits = plan(0, 1, &rules.map(|rule| (0, rule))).limits().to_vec();
    for limit in &mut limits[1..] {
        limit.shadow = true;
    }
    let plan = Arc::new(Plan::new(0, 1, limits, KEEP));
    let fixture = Fixture::remembering(&*subject.fresh(), &table_name(), plan);
    let (first, _) = fixture.hold(b"k", &[4, 4, 1], SECOND);
    let (second, _) = fixture.hold(b"k", &[7, 7, 1], SECOND);
    assert_eq!(
        fixture.left(b"k"),
        [89, 6, 0],
        "both shadows refuse the second"
    );
    for (overdraw, to) in [(true, 9), (true, 12), (false, 15), (false, 3)] {
        let to = [Some(to), Some(to), Some(1)];
        let changed = fixture.change_of(b"k", second, &to, overdraw);
        assert!(changed.expect("it is held").verdict.admitted());
        assert_eq!(fixture.left(b"k")[1..], [6, 0]);
    }
    // Nor do they when there is room again.
    fixture.end(b"k", first, Ending::Cancel).expect("held");
    let changed = fixture.change_of(b"k", second, &[Some(5), Some(5), Some(1)], false);
    assert!(changed.expect("it is held").verdict.admitted());
    assert_eq!(fixture.left(b"k"), [95, 10, 1]);
    fixture
        .end(b"k", second, Ending::Settle(&[Some(6); 3]))
        .expect("held");
    assert_eq!(fixture.left(b"k"), [94, 10, 1]);
    // Of what it has taken of a shadow it takes more.
    let (third, _) = fixture.hold(b"k", &[4, 4, 1], SECOND);
    let changed = fixture.change_of(b"k", third, &[Some(8), Some(8), None], true);
    assert!(changed.expect("it is held").verdict.admitted());
    assert_eq!(fixture.left(b"k"), [86, 2, 0]);
    Ok(())
}

pub(super) fn less_is_given_back_where_it_was_charged(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, budget(100))]);
    let (id, _) = fixture.hold(b"k", &[10], SECOND);
    fixture.pass(10_000);
    assert!(fixture.adjust(id, &[Some(40)]).admitted());
    assert_eq!(fixture.left(b"k"), [70], "thirty in this window");
    assert!(fixture.adjust(id, &[Some(35)]).admitted());
    assert_eq!(fixture.left(b"k"), [75]);
    fixture.decision(b"k", &[50]).expect("an answer");
    let settled = fixture.end(b"k", id, Ending::Settle(&[Some(3)]));
    assert_eq!(settled.expect("held").uses[0].taken, 35);
    assert_eq!(
        fixture.left(b"k"),
        [50],
        "the first ten are of a window that is over"
    );
    Ok(())
}

pub(super) fn a_lease_is_adjusted_any_number_of_times(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, rate(1, 100)), (0, budget(1_000))]);
    let (id, _) = fixture.hold(b"k", &[1, 1], SECOND);
    for more in 2..40 {
        assert!(fixture.adjust(id, &[Some(more), Some(more)]).admitted());
        fixture.pass(100);
    }
    assert!(fixture.adjust(id, &[Some(0), Some(20)]).admitted());
    fixture.pass(100_000);
    fixture.end(b"k", id, Ending::Cancel).expect("held");
    assert_eq!(fixture.left(b"k"), [100, 1_000]);
    Ok(())
}

pub(super) fn a_lease_that_is_not_held_is_not_adjusted(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, budget(100)), (0, slots(2))]);
    let more = |key: &[u8], id| {
        fixture
            .change_of(key, id, &[Some(50), None], true)
            .map(drop)
    };
    assert_eq!(more(b"k", 77), Err(StoreError::UnknownLease));
    let (id, _) = fixture.hold(b"k", &[1, 1], 5_000);
    assert_eq!(more(b"other", id), Err(StoreError::UnknownLease));
    fixture.end(b"k", id, Ending::Release).expect("held");
    assert_eq!(more(b"k", id), Err(StoreError::LeaseEnded(fixture.now())));
    let (id, _) = fixture.hold(b"k", &[1, 1], 5_000);
    let expiry = fixture.now() + Span::from_millis(5);
    fixture.pass(5_000);
    assert_eq!(more(b"k", id), Err(StoreError::LeaseEnded(expiry)));
    assert_eq!(fixture.left(b"k")[0], 98);
    Ok(())
}

/// A clock that steps back locks no slots up for longer than their own time to live.
pub(super) fn an_adjusted_leases_slots_come_back_on_a_clock_that_stepped_back(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, slots(3))]);
    fixture.set(3_600_000_000);
    let (id, _) = fixture.hold(b"k", &[1], SECOND);
    fixture.set(0);
    assert!(fixture.admits(b"k", &[0]));
    assert!(fixture.adjust(id, &[Some(2)]).admitted());
    fixture.pass(1_000_001);
    assert_eq!(fixture.left(b"k"), [3]);
    Ok(())
}

/// The first of many leases are what a store looks at anyway.
pub(super) fn a_lease_is_adjusted_whatever_is_due_before_it(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, budget(100))]);
    for seconds in 1..6 {
        fixture.hold(b"k", &[1], seconds * SECOND);
    }
    let (id, _) = fixture.hold(b"k", &[1], 9 * SECOND);
    assert!(fixture.adjust(id, &[Some(5)]).admitted());
    assert_eq!(fixture.left(b"k"), [90]);
    Ok(())
}

/// Others hold more than there is, since the capacity was lowered.
pub(super) fn less_slots_are_held_whatever_the_capacity_has_become(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let mut fixture = Fixture::new(subject, 1, &[(0, slots(10))]);
    let (id, fence) = fixture.hold(b"k", &[5], SECOND);
    fixture.hold(b"k", &[5], SECOND);
    fixture.change(&[(0, slots(4))]);
    assert!(fixture.adjust(id, &[Some(4)]).admitted());
    assert!(!fixture.adjust(id, &[Some(5)]).admitted());
    let decision = fixture.change_of(b"k", id, &[Some(3)], true);
    let lease = decision.expect("it is held").lease.expect("it is less");
    assert_eq!(lease.fence, fence, "nothing was granted anew");
    fixture.change(&[(0, slots(10))]);
    assert_eq!(fixture.left(b"k"), [2]);
    Ok(())
}

/// Debt without end is no way to a key that is new: what others used stays used.
pub(super) fn an_overdraft_that_is_taken_back_leaves_what_others_used(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let hour = Span::from_secs(3_600);
    let rules = [
        Bucket::new(1_000, hour, 1_000).map(Rule::Bucket),
        Window::new(1_000, Align::FirstUse(hour)).map(Rule::Window),
        Ring::new(1_000, hour, 60).map(Rule::Ring),
        Log::new(1_000, hour, 64).map(Rule::Log),
    ];
    type Undo = fn(&Fixture, u128);
    let undo: [(&str, Undo); 3] = [
        ("cancelled", |fixture, id| {
            fixture.end(b"k", id, Ending::Cancel).expect("it is held");
        }),
        ("settled", |fixture, id| {
            let used = Ending::Settle(&[Some(10)]);
            fixture.end(b"k", id, used).expect("it is held");
        }),
        ("adjusted", |fixture, id| {
            assert!(fixture.adjust(id, &[Some(10)]).admitted());
        }),
    ];
    for rule in rules.map(|rule| rule.expect("a sound rule")) {
        for (how, undo) in undo {
            let fixture = Fixture::new(subject, 1, &[(0, rule)]);
            assert!(fixture.admits(b"k", &[900]));
            let (id, _) = fixture.hold(b"k", &[10], 30_000 * SECOND);
            let much = fixture.change_of(b"k", id, &[Some(MAX_AMOUNT)], true);
            assert!(much.expect("it is held").verdict.admitted());
            undo(&fixture, id);
            assert!(fixture.left(b"k")[0] <= 100, "{how}: {rule:?}");
        }
    }
    Ok(())
}

/// What had expired was forgotten by an adjustment that was refused, of every store in cases
/// of its own: on a clock that stepped back after that, it was held no more by one store, and
/// by the next it was.
pub(super) fn a_refused_adjustment_leaves_what_has_expired_as_it_was(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, slots(2))]);
    let refused = |key: &[u8], id| {
        let to_more_than_there_are = fixture.change_of(key, id, &[Some(3)], false);
        let decision = to_more_than_there_are.expect("it is held");
        assert_eq!(decision.verdict, Verdict::Never);
    };
    for is_adjusted in [false, true] {
        // Of a lease that holds what it took, beside one that has expired.
        let key = if is_adjusted { b"held" } else { b"kept" };
        fixture.set(0);
        fixture.hold(key, &[1], SECOND);
        let (id, _) = fixture.hold(key, &[1], 100 * SECOND);
        fixture.pass(2_000_000);
        if is_adjusted {
            refused(key, id);
        }
        fixture.pass(-2_000 * 1_000_000);
        assert_eq!(fixture.left(key), [0], "adjusted: {is_adjusted}");
        // Of one whose slots came back before it has expired, on a clock that stepped back.
        let key = if is_adjusted { b"back" } else { b"stay" };
        fixture.set(0);
        let (id, _) = fixture.hold(key, &[2], SECOND);
        fixture.pass(-2_000 * 1_000_000);
        assert_eq!(fixture.verdict(key, &[3]), Verdict::Never);
        fixture.pass(2_000_000);
        assert_eq!(fixture.left(key), [2]);
        if is_adjusted {
            refused(key, id);
        }
        fixture.pass(-2_000 * 1_000_000);
        assert_eq!(fixture.left(key), [0], "adjusted: {is_adjusted}");
    }
    Ok(())
}
