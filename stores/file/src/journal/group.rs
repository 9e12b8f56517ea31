//! One group as one transaction.

use std::sync::Arc;

use redb::{ReadableTable, Table, WriteTransaction};
use tidegate_memory::journal::{Collected, RowView, Sink, UsagePlace};
use tidegate_store::OwnedKey;
use tidegate_store::core::{Span, State, Timestamp};
use tidegate_store::ledger::Record;

use super::shared::{Change, Kind};
use super::tracked::{FORGOTTEN, Layouts, Placed, Tracked};
use crate::bytes::{
    Known, encode_own, encode_plan, encode_record, encode_row, encode_table, row_head,
};
use crate::error::Fault;
use crate::layout::{
    DEFINED, EVENTS, FORMAT, FORMAT_KEY, LEASES, META, OWNERS, PLANS, ROWS, TABLES, USAGE,
    lease_key, row_key, usage_key,
};

/// What one shard's changes are as bytes.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    rows: Vec<GatheredRow>,
    /// A lease's id, and where its record ends.
    leases: Vec<(u128, Option<usize>)>,
    usage: Vec<(UsagePlace, Option<(u64, Span)>)>,
    /// Where leases begin in `bytes`.
    middle: usize,
    /// The largest fence among them.
    fence: u64,
}

/// Where a row ends in `bytes`.
#[derive(Debug)]
struct GatheredRow {
    key: usize,
    /// Its states, and before them the rules that are its own; `None`: delete it.
    row: Option<usize>,
    has_rules: bool,
}

impl Gathered {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.leases.clear();
        self.usage.clear();
        (self.middle, self.fence) = (0, 0);
    }
}

impl Sink for Gathered {
    fn row(&mut self, key: &[u8], row: Option<RowView<'_>>) {
        self.bytes.extend(key);
        let key = self.bytes.len();
        let own = row.and_then(|row| row.own);
        if let Some(own) = own {
            encode_own(own, &mut self.bytes);
        }
        let row = row.map(|row| {
            encode_row(row.states, &mut self.bytes);
            let fences = row.states.iter().map(fence);
            self.fence = fences.fold(self.fence, u64::max);
            self.bytes.len()
        });
        let has_rules = own.is_some();
        self.rows.push(GatheredRow {
            key,
            row,
            has_rules,
        });
        self.middle = self.bytes.len();
    }

    fn lease(&mut self, id: u128, record: Option<&Record<OwnedKey>>) {
        let end = record.map(|record| {
            encode_record(record, &mut self.bytes);
            self.bytes.len()
        });
        self.leases.push((id, end));
    }

    fn usage(&mut self, place: &UsagePlace, kept: Option<(u64, Span)>) {
        self.usage.push((place.clone(), kept));
    }
}

fn fence(state: &State) -> u64 {
    match state {
        State::Slots(state) => state.fence(),
        _ => 0,
    }
}

/// What was taken out of a table for a group, to be noted again if it fails.
#[derive(Debug)]
pub(super) struct Taken {
    tracked: Arc<Tracked>,
    shards: Vec<(usize, Collected)>,
    layouts: Layouts,
}

impl Taken {
    /// The group was written.
    pub(super) fn settle(self) {
        *self.tracked.layouts.lock() = self.layouts;
    }

    /// The group was not written.
    pub(super) fn give_back(self) {
        for (shard, collected) in self.shards {
            self.tracked.memory.note_again(shard, collected);
        }
        self.tracked.touch();
    }
}

/// Writes the changes of `tracked` into `group`; what was taken for it is added
/// to `taken`, also if this fails. Answers whether there was anything.
pub(super) fn write(
    group: &WriteTransaction,
    tracked: &Arc<Tracked>,
    reserve: u64,
    taken: &mut Vec<Taken>,
    gathered: &mut Gathered,
) -> Result<bool, Fault> {
    taken.push(Taken {
        tracked: Arc::clone(tracked),
        shards: Vec::new(),
        layouts: tracked.layouts.lock().clone(),
    });
    let taken = taken.last_mut().expect("it was just pushed");
    let mut tables = Tables::open(group, tracked.id)?;
    let mut wrote = false;
    for shard in 0..tracked.memory.shards() {
        gathered.clear();
        let Some(collected) = tracked.memory.collect(shard, gathered) else {
            continue;
        };
        let placed = taken.layouts.place(shard, &collected);
        taken.layouts.fence = taken.layouts.fence.max(gathered.fence);
        // Noted before anything can fail.
        taken.shards.push((shard, collected));
        let (_, collected) = taken.shards.last().expect("it was just pushed");
        wrote |= tables.write(gathered, &placed, collected)?;
    }
    let unused = taken.layouts.take_unused();
    wrote |= !unused.is_empty();
    tables.forget_plans(&unused)?;
    if wrote {
        taken.layouts.follow_clock();
        tables.write_known(&tracked.name, &taken.layouts, reserve)?;
    }
    Ok(wrote)
}

/// Writes definitions into `group`; from then on the file has the newest format,
/// so that no older version passes over them.
pub(super) fn define(group: &WriteTransaction, definitions: &[Change]) -> Result<(), Fault> {
    if definitions.is_empty() {
        return Ok(());
    }
    group.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
    let mut defined = group.open_table(DEFINED)?;
    let mut owners = group.open_table(OWNERS)?;
    let mut events = group.open_table(EVENTS)?;
    for Change { kind, place, value } in definitions {
        let table = match kind {
            Kind::Definition => &mut defined,
            Kind::Version => &mut owners,
            Kind::Event => &mut events,
        };
        match value {
            Some(value) => drop(table.insert(place.as_slice(), value.as_slice())?),
            None => drop(table.remove(place.as_slice())?),
        }
    }
    Ok(())
}

