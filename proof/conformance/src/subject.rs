//! The store under test, and what it can do.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_store::{Abilities, Store};

use crate::namespace;

/// Why a check was skipped.
pub type Skipped = &'static str;

type Open = Box<dyn Fn() -> Arc<dyn Store>>;
type OpenBounded = Box<dyn Fn(usize, usize) -> Arc<dyn Store>>;

/// How a store is opened for a test. What it is not told of is skipped, with
/// the reason.
pub struct Subject {
    fresh: Open,
    bounded: Option<OpenBounded>,
    reopened: Option<Open>,
    drops_spent_state: bool,
    reads_ancestors: bool,
    random_commands: usize,
    most_walks: u32,
}

/// The walks of this process: each has a number of its own.
static WALKS: AtomicUsize = AtomicUsize::new(0);

/// How many random commands a run of the suite sends, unless said otherwise.
const RANDOM_COMMANDS: usize = 60_000;

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
            reads_ancestors: true,
            random_commands: RANDOM_COMMANDS,
            most_walks: u32::MAX,
        }
    }

    /// A store that is opened once for many tests and walks, each with names of its
    /// own in it (also where several stores are on one server), and again, as after a
    /// restart, by `open`.
    #[must_use]
    pub fn opened_once(open: impl Fn() -> Arc<dyn Store> + 'static) -> Self {
        let (open, walk) = (Rc::new(open), Rc::new(Cell::new(0)));
        let (reopen, walked) = (Rc::clone(&open), Rc::clone(&walk));
        let store = open();
        Self::new(move || {
            walk.set(WALKS.fetch_add(1, Ordering::Relaxed));
            namespace::of_walk(Arc::clone(&store), walk.get())
        })
        .reopened(move || namespace::of_walk(reopen(), walked.get()))
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

    /// The store reads a definition alone where it is asked for its ancestors, too.
    #[must_use]
    pub const fn reads_no_ancestors(mut self) -> Self {
        self.reads_ancestors = false;
        self
    }

    /// So many random commands in a run of the suite: fewer for a store that
    /// takes its time.
    #[must_use]
    pub const fn with_random_commands(mut self, commands: usize) -> Self {
        self.random_commands = commands;
        self
    }

    /// No more walks than this, however many `PROPTEST_CASES` says.
    #[must_use]
    pub const fn with_most_walks(mut self, walks: u32) -> Self {
        self.most_walks = walks;
        self
    }

    pub(crate) fn walks(&self, wanted: u32) -> u32 {
        wanted.min(self.most_walks)
    }

    /// How many random commands a run of the suite sends.
    #[must_use]
    pub const fn random_commands(&self) -> usize {
        self.random_commands
    }

    pub(crate) fn bounded_store(
        &self,
        max_keys: usize,
        max_leases: usize,
    ) -> Result<Arc<dyn Store>, Skipped> {
        let open = self.bounded.as_ref().ok_or("its tables have no bounds")?;
        Ok(open(max_keys, max_leases))
    }

    pub(crate) fn reopened_store(&self) -> Result<&Open, Skipped> {
        let reopened = self.reopened.as_ref();
        reopened.ok_or("it forgets when it is closed")
    }

    pub(crate) fn needs_the_callers_clock(&self) -> Result<(), Skipped> {
        if self.abilities().own_clock {
            return Err("it reads a clock of its own");
        }
        Ok(())
    }

    pub(crate) fn fresh(&self) -> Arc<dyn Store> {
        (self.fresh)()
    }

    pub(crate) const fn reads_ancestors(&self) -> bool {
        self.reads_ancestors
    }

    pub(crate) const fn drops_spent_state(&self) -> bool {
        self.drops_spent_state
    }

    pub(crate) fn abilities(&self) -> Abilities {
        self.fresh().abilities()
    }
}
