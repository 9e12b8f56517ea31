//! What a set has decided so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::Span;
use tidegate_store::sync::Mutex;

use crate::decision::Decision;
use crate::outcome::Outcome;

/// Counts since the set or pool was built. `admit` is not counted: counting
/// would cost it half as much again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Requests admitted, at once or after a wait.
    pub admitted: u64,
    /// Requests refused, at once or at their deadline.
    pub refused: u64,
    /// Requests admitted after a wait.
    pub waited: u64,
    /// Requests that reached their deadline while waiting.
    pub timed_out: u64,
    /// Requests that their caller gave up while waiting.
    pub abandoned: u64,
    /// Requests that wait now.
    pub waiting: u64,
    /// Leases that ended with [`Outcome::Succeeded`].
    pub succeeded: u64,
    /// Leases that ended with [`Outcome::Ignored`].
    pub ignored: u64,
    /// Leases that ended with [`Outcome::Dropped`].
    pub dropped: u64,
    /// The time that requests admitted after a wait have waited, added up.
    pub total_wait: Duration,
    /// The longest of those waits.
    pub longest_wait: Duration,
}

/// At most so many limits are counted by name.
const MOST_LIMITS: usize = 256;

/// The counters behind [`Statistics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    admitted: AtomicU64,
    refused: AtomicU64,
    waited: AtomicU64,
    timed_out: AtomicU64,
    abandoned: AtomicU64,
    /// By limit, in the order of the limits of whoever made the list: mostly that of
    /// whoever counts.
    refusals: ArcSwap<Vec<Arc<Refusals>>>,
    /// One list is made at a time.
    naming: Mutex<()>,
    outcomes: [AtomicU64; 3],
    total_wait: AtomicU64,
    longest_wait: AtomicU64,
}

/// How often one limit has refused.
#[derive(Debug)]
struct Refusals {
    limit: Box<str>,
    count: AtomicU64,
}

impl Refusals {
    fn is_of(&self, limit: &str) -> bool {
        *self.limit == *limit
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counters {
    pub(crate) fn decided(&self, decision: &Decision) {
        match decision.admitted() {
            true => self.admitted(),
            false => self.refused(decision),
        }
    }

    /// A request for a lease was granted, or refused so.
    pub(crate) fn answered(&self, refusal: Option<&Decision>) {
        match refusal {
            None => self.admitted(),
            Some(decision) => self.refused(decision),
        }
    }

    #[inline]
    pub(crate) fn admitted(&self) {
        self.admitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, decision: &Decision) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let Some((position, limit)) = decision.binding_at() else {
            return;
        };
        let counted = self.refusals.load();
        let expected = counted.get(position).filter(|one| one.is_of(limit));
        match expected.or_else(|| counted.iter().find(|one| one.is_of(limit))) {
            Some(one) => one.add(),
            None => self.first_refused(limit, decision),
        }
    }

    /// Makes a list that has all limits of `decision`, `limit` among them. What is no
    /// limit any more leaves its place to a new one.
    #[cold]
    fn first_refused(&self, limit: &str, decision: &Decision) {
        let _one_at_a_time = self.naming.lock();
        let before = self.refusals.load_full();
        let named = |name: &str| before.iter().find(|one| one.is_of(name)).cloned();
        let one = |name: &str| {
            named(name).unwrap_or_else(|| {
                Arc::new(Refusals {
                    limit: name.into(),
                    count: AtomicU64::new(0),
                })
            })
        };
        let others = before
            .iter()
            .filter(|one| decision.limit(&*one.limit).is_none());
        let now = decision.limit_names().map(one).chain(others.cloned());
        let now: Vec<_> = now.take(MOST_LIMITS).collect();
        if let Some(one) = now.iter().find(|one| one.is_of(limit)) {
            one.add();
        }
        self.refusals.store(Arc::new(now));
    }

    /// How often each limit has refused, the most frequent first.
    pub(crate) fn refusals(&self) -> Vec<(String, u64)> {
        let counted = self.refusals.load();
        let refusals = counted.iter().map(|one| {
            let count = one.count.load(Ordering::Relaxed);
            (one.limit.to_string(), count)
        });
        let mut refusals: Vec<_> = refusals.filter(|(_, count)| *count > 0).collect();
        refusals.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        refusals
    }

    pub(crate) fn waited(&self, wait: Span) {
        self.waited.fetch_add(1, Ordering::Relaxed);
        self.total_wait
            .fetch_add(wait.as_micros(), Ordering::Relaxed);
        self.longest_wait
            .fetch_max(wait.as_micros(), Ordering::Relaxed);
    }

    pub(crate) fn timed_out(&self) {
        self.timed_out.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn abandoned(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, waiting: usize) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            admitted: read(&self.admitted),
            refused: read(&self.refused),
            waited: read(&self.waited),
            timed_out: read(&self.timed_out),
            abandoned: read(&self.abandoned),
            waiting: waiting as u64,
            succeeded: read(&self.outcomes[Outcome::Succeeded as usize]),
            ignored: read(&self.outcomes[Outcome::Ignored as usize]),
            dropped: read(&self.outcomes[Outcome::Dropped as usize]),
            total_wait: Duration::from_micros(read(&self.total_wait)),
            longest_wait: Duration::from_micros(read(&self.longest_wait)),
        }
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use std::thread;

    use super::*;
    use crate::limit::Limit;
    use crate::set::LimitSet;

    fn hourly(name: &str) -> Limit {
        Limit::calls(name, 1, Duration::from_secs(3_600))
    }

    /// Each refusal took a lock, and compared names under it.
    #[test]
    fn refusals_that_come_at_once_are_all_counted_also_while_limits_change() {
        let set = LimitSet::new([hourly("kept"), hourly("gone")]).unwrap();
        assert!(set.check("k", ()).wait().unwrap().admitted());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert!(!set.check("k", ()).wait().unwrap().admitted());
                    }
                });
            }
            // It stands before the others, so that their places change.
            for _ in 0..20 {
                set.remove_limit("gone").unwrap();
                set.put_limit(hourly("gone")).unwrap();
            }
        });
        let counted: u64 = set.refusals().iter().map(|(_, count)| count).sum();
        assert_eq!((counted, set.statistics().refused), (2_000, 2_000));
    }

    #[test]
    fn limits_that_are_counted_are_bounded_and_those_of_today_are_among_them() {
        let set = LimitSet::new([hourly("kept")]).unwrap();
        for nth in 0..2 * MOST_LIMITS {
            let (key, limit) = (format!("key {nth}"), format!("limit {nth}"));
            set.replace_limits(&[hourly(&limit)]).unwrap();
            for admitted in [true, false] {
                let decision = set.check(&*key, ()).wait().unwrap();
                assert_eq!(decision.admitted(), admitted);
            }
        }
        let refusals = set.refusals();
        assert_eq!(refusals.len(), MOST_LIMITS);
        let newest = format!("limit {}", 2 * MOST_LIMITS - 1);
        assert!(refusals.contains(&(newest, 1)));
    }
}
