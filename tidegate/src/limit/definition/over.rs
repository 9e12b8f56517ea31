//! One limit over another: the numbers of the first, counted as the second is.
//!
//! What an override may change is how much: the amount, the time it is counted
//! over, the burst, the time that slots are held. How it is counted stays as it
//! was, so that what was used keeps its meaning when an override is set and
//! when it is removed: the kind and the algorithm, a calendar, the level, who
//! pays when, and what becomes of it when work fails.

use super::{Kind, Limit, OnFailure};
use crate::limit::Algorithm;
use crate::limit::LimitError;
use crate::limit::Period;
use tidegate_core::Amount;
use tidegate_core::Payment;

impl Limit {
    /// So many percent of it: of the amount and the burst, rounded down but at
    /// least one unit.
    pub(crate) fn percent(&self, percent: u8) -> Self {
        let whole = Amount::from(percent.min(100));
        let of = |amount: Amount| (amount / 100 * whole + amount % 100 * whole / 100).max(1);
        Self {
            capacity: of(self.capacity),
            burst: self.burst.map(of),
            ..self.clone()
        }
    }

    /// This limit's numbers in place of those of `base`. What this one does not
    /// say is as `base` says; what it says must not be unlike it.
    ///
    /// # Errors
    /// [`LimitError::Unlike`], with what is.
    pub(crate) fn over(&self, base: &Self) -> Result<Self, LimitError> {
        self.check_like(base)?;
        Ok(Self {
            capacity: self.capacity,
            period: self.period.clone(),
            burst: self.burst,
            ttl: self.ttl.or(base.ttl),
            sub_windows: self.sub_windows.or(base.sub_windows),
            max_entries: self.max_entries.or(base.max_entries),
            ..base.clone()
        })
    }

    fn check_like(&self, base: &Self) -> Result<(), LimitError> {
        let unlike = |what| Err(LimitError::Unlike(what));
        if self.kind != base.kind {
            return unlike(word(base));
        }
        if !counts_by(self.algorithm, base.algorithm) {
            return unlike("the algorithm stays the limit's own");
        }
        if !same_calendar(self.period.as_ref(), base.period.as_ref()) {
            return unlike("the calendar and its zone stay the limit's own");
        }
        let pays = self.payment == Payment::Prepaid || self.payment == base.payment;
        let fails = self.on_failure == OnFailure::Charge || self.on_failure == base.on_failure;
        let shadow = !self.shadow || base.shadow;
        let level = self.level.is_none() || self.level == base.level;
        let unit = self.unit == super::Unit::ONE || self.unit == base.unit;
        if pays && fails && shadow && level && unit {
            return Ok(());
        }
        unlike("level, unit, payment, shadow and on_failure stay the limit's own")
    }
}

fn word(base: &Limit) -> &'static str {
    match base.kind {
        Kind::Calls => "it counts calls, and so must the override",
        Kind::Rate => "it counts amounts, and so must the override",
        Kind::Concurrency => "it counts what is held, and so must the override",
    }
}

/// Whether who counts by `own`, or does not say how, counts as by `base`.
fn counts_by(own: Algorithm, base: Algorithm) -> bool {
    use Algorithm::{Gcra, LeakyBucket, TokenBucket};
    let buckets = [TokenBucket, Gcra, LeakyBucket];
    own == base || own == TokenBucket || (buckets.contains(&own) && buckets.contains(&base))
}

/// A length of time may take the place of another; a calendar is no length.
fn same_calendar(own: Option<&Period>, base: Option<&Period>) -> bool {
    let is_length = |period: Option<&Period>| matches!(period, Some(Period::Every(_)) | None);
    own == base || (is_length(own) && is_length(base))
}