/// How many rows and leases of forgotten tables one group deletes, so that nobody
/// waits long for it.
const DELETED_AT_ONCE: usize = 4_096;

/// Deletes what is left of the tables `forgotten`, or some of it; of those that
/// stay in the list, nothing is left.
pub(super) fn delete(group: &WriteTransaction, forgotten: &mut Vec<u32>) -> Result<(), Fault> {
    if forgotten.is_empty() {
        return Ok(());
    }
    let mut tables = group.open_table(TABLES)?;
    let mut plans = group.open_table(PLANS)?;
    let mut kept = [group.open_table(ROWS)?, group.open_table(LEASES)?];
    let mut usage = group.open_table(USAGE)?;
    let mut left = DELETED_AT_ONCE;
    let mut gone = Vec::new();
    for &id in &*forgotten {
        let (from, to) = (id.to_be_bytes(), id.saturating_add(1).to_be_bytes());
        for table in &mut kept {
            let range = &from[..]..&to[..];
            for entry in table.extract_from_if(range, |_, _| true)?.take(left) {
                entry?;
                left -= 1;
            }
        }
        let range = &from[..]..&to[..];
        for entry in usage.extract_from_if(range, |_, _| true)?.take(left) {
            entry?;
            left -= 1;
        }
        if left > 0 {
            plans.retain_in((id, 0)..=(id, u32::MAX), |_, _| false)?;
            tables.remove(id)?;
            gone.push(id);
        } else if tables.get(id)?.is_some() {
            let known = encode_table(&Known {
                name: FORGOTTEN.to_owned(),
                fence: 0,
                latest: Timestamp::MIN,
            });
            tables.insert(id, known.as_slice())?;
        }
    }
    *forgotten = gone;
    Ok(())
}

/// The file's tables, for one table of ours.
struct Tables<'g> {
    id: u32,
    tables: Table<'g, u32, &'static [u8]>,
    plans: Table<'g, (u32, u32), &'static [u8]>,
    rows: Table<'g, &'static [u8], &'static [u8]>,
    leases: Table<'g, &'static [u8], &'static [u8]>,
    usage: Table<'g, &'static [u8], (u64, u64)>,
    /// Where a row's key and value are put together.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'g> Tables<'g> {
    fn open(group: &'g WriteTransaction, id: u32) -> Result<Self, Fault> {
        Ok(Self {
            id,
            tables: group.open_table(TABLES)?,
            plans: group.open_table(PLANS)?,
            rows: group.open_table(ROWS)?,
            leases: group.open_table(LEASES)?,
            usage: group.open_table(USAGE)?,
            key: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Writes one shard's changes; whether there were any.
    fn write(
        &mut self,
        gathered: &Gathered,
        placed: &Placed,
        collected: &Collected,
    ) -> Result<bool, Fault> {
        if let Placed::Written(serial) = placed {
            let plan = encode_plan(&collected.plan, &collected.adopted);
            self.plans.insert((self.id, *serial), plan.as_slice())?;
        }
        self.write_rows(gathered, placed.serial())?;
        self.write_leases(gathered)?;
        self.write_usage(gathered)?;
        let changed =
            !gathered.rows.is_empty() || !gathered.leases.is_empty() || !gathered.usage.is_empty();
        Ok(changed || matches!(placed, Placed::Written(_)))
    }

    fn write_rows(&mut self, gathered: &Gathered, serial: u32) -> Result<(), Fault> {
        let mut start = 0;
        for row in &gathered.rows {
            row_key(self.id, &gathered.bytes[start..row.key], &mut self.key);
            match row.row {
                Some(end) => {
                    self.value.clear();
                    self.value.extend(row_head(serial, row.has_rules));
                    self.value.extend(&gathered.bytes[row.key..end]);
                    self.rows
                        .insert(self.key.as_slice(), self.value.as_slice())?;
                }
                None => drop(self.rows.remove(self.key.as_slice())?),
            }
            start = row.row.unwrap_or(row.key);
        }
        Ok(())
    }

    fn write_leases(&mut self, gathered: &Gathered) -> Result<(), Fault> {
        let mut start = gathered.middle;
        for &(id, end) in &gathered.leases {
            let key = lease_key(self.id, id);
            match end {
                Some(end) => {
                    let record = &gathered.bytes[start..end];
                    self.leases.insert(key.as_slice(), record)?;
                    start = end;
                }
                None => drop(self.leases.remove(key.as_slice())?),
            }
        }
        Ok(())
    }

    fn write_usage(&mut self, gathered: &Gathered) -> Result<(), Fault> {
        for (place, kept) in &gathered.usage {
            usage_key(self.id, place, &mut self.key);
            match kept {
                Some((amount, keep)) => {
                    let kept = (*amount, keep.as_micros());
                    drop(self.usage.insert(self.key.as_slice(), kept)?);
                }
                None => drop(self.usage.remove(self.key.as_slice())?),
            }
        }
        Ok(())
    }

    fn forget_plans(&mut self, serials: &[u32]) -> Result<(), Fault> {
        for &serial in serials {
            self.plans.remove((self.id, serial))?;
        }
        Ok(())
    }

    fn write_known(&mut self, name: &str, layouts: &Layouts, reserve: u64) -> Result<(), Fault> {
        let known = encode_table(&Known {
            name: name.to_owned(),
            fence: layouts.fence.saturating_add(reserve),
            latest: layouts.latest,
        });
        self.tables.insert(self.id, known.as_slice())?;
        Ok(())
    }
}
