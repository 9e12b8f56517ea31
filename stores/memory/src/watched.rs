//! A table that is watched by a journal: what it hands over, and takes back.

use std::sync::Arc;

use tidegate_store::core::{Bounds as Calendar, Span, State, Timestamp};
use tidegate_store::key::{level_of_row, root_of};
use tidegate_store::ledger::Record;
use tidegate_store::{KeyPath, Overrides, OwnedKey, Plan, Usage};

use crate::bounds::Bounds;
use crate::capacity::Capacity;
use crate::hash::hash_of;
use crate::journal::{self, Adopted, Collected, Journalled, RowView, Sink, Watch};
use crate::rows::Rows;
use crate::shard::Shard;
use crate::slab::Slab;
use crate::table::MemoryTable;

impl MemoryTable {
    /// An empty table that notes its changes. `latest` is the last instant that
    /// an earlier one was told, and no fence was granted beyond `fence_floor`.
    #[must_use]
    pub fn watched(
        plan: &Arc<Plan>,
        bounds: Bounds,
        (adopted, latest): (&Adopted, Timestamp),
        fence_floor: u64,
    ) -> Self {
        let table = Self::new(plan, bounds);
        for shard in &table.shards {
            let mut watch = Watch::new(adopted.clone(), fence_floor);
            watch.latest = latest;
            shard.0.lock().be_watched(watch);
        }
        table
    }

    /// How many shards there are to [collect](Self::collect) from.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Tells `sink` what the rows and leases of a shard are that have changed
    /// since the last time, all as of one instant.
    pub fn collect(&self, shard: usize, sink: &mut dyn Sink) -> Option<Collected> {
        self.shards[shard].0.lock().collect(sink)
    }

    /// Notes again what was collected, because it could not be kept.
    pub fn note_again(&self, shard: usize, collected: Collected) {
        self.shards[shard].0.lock().note_again(collected);
    }

    /// Puts a journalled row back. One that another plan wrote, or that is spent,
    /// is noted as changed: it is to be written again, or deleted.
    pub fn restore_row(&self, journalled: Journalled<'_>) {
        let last = self.last_plan();
        let root = root_of(journalled.key, last.levels());
        let shard = self.shard(hash_of(&self.hasher, root));
        shard.lock().restore_row(journalled, &self.capacity);
    }

    /// From here on these keys have limits of their own, as they were when their
    /// rows were written; before any row is put back.
    pub fn restore_overrides(&self, overrides: Overrides) {
        let plan = Plan::clone(&self.last_plan()).with_overrides(overrides);
        let plan = Arc::new(plan);
        for shard in &self.shards {
            shard.0.lock().plan = Arc::clone(&plan);
        }
    }

    /// Puts a journalled record of usage back, which was to be kept for so long.
    pub fn restore_usage(&self, record: Usage, kept: Span) {
        let last = self.last_plan();
        let root = root_of(record.key.bytes(), last.levels());
        let mut shard = self.shard(hash_of(&self.hasher, root)).lock();
        let plan_says = last.usage();
        shard
            .usage
            .restore((record, kept), plan_says, &self.capacity);
    }

    /// Puts a journalled lease back; those due earliest first.
    pub fn restore_lease(&self, record: Record<OwnedKey>) {
        let last = self.last_plan();
        let owner = record.owner.clone();
        if let Ok(path) = KeyPath::stored(owner.bytes(), last.levels()) {
            let shard = self.shard(hash_of(&self.hasher, path.root()));
            shard.lock().ledger.restore(record, path.root());
        }
    }
}

impl Shard {
    /// From here on, notes what changes.
    fn be_watched(&mut self, watch: Watch) {
        // A word counts from an epoch near the clock's, which is not known yet.
        self.rows = Rows::General(Slab::new());
        self.ledger.note_changes();
        self.usage.note_changes();
        self.watch = Some(Box::new(watch));
    }

    /// Notes a row as changed, if anybody wants to know.
    #[inline]
    pub(crate) fn note(&mut self, key: &[u8]) {
        if let Some(watch) = &mut self.watch {
            watch.note(key);
        }
    }

