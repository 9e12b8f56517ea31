//! Leases: ended once, back at expiry, told apart.

use tidegate_core::{Span, Verdict};
use tidegate_store::{Ending, StoreError, Verb};

use super::fixture::{Fixture, budget, rate, slots};
use crate::subject::{Skipped, Subject};

const SECOND: u64 = 1_000_000;

/// A rate beside slots.
fn both(subject: &Subject) -> Fixture {
    Fixture::new(subject, 1, &[(0, rate(1, 100)), (0, slots(2))])
}

pub(super) fn a_lease_is_settled_once_and_a_retry_gets_the_first_answer(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = both(subject);
    let (id, _) = fixture.hold(b"k", &[40, 1], SECOND);
    let (_other, _) = fixture.hold(b"k", &[10, 1], SECOND);
    let first = fixture.end(b"k", id, Ending::Settle(&[Some(30), None]));
    let first = first.expect("held");
    assert!(!first.repeated && !first.expired);
    let left = fixture.left(b"k");
    assert_eq!(left, [60, 1]);
    for ending in [
        Ending::Cancel,
        Ending::Release,
        Ending::Settle(&[Some(90), None]),
    ] {
        let again = fixture.end(b"k", id, ending).expect("remembered");
        assert!(again.repeated);
        assert_eq!(again.uses, first.uses);
        assert_eq!(fixture.left(b"k"), left);
    }
    Ok(())
}

pub(super) fn slots_come_back_at_expiry_and_not_before(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = both(subject);
    fixture.hold(b"k", &[1, 2], 5_000);
    fixture.pass(4_999);
    assert_eq!(fixture.left(b"k")[1], 0);
    fixture.pass(1);
    assert_eq!(fixture.left(b"k")[1], 2);
    Ok(())
}

pub(super) fn a_lease_that_expired_is_charged_its_real_use(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, budget(100)), (0, slots(2))]);
    let (id, _) = fixture.hold(b"k", &[40, 2], 3_000);
    fixture.pass(3_000);
    let (_later, _) = fixture.hold(b"k", &[1, 2], 3_000);
    let late = fixture.end(b"k", id, Ending::Settle(&[Some(55), None]));
    assert!(late.expect("remembered").expired);
    assert_eq!(fixture.left(b"k"), [44, 0], "its slots came back once");
    Ok(())
}

pub(super) fn a_renewed_lease_is_held_to_its_new_expiry(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = both(subject);
    let (id, _) = fixture.hold(b"k", &[1, 2], 5_000);
    fixture.pass(4_000);
    let until = fixture.now() + Span::from_micros(6_000);
    fixture
        .execute(b"k", Verb::Renew { id, until })
        .expect("held");
    fixture.pass(5_999);
    assert_eq!(fixture.left(b"k")[1], 0);
    fixture.pass(1);
    assert_eq!(fixture.left(b"k")[1], 2);
    let late = fixture.execute(b"k", Verb::Renew { id, until });
    assert_eq!(late, Err(StoreError::LeaseEnded(until)));
    Ok(())
}

pub(super) fn a_fence_grows_across_release_expiry_and_reset(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, slots(1))]);
    let (first, mut last) = fixture.hold(b"k", &[1], SECOND);
    let mut next = |fence| {
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    };
    fixture.end(b"k", first, Ending::Release).expect("held");
    let (second, fence) = fixture.hold(b"k", &[1], SECOND);
    next(fence);
    fixture.end(b"k", second, Ending::Cancel).expect("held");
    fixture.execute(b"k", Verb::Reset).expect("a reset");
    let (third, fence) = fixture.hold(b"k", &[1], 1_000);
    next(fence);
    match subject.needs_the_callers_clock() {
        Ok(()) => fixture.pass(1_000),
        Err(_) => drop(fixture.end(b"k", third, Ending::Release)),
    }
    next(fixture.hold(b"k", &[1], SECOND).1);
    Ok(())
}

pub(super) fn the_same_idempotency_key_gives_the_same_lease(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = both(subject);
    let ask = |key: &[u8]| {
        let decision = fixture.lease_by(key, &[10, 1], SECOND, Some(b"once"));
        decision.expect("an answer").lease.expect("it fits")
    };
    let first = ask(b"k");
    let again = ask(b"k");
    assert!(!first.repeated && again.repeated);
    assert_eq!((again.id, again.fence), (first.id, first.fence));
    assert_eq!(fixture.left(b"k"), [90, 1]);
    assert_ne!(ask(b"other").id, first.id, "it belongs to its key");
    Ok(())
}

