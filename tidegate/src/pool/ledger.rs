//! What the members of a pool and their leases share.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_core::Span;

use super::repeats::Repeats;
use crate::decision::Decision;
use crate::statistics::{Counters, Statistics};

/// What the pool has counted, and which requests it would repeat.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) counters: Counters,
    pub(super) repeats: Repeats,
    waiting: AtomicUsize,
}

impl Ledger {
    pub(super) fn begin_wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end_wait(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// A wait of `wait` has ended; one that was refused had this deadline.
    pub(super) fn waited(&self, refusal: Option<&Decision>, wait: Span, longest: Span) {
        self.counters.answered(refusal);
        match refusal {
            None => self.counters.waited(wait),
            Some(_) if wait >= longest => self.counters.timed_out(),
            Some(_) => {}
        }
    }

    pub(super) fn read(&self) -> Statistics {
        self.counters.read(self.waiting.load(Ordering::Relaxed))
    }
}