    /// Notes the row at `at`.
    #[cold]
    pub(crate) fn note_at(&mut self, at: usize) {
        let Some(watch) = &mut self.watch else { return };
        let key = match &self.rows {
            Rows::Packed(packed_rows) => packed_rows.slab.slot(at).map(|slot| &slot.key),
            Rows::General(slab) => slab.slot(at).map(|slot| &slot.key),
        };
        key.into_iter().for_each(|key| watch.note(key.bytes()));
    }

    /// Notes every row before it is carried over to a plan that differs.
    pub(crate) fn note_adoption(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        calendars: &[Option<Calendar>],
    ) {
        let Some(watch) = &mut self.watch else { return };
        watch.latest = watch.latest.max(now);
        if plan.has_limits_of(&self.plan) {
            let differing = plan.differing_from(&self.plan);
            differing.iter().for_each(|key| watch.note(key.bytes()));
            return;
        }
        watch.adopted = Adopted {
            at: now,
            calendars: calendars.to_vec(),
        };
        match &self.rows {
            Rows::Packed(packed_rows) => packed_rows.slab.keys().for_each(|key| watch.note(key)),
            Rows::General(slab) => slab.keys().for_each(|key| watch.note(key)),
        }
    }

    fn collect(&mut self, sink: &mut dyn Sink) -> Option<Collected> {
        let watch = self.watch.as_mut()?;
        let collected = Collected {
            plan: Arc::clone(&self.plan),
            adopted: watch.adopted.clone(),
            latest: watch.latest,
            rows: std::mem::take(&mut watch.rows),
            leases: self.ledger.take_changed().into_iter().collect(),
            usage: self.usage.take_changed(),
        };
        for key in &collected.rows {
            self.report_row(key.bytes(), collected.latest, sink);
        }
        for &id in &collected.leases {
            sink.lease(id, self.ledger.get(id));
        }
        for place in &collected.usage {
            let (key, limit, hour) = place;
            let amount = self.usage.at(key.bytes(), limit, *hour);
            sink.usage(place, amount.map(|amount| (amount, self.usage.keep())));
        }
        Some(collected)
    }

    /// Tells what the row of `key` is now.
    fn report_row(&self, key: &[u8], latest: Timestamp, sink: &mut dyn Sink) {
        let hash = hash_of(&self.hasher, key);
        let mut report = |states: &[State]| sink.row(key, self.view(key, states, latest));
        match &self.rows {
            Rows::Packed(packed_rows) => {
                let at = packed_rows.slab.find(hash, key);
                report(&[at.map_or(State::Fresh, |at| packed_rows.look(at, latest))]);
            }
            Rows::General(slab) => {
                let found = slab.find(hash, key).and_then(|at| slab.slot(at));
                report(found.map_or(&[], |slot| &slot.value[..]));
            }
        }
    }

    /// What is told of a row, if it matters.
    fn view<'a>(
        &'a self,
        key: &[u8],
        states: &'a [State],
        latest: Timestamp,
    ) -> Option<RowView<'a>> {
        let (plan, level) = (&self.plan, level_of_row(key, self.plan.levels()));
        let own = plan.overrides().get(key);
        let view = RowView {
            states,
            own: own.map(|own| &own.limits()[own.range(level)]),
        };
        (journal::forget_at(plan.of_row(key), level, states) > latest).then_some(view)
    }

    fn note_again(&mut self, collected: Collected) {
        if let Some(watch) = &mut self.watch {
            watch.rows.extend(collected.rows);
        }
        collected.leases.iter().for_each(|&id| self.ledger.note(id));
        self.usage.note_again(collected.usage);
    }

    fn restore_row(&mut self, journalled: Journalled<'_>, capacity: &Capacity) {
        let Some(watch) = &mut self.watch else { return };
        let key = journalled.key;
        let plan = self.plan.of_row(key);
        let as_written = journalled.plan.has_limits_of(plan);
        let row = watch.revive(plan, journalled);
        if !as_written || row.is_none() {
            watch.note(key);
        }
        if let (Some(row), Rows::General(slab)) = (row, &mut self.rows) {
            capacity.reserve_anyway(1);
            let rehash = |key: &[u8]| hash_of(&self.hasher, key);
            slab.insert(rehash(key), OwnedKey::new(key), row, rehash);
            let root = root_of(key, self.plan.levels());
            self.count_row(hash_of(&self.hasher, root), 1);
        }
    }
}
