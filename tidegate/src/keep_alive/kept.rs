//! What a lease knows of its own term.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;

use super::term::{End, Term};
use super::thread::RenewalTask;

/// For how long a lease is surely held, and what renews it.
pub(crate) struct Kept {
    pub(crate) term: Arc<Term>,
    /// How it is kept alive, if it is.
    pub(crate) way: Option<Way>,
    pub(crate) task: Option<RenewalTask>,
}

/// How a lease is kept alive.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) ttl: Duration,
    /// It is not renewed beyond this.
    pub(crate) longest: Option<Timestamp>,
}

impl Kept {
    pub(crate) fn expires_at(&self) -> Timestamp {
        self.term.expires_at()
    }

    /// Its holder ends it. The renewal goes first, which then need not be told.
    pub(crate) fn end(&mut self) {
        self.task = None;
        self.term.finish(End::ByHolder);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.end();
    }
}
