//! Rates that come with the call instead of a policy (`CL.THROTTLE`).
//!
//! Each triple of capacity, count and period is a set of one bucket, made when
//! it is first asked for. Callers choose the numbers, so the sets are bounded;
//! where the gate has no store of its own, a set all of whose keys equal
//! "never seen" makes room for another. (A store keeps its tables: dropping the
//! set would free nothing there.)

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tidegate_contract::Store;
use tidegate_core::{Amount, Bucket, Span, Timestamp};

use super::backing::Backing;
use super::denials::Denials;
use super::error::GateError;
use super::served::Served;
use super::tables;
use crate::clock::Clock;
use crate::error::{Error, LimitError};
use crate::limit::{Algorithm, Limit};
use crate::policy::Policy;
use crate::set::LimitSet;

/// The policy whose name stands for all rates that come with the call: in
/// tokens' rights, and in what is measured.
pub const POLICY: &str = "throttle";

/// The limit's name in each of them.
pub const LIMIT: &str = "rate";

/// How many different rates there may be at once. A table is some tens of
/// kilobytes even while it is empty.
pub const MOST: usize = 1_024;

/// A rate that comes with the call: `count` units per `period`, of which
/// `capacity` may be used at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    /// The most that may be used at once.
    pub capacity: Amount,
    /// What comes back per period.
    pub count: Amount,
    /// The period, in seconds.
    pub period_secs: u64,
}

/// The rates asked for so far.
pub(super) struct AdHoc {
    sets: RwLock<Sets>,
    store: Option<Arc<dyn Store>>,
    clock: Clock,
    denials: Arc<Denials>,
}

type Sets = HashMap<Rate, Entry, foldhash::fast::RandomState>;

struct Entry {
    served: Arc<Served>,
    /// How long after its latest use every key equals "never seen".
    refill: Span,
    /// Whether it was used since room was last looked for: a mark, so that no
    /// use has to read a clock or write to what others read.
    used: AtomicBool,
    /// When that was: it was not used later, unless the mark says so.
    looked_at: Timestamp,
}

impl AdHoc {
    pub(super) fn new(store: Option<Arc<dyn Store>>, clock: Clock, denials: Arc<Denials>) -> Self {
        Self {
            sets: RwLock::default(),
            store,
            clock,
            denials,
        }
    }

    /// The set for `rate`.
    pub(super) fn get(&self, rate: Rate) -> Result<Arc<Served>, GateError> {
        if let Some(entry) = self.read().get(&rate) {
            entry.touch();
            return Ok(Arc::clone(&entry.served));
        }
        self.make(rate)
    }

    #[cold]
    fn make(&self, rate: Rate) -> Result<Arc<Served>, GateError> {
        let bucket = rate.bucket()?;
        let mut sets = self.write();
        if let Some(entry) = sets.get(&rate) {
            entry.touch();
            return Ok(Arc::clone(&entry.served));
        }
        let now = self.clock.now();
        if sets.len() >= MOST && self.store.is_none() {
            sets.retain(|_, entry| entry.matters(now));
        }
        if sets.len() >= MOST {
            return Err(GateError::TooManyRates(MOST));
        }
        let served = Arc::new(self.serve(rate)?);
        let entry = Entry {
            served: Arc::clone(&served),
            refill: bucket.refill(),
            used: AtomicBool::new(true),
            looked_at: now,
        };
        sets.insert(rate, entry);
        Ok(served)
    }

    fn serve(&self, rate: Rate) -> Result<Served, Error> {
        let policy = rate.policy();
        let mut builder = LimitSet::builder()
            .name(tables::of_rate(rate))
            .limits(policy.limits.iter().cloned())
            .clock(self.clock.clone());
        if let Some(store) = &self.store {
            builder = builder.store(Arc::clone(store));
        }
        Ok(Served::new(
            policy,
            Backing::Set(builder.build()?),
            None,
            Arc::clone(&self.denials),
        ))
    }

    fn read(&self) -> RwLockReadGuard<'_, Sets> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Sets> {
        self.sets.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Called under the lock, so that whoever makes room sees every use.
    #[inline]
    fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody is about to use it, or some key may have something used.
    fn matters(&mut self, now: Timestamp) -> bool {
        let about_to = Arc::strong_count(&self.served) > 1;
        if about_to || std::mem::take(self.used.get_mut()) {
            self.looked_at = now;
            return true;
        }
        now < self.looked_at + self.refill
    }
}

impl Rate {
    fn period(&self) -> Duration {
        Duration::from_secs(self.period_secs)
    }

    /// The arithmetic, where the numbers are possible.
    fn bucket(&self) -> Result<Bucket, Error> {
        let bucket = Bucket::new(self.count, Span::from(self.period()), self.capacity);
        bucket.map_err(|wrong| Error::Limit {
            limit: LIMIT.into(),
            source: LimitError::Rule(wrong),
        })
    }

    fn policy(&self) -> Policy {
        let limit = Limit::rate(LIMIT, self.count, self.period())
            .algorithm(Algorithm::Gcra)
            .burst(self.capacity);
        Policy::unwritten(POLICY, limit)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::MAX_AMOUNT;

    use super::*;
    use crate::clock::ManualClock;

    fn rate(count: u64) -> Rate {
        Rate {
            capacity: 2,
            count,
            period_secs: 1,
        }
    }

    #[test]
    fn a_rate_is_one_set_however_often_it_is_asked_for() {
        let rates = AdHoc::new(None, ManualClock::default().clock(), Arc::default());
        let first = rates.get(rate(1)).unwrap();
        assert!(Arc::ptr_eq(&first, &rates.get(rate(1)).unwrap()));
        assert!(!Arc::ptr_eq(&first, &rates.get(rate(2)).unwrap()));
    }

    #[test]
    fn numbers_that_make_no_rate_are_refused() {
        let rates = AdHoc::new(None, Clock::system(), Arc::default());
        let wrong = |capacity, count, period_secs| Rate {
            capacity,
            count,
            period_secs,
        };
        for rate in [
            wrong(0, 1, 1),
            wrong(1, 0, 1),
            wrong(1, 1, 0),
            wrong(1, 1, u64::MAX),
            wrong(MAX_AMOUNT + 1, 1, 1),
            wrong(1, u64::MAX, 1),
        ] {
            assert!(rates.get(rate).is_err(), "{rate:?}");
        }
        assert!(rates.read().is_empty());
    }

    #[test]
    fn only_a_set_whose_keys_are_spent_makes_room() {
        let time = ManualClock::default();
        let rates = AdHoc::new(None, time.clock(), Arc::default());
        for count in 1..=MOST as u64 {
            rates.get(rate(count)).unwrap();
        }
        let one_more = rate(MOST as u64 + 1);
        assert!(matches!(
            rates.get(one_more),
            Err(GateError::TooManyRates(MOST))
        ));
        // The slowest refills in two seconds.
        let kept = Arc::downgrade(&rates.get(rate(7)).unwrap());
        let held = rates.get(rate(8)).unwrap();
        time.advance(Duration::from_secs(2));
        assert!(rates.get(one_more).is_ok());
        assert_eq!(rates.read().len(), 3);
        assert!(kept.ptr_eq(&Arc::downgrade(&rates.get(rate(7)).unwrap())));
        assert!(Arc::ptr_eq(&held, &rates.get(rate(8)).unwrap()));
    }
}
