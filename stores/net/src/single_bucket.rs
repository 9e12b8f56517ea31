//! What a server says of a single bucket.

use tidegate_store::core::{Amount, Bucket, PackedBucket, Timestamp, Verdict};
use tidegate_store::{Decision, Detail, StoreError};

/// A take from a set of one plain bucket, of which a server says no more than how full
/// the bucket is: the core's own arithmetic ([`PackedBucket`]) says what that means.
#[derive(Clone, Copy, Debug)]
pub struct SingleBucket {
    /// Counts from the caller's instant, which is the decision's: its ticks are a
    /// level's.
    rule: PackedBucket,
    now: Timestamp,
    amount: Amount,
    detail: Detail,
}

impl SingleBucket {
    /// A take of `amount` at `now`; `None` if the bucket's numbers do not fit a word, or
    /// if that is nothing, or more than there ever is.
    #[must_use]
    pub fn new(bucket: &Bucket, amount: Amount, detail: Detail, now: Timestamp) -> Option<Self> {
        let rule = PackedBucket::new(bucket, now)?;
        let is_possible = (1..=bucket.capacity()).contains(&amount);
        is_possible.then_some(Self {
            rule,
            now,
            amount,
            detail,
        })
    }

    /// It was admitted, and the bucket is so full after it.
    #[must_use]
    pub fn admitted(&self, level: u64) -> Decision {
        let mut decision = Decision::bare(Verdict::Admit, None);
        if self.detail == Detail::Always {
            self.stand(&mut decision, level);
        }
        decision
    }

    /// It was refused, by a bucket that is so full.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if that leaves room for it: the answer is garbled.
    pub fn refused(&self, level: u64) -> Result<Decision, StoreError> {
        let Err(verdict) = self.rule.take(level, self.amount, 0) else {
            let why = "the server refused a take for which it has room";
            return Err(StoreError::Unavailable(why.to_owned()));
        };
        let mut decision = Decision::bare(verdict, Some(0));
        decision.refused_levels = 1;
        if self.detail != Detail::Verdict {
            self.stand(&mut decision, level);
        }
        Ok(decision)
    }

    fn stand(&self, decision: &mut Decision, level: u64) {
        let level = self.rule.level_at(level, self.now, 0);
        decision.standings.push(Some(level.standing()));
    }
}
