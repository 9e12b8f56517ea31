//! The lines of a set, by root, and the bound on all of them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tidegate_contract::sync::Mutex;
use tidegate_contract::sync::atomic::Ordering;
use tidegate_contract::{KeyPath, OwnedKey};
use tidegate_core::Timestamp;

use super::line::Line;
use super::waiter::{Answer, Waiter};
use crate::clock::timer::Ring;
use crate::error::Error;
use crate::set::Inner;

/// The lines of a set. A line is there while somebody stands in it.
pub(crate) struct Lines {
    set: Weak<Inner>,
    by_root: Mutex<HashMap<OwnedKey, Arc<Line>, foldhash::fast::RandomState>>,
    max_waiting: usize,
}

impl Lines {
    pub(crate) fn new(set: Weak<Inner>, max_waiting: usize) -> Self {
        Self {
            set,
            by_root: Mutex::default(),
            max_waiting,
        }
    }

    /// How many may wait.
    pub(super) const fn most(&self) -> usize {
        self.max_waiting
    }

    /// Puts `waiter` in line and serves the line: it may be its turn at once.
    pub(super) fn join(
        &self,
        waiter: &Arc<Waiter>,
        deadline: Option<Timestamp>,
    ) -> Result<(), Error> {
        let Some(set) = self.set.upgrade() else {
            return Err(Error::Stopped);
        };
        if set.waiting.fetch_add(1, Ordering::Relaxed) >= self.max_waiting {
            set.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::QueueFull(self.max_waiting));
        }
        let line = self.stand(&set, waiter);
        // Only now: an alarm that finds nobody in line is lost.
        if let Some(at) = deadline {
            let who: Weak<dyn Ring> = Arc::<Waiter>::downgrade(waiter);
            let alarm = set.clock.timer().set(at, who);
            if !waiter.keep_deadline(alarm) {
                set.clock.timer().unset(alarm);
            }
        }
        line.serve(set.clock.now());
        self.sweep(&line.root);
        Ok(())
    }

    /// Puts `waiter` in line, serves it if it is its turn, and takes it out.
    /// It does not count as waiting: nobody has to look out for it.
    pub(super) fn pass_through(&self, waiter: &Arc<Waiter>) -> Answer {
        let Some(set) = self.set.upgrade() else {
            return Err(Error::Stopped);
        };
        let line = self.stand(&set, waiter);
        line.give_up(waiter);
        waiter.take_answer().unwrap_or(Err(Error::Stopped))
    }

    /// Serves the line of `root`, if there is one.
    pub(crate) fn serve(&self, root: &[u8], now: Timestamp) {
        let line = self.by_root.lock().get(&OwnedKey::new(root)).cloned();
        if let Some(line) = line {
            line.serve(now);
            self.sweep(&line.root);
        }
    }

    /// Serves every line: the limits have changed.
    pub(crate) fn serve_all(&self, now: Timestamp) {
        let lines: Vec<_> = self.by_root.lock().values().cloned().collect();
        for line in lines {
            line.serve(now);
            self.sweep(&line.root);
        }
    }

    /// Answers everyone who waits that there will be no turn.
    pub(crate) fn stop_all(&self) {
        let lines: Vec<_> = self.by_root.lock().values().cloned().collect();
        for line in lines {
            line.stop();
            self.sweep(&line.root);
        }
    }

    /// Drops the line of `root` if nobody stands in it any more.
    pub(super) fn sweep(&self, root: &OwnedKey) {
        let mut by_root = self.by_root.lock();
        if by_root.get(root).is_some_and(|line| line.is_empty()) {
            by_root.remove(root);
        }
    }

    fn stand(&self, set: &Arc<Inner>, waiter: &Arc<Waiter>) -> Arc<Line> {
        let levels = set.view.load().plan.levels();
        let bytes = waiter.key.bytes();
        let root = KeyPath::new(bytes, levels).map_or(bytes, |path| path.root());
        let mut by_root = self.by_root.lock();
        let line = by_root
            .entry(OwnedKey::new(root))
            .or_insert_with(|| Line::new(root, Weak::clone(&self.set)));
        line.add(waiter);
        Arc::clone(line)
    }
}
