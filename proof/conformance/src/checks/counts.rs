//! How much a table holds.

use tidegate_core::Span;
use tidegate_store::{Count, Ending, Verb};

use super::fixture::{Fixture, budget, rate, slots};
use crate::subject::{Skipped, Subject};
use crate::table_ext::TableExt;

const HOUR: u64 = 3_600_000_000;

impl Fixture {
    fn count(&self) -> Count {
        self.table.count(self.now()).expect("a count")
    }

    /// Whether so many leases are held and so many remembered, if the table knows.
    fn has_leases(&self, held: usize, remembered: usize) -> bool {
        let count = self.count();
        count.leases.is_none_or(|leases| leases == held)
            && count.remembered.is_none_or(|leases| leases == remembered)
    }
}

/// Its own, with their ancestors: of one that was only looked at, or refused, none.
pub(super) fn a_table_counts_its_keys_and_the_ancestors_that_have_state(
    subject: &Subject,
) -> Result<(), Skipped> {
    let rules = [(0, slots(1_000)), (1, slots(1_000)), (1, budget(9))];
    let (fixture, other) = (
        Fixture::new(subject, 2, &rules),
        Fixture::new(subject, 2, &rules),
    );
    assert_eq!(fixture.count().keys, 0);
    for n in 0..300 {
        fixture.hold(format!("{}/{n}", n % 20).as_bytes(), &[1, 1, 1], HOUR);
        other.hold(format!("{n}/x").as_bytes(), &[1, 1, 1], HOUR);
    }
    assert_eq!((fixture.count().keys, other.count().keys), (320, 600));
    fixture.left(b"unseen/x");
    assert!(!fixture.admits(b"refused/x", &[1, 1, 10]));
    assert_eq!(fixture.count().keys, 320);
    Ok(())
}

/// A bucket by itself, which stores keep in less. What was reset may be counted until the
/// store has dropped it.
pub(super) fn a_table_of_one_bucket_counts_its_keys(subject: &Subject) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, rate(1, HOUR))]);
    for n in 0..200 {
        assert!(fixture.admits(format!("key {n}").as_bytes(), &[HOUR]));
    }
    assert!(!fixture.admits(b"refused", &[HOUR + 1]));
    assert_eq!(fixture.left(b"unseen"), [HOUR]);
    assert_eq!(fixture.count().keys, 200);
    for n in 0..150 {
        let key = format!("key {n}");
        fixture
            .execute(key.as_bytes(), Verb::Reset)
            .expect("a reset");
    }
    let keys = fixture.count().keys;
    assert!((50..=200).contains(&keys), "{keys} keys");
    Ok(())
}

pub(super) fn leases_are_counted_while_they_are_held_and_then_remembered(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, slots(9))]);
    let (ended, _) = fixture.hold(b"a", &[1], HOUR);
    let (renewed, _) = fixture.hold(b"a", &[1], 5_000);
    let (_expired, _) = fixture.hold(b"b", &[1], 5_000);
    assert!(fixture.has_leases(3, 0), "{:?}", fixture.count());
    fixture.end(b"a", ended, Ending::Release).expect("held");
    assert!(fixture.has_leases(2, 1), "{:?}", fixture.count());
    subject.needs_the_callers_clock()?;
    let until = fixture.now() + Span::from_micros(HOUR);
    let renew = Verb::Renew { id: renewed, until };
    fixture.execute(b"a", renew).expect("held");
    fixture.pass(5_000);
    let held = fixture.count().leases;
    assert!(held.is_none_or(|held| held == 1), "{held:?} are held");
    fixture.left(b"b");
    assert!(fixture.has_leases(1, 2), "{:?}", fixture.count());
    Ok(())
}
