//! When it is time to prune.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// One after so many commands: each adds a few rows at most.
const COMMANDS: u32 = 64;

/// When it is time. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Pruner {
    commands: AtomicU32,
    is_at_it: AtomicBool,
}

impl Pruner {
    /// Counts a command; whether it is time to prune, which then is to be
    /// [said to be done](Self::done).
    pub(crate) fn is_due(&self) -> bool {
        let turn = self.commands.fetch_add(1, Ordering::Relaxed);
        turn % COMMANDS == COMMANDS - 1 && !self.is_at_it.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn done(&self) {
        self.is_at_it.store(false, Ordering::Relaxed);
    }
}
