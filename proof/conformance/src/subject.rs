//! The store under test, and what it can do.

use std::sync::Arc;

use tidegate::contract::{Abilities, Store};

type Open = Box<dyn Fn() -> Arc<dyn Store>>;
type OpenBounded = Box<dyn Fn(usize, usize) -> Arc<dyn Store>>;

/// How a store is opened for a test. What it is not told of is skipped, with
/// the reason.
pub struct Subject {
    fresh: Open,
    bounded: Option<OpenBounded>,
    reopened: Option<Open>,
    drops_spent_state: bool,
}

impl Subject {
    /// A store that `fresh` opens, with nothing in it that a test would find:
    /// every test has tables of its own names.
    #[must_use]
    pub fn new(fresh: impl Fn() -> Arc<dyn Store> + 'static) -> Self {
        Self {
            fresh: Box::new(fresh),
            bounded: None,
            reopened: None,
            drops_spent_state: false,
        }
    }

    /// `open(max_keys, max_leases)` opens a store whose tables hold no more.
    #[must_use]
    pub fn bounded(mut self, open: impl Fn(usize, usize) -> Arc<dyn Store> + 'static) -> Self {
        self.bounded = Some(Box::new(open));
        self
    }

    /// `open` opens what was opened last once more, as after a restart.
    #[must_use]
    pub fn reopened(mut self, open: impl Fn() -> Arc<dyn Store> + 'static) -> Self {
        self.reopened = Some(Box::new(open));
        self
    }

    /// The store drops state that equals "never seen" on its own time, so that
    /// what a clock finds there that steps back is anybody's guess.
    #[must_use]
    pub const fn drops_spent_state_early(mut self) -> Self {
        self.drops_spent_state = true;
        self
    }

    pub(crate) fn fresh(&self) -> Arc<dyn Store> {
        (self.fresh)()
    }

    pub(crate) const fn drops_spent_state(&self) -> bool {
        self.drops_spent_state
    }

    pub(crate) fn abilities(&self) -> Abilities {
        self.fresh().abilities()
    }
}
