//! One group as one transaction.

use std::sync::Arc;

use redb::{Table, WriteTransaction};
use tidegate_contract::OwnedKey;
use tidegate_contract::book::Record;
use tidegate_contract::core::State;
use tidegate_memory::journal::{Collected, Sink};

use super::tracked::{Layouts, Placed, Tracked};
use crate::bytes::{Known, encode_plan, encode_record, encode_row, encode_table, row_head};
use crate::error::Fault;
use crate::layout::{LEASES, PLANS, ROWS, TABLES, lease_key, row_key};

/// What one shard's changes are as bytes.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// Where a row's key ends in `bytes`, and its states; `None`: delete it.
    rows: Vec<(usize, Option<usize>)>,
    /// A lease's id, and where its record ends.
    leases: Vec<(u128, Option<usize>)>,
    /// Where leases begin in `bytes`.
    middle: usize,
    /// The largest fence among them.
    fence: u64,
}

impl Gathered {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.leases.clear();
        (self.middle, self.fence) = (0, 0);
    }
}

impl Sink for Gathered {
    fn row(&mut self, key: &[u8], row: Option<&[State]>) {
        self.bytes.extend(key);
        let key_end = self.bytes.len();
        let states_end = row.map(|row| {
            encode_row(row, &mut self.bytes);
            let fences = row.iter().map(fence);
            self.fence = fences.fold(self.fence, u64::max);
            self.bytes.len()
        });
        self.rows.push((key_end, states_end));
        self.middle = self.bytes.len();
    }

    fn lease(&mut self, id: u128, record: Option<&Record<OwnedKey>>) {
        let end = record.map(|record| {
            encode_record(record, &mut self.bytes);
            self.bytes.len()
        });
        self.leases.push((id, end));
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

/// The file's tables, for one table of ours.
struct Tables<'g> {
    id: u32,
    tables: Table<'g, u32, &'static [u8]>,
    plans: Table<'g, (u32, u32), &'static [u8]>,
    rows: Table<'g, &'static [u8], &'static [u8]>,
    leases: Table<'g, &'static [u8], &'static [u8]>,
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
        let changed = !gathered.rows.is_empty() || !gathered.leases.is_empty();
        Ok(changed || matches!(placed, Placed::Written(_)))
    }

    fn write_rows(&mut self, gathered: &Gathered, serial: u32) -> Result<(), Fault> {
        let mut start = 0;
        for &(key_end, states_end) in &gathered.rows {
            row_key(self.id, &gathered.bytes[start..key_end], &mut self.key);
            match states_end {
                Some(end) => {
                    self.value.clear();
                    self.value.extend(row_head(serial));
                    self.value.extend(&gathered.bytes[key_end..end]);
                    self.rows
                        .insert(self.key.as_slice(), self.value.as_slice())?;
                }
                None => drop(self.rows.remove(self.key.as_slice())?),
            }
            start = states_end.unwrap_or(key_end);
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
