//! A table with what the file knows of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidegate_memory::MemoryTable;
use tidegate_memory::journal::Collected;
use tidegate_store::Plan;
use tidegate_store::core::Timestamp;

/// What a table is called in the file until all of it is deleted. No set is.
pub(super) const FORGOTTEN: &str = "\0";

/// A table, its number in the file, and what is written of it.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) memory: MemoryTable,
    /// Something may have changed since it was last collected.
    touched: AtomicBool,
    /// As of the last group that was written.
    pub(crate) layouts: Mutex<Layouts>,
}

/// Which plans the file's rows were written by. A row carries its plan's
/// serial, since a change of limits reaches the shards one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Layouts {
    pub(crate) plans: Vec<(u32, Arc<Plan>)>,
    /// The serial of each shard's plan; 0 before it was collected.
    pub(crate) shards: Vec<u32>,
    /// No fence that was granted is larger.
    pub(crate) fence: u64,
    /// The latest instant the table was told.
    pub(crate) latest: Timestamp,
}

/// What a shard's plan is in the file.
pub(crate) enum Placed {
    /// As it is.
    Known(u32),
    /// To be written.
    Written(u32),
}

impl Tracked {
    pub(crate) fn new(id: u32, name: String, memory: MemoryTable, layouts: Layouts) -> Self {
        Self {
            id,
            name,
            memory,
            touched: AtomicBool::new(true),
            layouts: Mutex::new(layouts),
        }
    }

    /// Whether it is being deleted from the file.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.name == FORGOTTEN
    }

    /// Something was changed.
    #[inline]
    pub(crate) fn touch(&self) {
        // It is read before it is written, so that busy threads share the line.
        if !self.touched.load(Ordering::Acquire) {
            self.touched.store(true, Ordering::Release);
        }
    }

    /// Whether something was changed since the last time.
    pub(super) fn take_touched(&self) -> bool {
        self.touched.swap(false, Ordering::AcqRel)
    }
}

impl Layouts {
    /// Those of a table that the file knows, or does not know yet.
    pub(crate) fn new(shards: usize, plans: Vec<(u32, Arc<Plan>)>) -> Self {
        Self {
            plans,
            shards: vec![0; shards],
            fence: 0,
            latest: Timestamp::MIN,
        }
    }

    /// Finds or makes the serial of the plan that a shard goes by.
    pub(super) fn place(&mut self, shard: usize, collected: &Collected) -> Placed {
        self.latest = self.latest.max(collected.latest);
        let plan = &collected.plan;
        let alike = self.plans.iter_mut().find(|(_, p)| p.has_limits_of(plan));
        let placed = match alike {
            Some((serial, known)) if plan.version() <= known.version() => Placed::Known(*serial),
            Some((serial, known)) => {
                *known = Arc::clone(plan);
                Placed::Written(*serial)
            }
            None => {
                let serial = self.plans.iter().map(|(s, _)| *s).max().unwrap_or(0) + 1;
                self.plans.push((serial, Arc::clone(plan)));
                Placed::Written(serial)
            }
        };
        self.shards[shard] = placed.serial();
        placed
    }

    /// Takes out the plans that no shard goes by any more.
    pub(super) fn take_unused(&mut self) -> Vec<u32> {
        let shards = &self.shards;
        let used = |serial: u32| shards.contains(&serial) || shards.contains(&0);
        let unused = self.plans.iter().map(|(serial, _)| *serial);
        let unused: Vec<u32> = unused.filter(|serial| !used(*serial)).collect();
        self.plans.retain(|(serial, _)| !unused.contains(serial));
        unused
    }

    /// The clock has come so far: fences have too.
    pub(super) fn follow_clock(&mut self) {
        let clock = u64::try_from(self.latest.as_micros()).unwrap_or(0);
        self.fence = self.fence.max(clock);
    }
}

impl Placed {
    pub(super) const fn serial(&self) -> u32 {
        match self {
            Self::Known(serial) | Self::Written(serial) => *serial,
        }
    }
}
