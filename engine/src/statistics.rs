//! What a set has decided so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_contract::sync::Mutex;
use tidegate_core::Span;

use crate::decision::{Admission, Decision};
use crate::lease::Outcome;

/// Counts since the set or pool was built. The lean `admit` is not counted: counting
/// would cost it half as much again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Asks admitted, at once or after a wait.
    pub admitted: u64,
    /// Asks refused, at once or at their deadline.
    pub refused: u64,
    /// Asks admitted after a wait.
    pub waited: u64,
    /// Asks whose deadline came first.
    pub timed_out: u64,
    /// Asks given up by their caller while waiting.
    pub abandoned: u64,
    /// Asks waiting now.
    pub waiting: u64,
    /// Leases that ended with [`Outcome::Succeeded`].
    pub succeeded: u64,
    /// Leases that ended with [`Outcome::Ignored`].
    pub ignored: u64,
    /// Leases that ended with [`Outcome::Dropped`].
    pub dropped: u64,
    /// The time that asks admitted after a wait have waited, added up.
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
    /// By the limit that refused.
    refusals: Mutex<Vec<(Box<str>, u64)>>,
    outcomes: [AtomicU64; 3],
    total_wait: AtomicU64,
    longest_wait: AtomicU64,
}

impl Counters {
    pub(crate) fn decided(&self, decision: &Decision) {
        match decision.admitted() {
            true => self.admitted(),
            false => self.refused(decision),
        }
    }

    pub(crate) fn answered(&self, admission: &Admission) {
        match admission {
            Admission::Granted(_) => self.admitted(),
            Admission::Refused(decision) => self.refused(decision),
        }
    }

    pub(crate) fn admitted(&self) {
        self.admitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, decision: &Decision) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let Some(limit) = decision.binding() else {
            return;
        };
        let mut refusals = self.refusals.lock();
        if let Some((_, count)) = refusals.iter_mut().find(|(name, _)| **name == *limit) {
            *count += 1;
            return;
        }
        // What is no limit any more leaves its place to a new one.
        if refusals.len() >= MOST_LIMITS {
            refusals.retain(|(name, _)| decision.limit(name).is_some());
        }
        if refusals.len() < MOST_LIMITS {
            refusals.push((limit.into(), 1));
        }
    }

    /// How often each limit has refused, the most frequent first.
    pub(crate) fn refusals(&self) -> Vec<(String, u64)> {
        let counted = self.refusals.lock();
        let refusals = counted
            .iter()
            .map(|(name, count)| (name.to_string(), *count));
        let mut refusals: Vec<_> = refusals.collect();
        drop(counted);
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
