//! From when on a kept row equals "never seen", for who lists rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rows::LoadedRow;
use crate::error::StoreError;
use crate::optimistic::clock::Clock;
use crate::optimistic::exchange::KeptRow;
use crate::optimistic::known_revisions;
use crate::optimistic::revision::PlanRevision;
use tidegate_core::{DecodeError, Timestamp};

/// What is known of a row that is listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListedRow {
    /// From then on it equals "never seen".
    ForgottenAt(Timestamp),
    /// Make these revisions known, and ask again.
    Revisions(Vec<u32>),
}

impl ListedRow {
    /// Of a row as it is kept, at `now`. Changes of limits since it was written are followed up
    /// to `own`, as the next command on it will follow them. `known` are revisions that may be
    /// met. One that a newer revision wrote is as that left it.
    ///
    /// # Errors
    /// The row is not whole, or does not go with its limits.
    pub fn of(
        kept: &KeptRow<'_>,
        own: &Arc<PlanRevision>,
        known: &BTreeMap<u32, Arc<PlanRevision>>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut row = LoadedRow::new(kept.key.into(), Some(kept.bytes), &own.plan)?;
        let written = row.revision.filter(|number| *number < own.number);
        let Some(number) = written else {
            return Ok(Self::ForgottenAt(kept.forget_at));
        };
        let find = |number| match number == own.number {
            true => Some(own),
            false => known.get(&number),
        };
        let Some(next) = find(number + 1) else {
            return Ok(Self::Revisions(vec![number + 1]));
        };
        // What was spent when the limits changed stays so.
        if kept.forget_at <= Clock::follows(next.adopted.at, row.latest(), now) {
            return Ok(Self::ForgottenAt(kept.forget_at));
        }
        let mut leading = known_revisions::leading_to(own.number, &[number]);
        leading.push(own.number);
        let unknown = leading.iter().filter(|number| find(**number).is_none());
        let mut unknown: Vec<u32> = unknown.copied().collect();
        if !unknown.is_empty() {
            // All at once: what is learnt later may displace what was before.
            unknown.push(number + 1);
            return Ok(Self::Revisions(unknown));
        }
        let leading: Vec<_> = leading.into_iter().filter_map(find).collect();
        if !leading.first().is_some_and(|first| row.fits(&first.plan)) {
            return Err(DecodeError::Corrupt("a row does not go with its limits").into());
        }
        for pair in leading.windows(2) {
            row.carry_over(pair[0], pair[1], now);
        }
        Ok(Self::ForgottenAt(row.forget_at(&own.plan)))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Bucket, DecisionTime, Payment, Rule, Span};

    use super::*;
    use crate::adopted::Adopted;
    use crate::decide;
    use crate::optimistic::stored_row::{self, Limits};
    use crate::plan::{Plan, PlanLimit};

    const START: i64 = 1_000_000;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(START + micros)
    }

    /// A bucket that drains one in so many microseconds, in force from then on.
    fn revision(number: u32, period: u64, adopted: i64) -> Arc<PlanRevision> {
        let period = Span::from_micros(period);
        let limit = PlanLimit {
            name: "r".into(),
            uid: 0,
            rule: Rule::Bucket(Bucket::new(1, period, 9).expect("a sound rate")),
            level: 0,
            payment: Payment::Prepaid,
            shadow: false,
            refund_on_expiry: false,
            adaptive: None,
        };
        let plan = Plan::new(number.into(), 1, vec![limit], Span::from_secs(60));
        Arc::new(PlanRevision {
            number,
            plan: Arc::new(plan),
            adopted: Adopted {
                at: at(adopted),
                calendars: Vec::new(),
            },
            knows_keys: true,
        })
    }

    /// What is kept of a row of which three were taken at the start.
    fn kept(by: &PlanRevision) -> (Vec<u8>, Timestamp) {
        let mut row = decide::fresh_row(&by.plan, 0);
        let rule = by.plan.limits()[0].rule;
        rule.charge(&mut row[0], 3, &DecisionTime::at(at(0)), None);
        let limits = Limits {
            revision: by.number,
            own: None,
            retained: &[],
        };
        let mut bytes = Vec::new();
        stored_row::encode(at(0), None, &limits, &row, &mut bytes);
        (bytes, rule.forget_at(&row[0]))
    }

    fn listed(
        (bytes, forget_at): &(Vec<u8>, Timestamp),
        own: &Arc<PlanRevision>,
        known: &[&Arc<PlanRevision>],
        now: i64,
    ) -> ListedRow {
        let known = known.iter().map(|one| (one.number, Arc::clone(one)));
        let kept = KeptRow {
            key: b"k",
            bytes,
            forget_at: *forget_at,
        };
        ListedRow::of(&kept, own, &known.collect(), at(now)).expect("a whole row")
    }

    /// A listing left a key out whose limits had been lowered: by those of before it was spent.
    #[test]
    fn a_row_matters_for_as_long_as_the_limits_of_now_say() {
        let (first, slower) = (revision(1, 4_000, 0), revision(2, 16_000, 4_000));
        let row = kept(&first);
        assert_eq!(
            listed(&row, &first, &[], 20_000),
            ListedRow::ForgottenAt(at(12_000))
        );
        // One of three has drained by the change, and two remain.
        assert_eq!(
            listed(&row, &slower, &[&first], 20_000),
            ListedRow::ForgottenAt(at(36_000))
        );
        let faster = revision(2, 2_000, 4_000);
        assert_eq!(
            listed(&row, &faster, &[&first], 4_000),
            ListedRow::ForgottenAt(at(8_000))
        );
        // A process that is behind: a row of a newer revision is as that left it.
        assert_eq!(
            listed(&kept(&slower), &first, &[], 20_000),
            ListedRow::ForgottenAt(at(48_000))
        );
    }

    #[test]
    fn a_row_that_was_spent_when_the_limits_changed_stays_so() {
        let (first, slower) = (revision(1, 4_000, 0), revision(2, 16_000, 12_000));
        // Nothing of its own revision need be known.
        assert_eq!(
            listed(&kept(&first), &slower, &[], 20_000),
            ListedRow::ForgottenAt(at(12_000))
        );
    }

    #[test]
    fn changes_are_followed_one_after_the_other_and_none_is_left_out() {
        let (first, second) = (revision(1, 4_000, 0), revision(2, 16_000, 4_000));
        let (third, row) = (revision(3, 4_000, 20_000), kept(&first));
        assert_eq!(
            listed(&row, &third, &[], 20_000),
            ListedRow::Revisions(vec![2])
        );
        assert_eq!(
            listed(&row, &third, &[&second], 20_000),
            ListedRow::Revisions(vec![1, 2])
        );
        // Of two that remained at the first change, one has drained by the second.
        assert_eq!(
            listed(&row, &third, &[&first, &second], 20_000),
            ListedRow::ForgottenAt(at(24_000))
        );
    }
}