/// What a retry was once given: the lease that its request had cancelled, or that had
/// expired, while another held the slot.
pub(super) fn a_retry_after_the_end_of_its_lease_takes_anew(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, rate(1, 100)), (0, slots(1))]);
    let ask = |micros| fixture.lease_by(b"k", &[10, 1], micros, Some(b"once"));
    let granted = |micros| ask(micros).expect("an answer").lease.expect("it fits");
    let mut last = granted(SECOND);
    for ending in [
        Ending::Cancel,
        Ending::Release,
        Ending::Settle(&[Some(0), None]),
    ] {
        let first = fixture.end(b"k", last.id, ending).expect("held");
        let (other, _) = fixture.hold(b"k", &[1, 1], SECOND);
        let refused = ask(SECOND).expect("an answer");
        assert_eq!(
            refused.lease, None,
            "another holds the slot after {ending:?}"
        );
        fixture.end(b"k", other, Ending::Cancel).expect("held");
        let next = granted(SECOND);
        assert!(!next.repeated && next.id != last.id);
        let again = granted(SECOND);
        assert!(again.repeated && again.id == next.id, "it is held");
        let settled = fixture
            .end(b"k", last.id, Ending::Cancel)
            .expect("remembered");
        assert!(settled.repeated && settled.uses == first.uses);
        assert_eq!(
            granted(SECOND).id,
            next.id,
            "the first one's end is not its"
        );
        last = next;
    }
    subject.needs_the_callers_clock()?;
    fixture.end(b"k", last.id, Ending::Cancel).expect("held");
    let short = granted(5_000);
    fixture.pass(4_999);
    assert_eq!(granted(5_000).id, short.id);
    fixture.pass(1);
    let other = fixture.hold(b"k", &[1, 1], 1_000);
    assert_eq!(
        ask(5_000).expect("an answer").lease,
        None,
        "{other:?} holds it"
    );
    fixture.pass(1_000);
    let next = granted(5_000);
    assert!(!next.repeated && next.id != short.id);
    // The record of the one that expired is forgotten; the key is the next one's.
    let late = fixture
        .end(b"k", short.id, Ending::Release)
        .expect("remembered");
    assert!(late.expired);
    assert_eq!(granted(5_000).id, next.id);
    Ok(())
}

pub(super) fn a_lease_is_nobody_elses_to_end(subject: &Subject) -> Result<(), Skipped> {
    let fixture = both(subject);
    let (id, _) = fixture.hold(b"alice", &[1, 1], SECOND);
    for (key, id) in [(&b"mallory"[..], id), (b"alice", id + 1)] {
        let theirs = fixture.end(key, id, Ending::Cancel);
        assert_eq!(theirs, Err(StoreError::UnknownLease));
        let until = fixture.now() + Span::SECOND;
        let theirs = fixture.execute(key, Verb::Renew { id, until });
        assert_eq!(theirs, Err(StoreError::UnknownLease));
    }
    assert_eq!(fixture.left(b"alice")[1], 1);
    Ok(())
}

/// With one level `k/x` is a key by itself; with two, `k/x/y` is no child of
/// `k/x`. Many pairs, as a store may keep them together by chance.
pub(super) fn a_reset_leaves_alone_what_only_looks_like_a_descendant(
    subject: &Subject,
) -> Result<(), Skipped> {
    for levels in [1, 2] {
        let fixture = Fixture::new(subject, levels, &[(levels - 1, rate(1, 10))]);
        for number in 0..300 {
            let parent = format!("k{number}/x");
            let child = format!("{parent}/y");
            let (id, _) = fixture.hold(child.as_bytes(), &[10], SECOND);
            fixture
                .execute(parent.as_bytes(), Verb::Reset)
                .expect("a reset");
            fixture
                .end(child.as_bytes(), id, Ending::Cancel)
                .expect("held");
            assert_eq!(fixture.verdict(child.as_bytes(), &[10]), Verdict::Admit);
        }
    }
    Ok(())
}

/// What is asked for under an id that another lease has changes nothing, and of a clock that has
/// stepped back note is taken all the same, as of any other answer.
pub(super) fn a_step_back_is_noted_where_an_id_is_refused(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, slots(5))]);
    fixture.set(3_600_000_000);
    let (id, _) = fixture.hold(b"k", &[1], SECOND);
    fixture.set(0);
    fixture.number_from(id - 1);
    let again = fixture.lease_by(b"k", &[0], SECOND, None);
    assert_eq!(again.map(|_| ()), Err(StoreError::DuplicateLease));
    fixture.pass(500_000);
    assert_eq!(fixture.left(b"k"), [4]);
    // A second after the step back, and not after the next command.
    fixture.pass(500_001);
    assert_eq!(fixture.left(b"k"), [5]);
    Ok(())
}
