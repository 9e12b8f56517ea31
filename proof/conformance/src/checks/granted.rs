//! When a lease was granted: said with it, and the same for as long as it lasts.

use tidegate_core::{Span, Timestamp};
use tidegate_store::{Detail, Ending, Select, Verb};

use super::fixture::{Fixture, rate, slots};
use super::listing::leases;
use crate::subject::{Skipped, Subject};

const SECOND: u64 = 1_000_000;

/// Slots alone, which some stores decide apart, and slots beside a rate.
fn fixtures(subject: &Subject) -> [Fixture; 2] {
    [
        Fixture::new(subject, 1, &[(0, slots(2))]),
        Fixture::new(subject, 1, &[(0, slots(2)), (0, rate(1, 100))]),
    ]
}

impl Fixture {
    fn ones(&self) -> Vec<u64> {
        vec![1; self.plan.limits().len()]
    }

    /// The lease that a request for one of each limit is given: its id, and when it was
    /// granted.
    fn grant(&self, idempotency: Option<&[u8]>) -> (u128, Timestamp) {
        let decision = self.lease_by(b"k", &self.ones(), 5 * SECOND, idempotency);
        let lease = decision.expect("an answer").lease.expect("it fits");
        (lease.id, lease.granted_at)
    }

    /// When the leases that are held were granted, in the order of their ids.
    fn granted(&self) -> Result<Vec<(u128, Timestamp)>, Skipped> {
        let mut held = leases(self, Select::Key(b"k"))?;
        held.sort_by_key(|lease| lease.id);
        Ok(held.iter().map(|l| (l.id, l.granted_at)).collect())
    }
}

pub(super) fn a_lease_says_when_it_was_granted(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for fixture in fixtures(subject) {
        let first = fixture.grant(None);
        assert_eq!(first.1, fixture.now());
        fixture.pass(1_500);
        let second = fixture.grant(None);
        assert_eq!(second.1, fixture.now());
        fixture.pass(SECOND as i64);
        assert_eq!(fixture.granted()?, [first, second]);
    }
    Ok(())
}

pub(super) fn a_renewal_and_an_adjustment_leave_when_a_lease_was_granted(
    subject: &Subject,
) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for fixture in fixtures(subject) {
        let (id, granted_at) = fixture.grant(None);
        for more in [2, 1] {
            fixture.pass(1_000);
            let until = fixture.now() + Span::from_micros(9 * SECOND);
            fixture
                .execute(b"k", Verb::Renew { id, until })
                .expect("held");
            fixture.pass(1_000);
            let adjusted = fixture.execute(
                b"k",
                Verb::Adjust {
                    id,
                    to: &[Some(more)],
                    overdraw: false,
                    detail: Detail::Always,
                },
            );
            let decision = adjusted.and_then(tidegate_store::Reply::decision);
            let lease = decision.expect("an answer").lease.expect("it fits");
            assert_eq!((lease.id, lease.granted_at), (id, granted_at));
            assert_eq!(fixture.granted()?, [(id, granted_at)]);
        }
    }
    Ok(())
}

pub(super) fn a_retry_is_told_when_its_lease_was_granted(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for fixture in fixtures(subject) {
        let first = fixture.grant(Some(b"once"));
        assert_eq!(first.1, fixture.now());
        fixture.pass(2_000);
        assert_eq!(fixture.grant(Some(b"once")), first);
        // A lease that is given after the end of the first one is another.
        fixture.end(b"k", first.0, Ending::Release).expect("held");
        let next = fixture.grant(Some(b"once"));
        assert_eq!(next.1, fixture.now());
        assert_ne!(next.0, first.0);
    }
    Ok(())
}

pub(super) fn a_restart_leaves_when_a_lease_was_granted(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let reopened = subject.reopened_store()?;
    let (store, name) = (subject.fresh(), super::fixture::table_name());
    let plan = super::fixture::plan(0, 1, &[(0, slots(2)), (0, rate(1, 100))]);
    let fixture = Fixture::remembering(&*store, &name, plan.clone());
    fixture.pass(700);
    let first = fixture.grant(None);
    assert_eq!(first.1, fixture.now());
    drop((fixture, store));
    let again = Fixture::remembering(&*reopened(), &name, plan);
    again.pass(900);
    assert_eq!(again.granted()?, [first]);
    Ok(())
}
