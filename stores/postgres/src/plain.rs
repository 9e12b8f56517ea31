//! A take from a set of one plain bucket, which one UPDATE decides
//! (`tidegate.take_bucket`). A plain row is a [`Word`] that counts from 1970, so the
//! word's own arithmetic says what an answer means.
//!
//! ```text
//! admit      admitted, and no more is asked for
//! +LEVEL     admitted, after which the bucket is so full
//! -LEVEL     refused, as full as it is
//! {...}      as `tidegate.decide` says it
//! ```

use std::ops::RangeInclusive;

use tidegate_contract::core::{Amount, Payment, Rule, Timestamp, Verdict, Word};
use tidegate_contract::{Decision, Detail, StoreError};

use crate::error::garbled;
use crate::options::Clock;
use crate::request::{Request, TAKE};

/// The instants by which a plain row can be decided, in microseconds, if its bucket
/// drains no more than [`DRAIN`] in one: together 62 bits.
const INSTANTS: RangeInclusive<i64> = 0..=1 << 52;

/// See [`INSTANTS`].
const DRAIN: u64 = 1 << 10;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    asked: Amount,
    detail: Detail,
    now: Timestamp,
    word: Word,
    pub(crate) amount: i64,
    pub(crate) drain: i64,
    pub(crate) brim: i64,
    /// What the amount weighs: no more than the brim.
    pub(crate) weight: i64,
}

impl Plain {
    /// What of `request` that is, decided by `clock`; `None` if it is more.
    pub(crate) fn of(request: &Request, clock: Clock) -> Option<Self> {
        let ([limit], [amount]) = (request.plan.limits(), &*request.amounts) else {
            return None;
        };
        let Rule::Bucket(bucket) = &limit.rule else {
            return None;
        };
        let is_common = request.rules.is_none() && request.plan.levels() <= 1;
        let prepaid = limit.payment == Payment::Prepaid && !limit.shadow;
        let in_time = clock == Clock::Server || INSTANTS.contains(&request.now.as_micros());
        let asked = u64::try_from(*amount).ok()?;
        let fits = (1..=bucket.capacity()).contains(&asked) && bucket.drain() <= DRAIN;
        if request.verb != TAKE || !is_common || !prepaid || limit.refund_on_expiry {
            return None;
        }
        let word = Word::new(bucket, request.now).filter(|_| in_time && fits)?;
        Some(Self {
            asked,
            detail: request.wanted,
            now: request.now,
            word,
            amount: *amount,
            drain: bucket.drain() as i64,
            brim: bucket.brim() as i64,
            weight: amount * bucket.weight() as i64,
        })
    }

    /// Reads what it came to; `None` if it is `tidegate.decide`'s answer.
    pub(crate) fn read(&self, text: &str) -> Result<Option<Decision>, StoreError> {
        let level = |text: &str| text.parse::<u64>().map_err(|_| garbled("no level"));
        if text == "admit" {
            Ok(Some(Decision::bare(Verdict::Admit, None)))
        } else if let Some(after) = text.strip_prefix('+') {
            Ok(Some(self.admitted(level(after)?)))
        } else if let Some(before) = text.strip_prefix('-') {
            self.refused(level(before)?).map(Some)
        } else {
            Ok(None)
        }
    }

    fn admitted(&self, level: u64) -> Decision {
        let mut decision = Decision::bare(Verdict::Admit, None);
        self.stand(&mut decision, level);
        decision
    }

    fn refused(&self, level: u64) -> Result<Decision, StoreError> {
        let verdict = match self.word.take(level, self.asked, 0) {
            Err(verdict) => verdict,
            Ok(_) => return Err(garbled("a refusal where there is room")),
        };
        let mut decision = Decision::bare(verdict, Some(0));
        decision.refused_levels = 1;
        if self.detail != Detail::Verdict {
            self.stand(&mut decision, level);
        }
        Ok(decision)
    }

    /// The word counts from the caller's instant, which is the decision's.
    fn stand(&self, decision: &mut Decision, level: u64) {
        let standing = self.word.standing(level, self.now, 0);
        decision.standings.push(Some(standing));
    }
}
