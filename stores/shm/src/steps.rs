//! How steps on a segment are taken.

use std::time::Duration;

use tidegate_store::StoreError;

use crate::error::Fault;
use crate::layout::{shard, shard_at};
use crate::segment::Segment;
use crate::sweep::Sweeps;
use crate::txn::Txn;

/// A segment, and how long a step on it waits for a lock.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) segment: Segment,
    pub(crate) deadline: Duration,
    sweeps: Sweeps,
}

impl Steps {
    pub(crate) fn new(segment: Segment, deadline: Duration) -> Self {
        Self {
            segment,
            deadline,
            sweeps: Sweeps::default(),
        }
    }

    /// Begins a step on a shard.
    pub(crate) fn begin(&self, shard: usize) -> Result<Txn<'_>, StoreError> {
        Txn::begin(&self.segment, shard, self.deadline)
    }

    /// One step on a shard. Where it finds no room, what is spent is deleted there, and it
    /// is tried once more.
    ///
    /// # Errors
    /// What `step` says, or there is no room; then nothing was done.
    pub(crate) fn step<T>(
        &self,
        shard: usize,
        mut step: impl FnMut(&mut Txn<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut once = || {
            let mut txn = self.begin(shard)?;
            let done = step(&mut txn)?;
            txn.commit()?;
            Ok(done)
        };
        match once() {
            Err(Fault::Full) if self.makes_room(shard) => once(),
            told => told,
        }
        .map_err(|fault| fault.told(|| self.full()))
    }

    /// Deletes what is spent in a shard; whether there was anything.
    pub(crate) fn makes_room(&self, shard: usize) -> bool {
        self.sweeps.sweep(&self.segment, shard, self.deadline)
    }

    /// One step on the registry.
    pub(crate) fn register<T>(
        &self,
        step: impl FnMut(&mut Txn<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.step(shard::REGISTRY, step)
    }

    /// What is full, and what would make room.
    pub(crate) fn full(&self) -> String {
        let (segment, path) = (&self.segment, self.segment.path().display());
        if segment.has_free_chunk() {
            return format!(
                "the machine has no memory left for {path}; see df -h of its directory, and make room there"
            );
        }
        let mebibytes = segment.size() >> 20;
        format!(
            "{path} has {mebibytes} MiB and {} keys, which all matter; stop its processes, remove it, and start them with a larger size, as ?size={} (MiB)",
            self.rows(),
            2 * mebibytes
        )
    }

    /// How many rows there are in all, about.
    fn rows(&self) -> usize {
        let mapping = self.segment.mapping();
        let rows = (0..shard::ROOTS).map(|number| mapping.get(shard_at(number) + shard::ROWS));
        rows.sum::<u64>() as usize
    }
}
