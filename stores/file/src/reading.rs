//! What is read back from a file: tables and their plans, rows, leases.

use std::collections::HashMap;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableTable};
use tidegate_contract::book::Record;
use tidegate_contract::core::State;
use tidegate_contract::{KeyPath, OwnedKey, Plan};
use tidegate_memory::journal::{Adopted, Journalled};
use tidegate_memory::{Bounds, MemoryTable};

use crate::bytes::{Known, decode_plan, decode_record, decode_row, decode_table};
use crate::error::Fault;
use crate::journal::{Layouts, Tracked};
use crate::layout::{FORMAT, FORMAT_KEY, LEASES, META, PLANS, ROWS, TABLES, split};

/// A table on its way back.
struct Found {
    known: Known,
    plans: Vec<(u32, Arc<Plan>, Adopted)>,
    memory: MemoryTable,
    /// The newest plan's place in `plans`.
    last: usize,
    records: Vec<Record<OwnedKey>>,
}

/// Reads a file back.
pub(crate) struct Reading<'r> {
    group: &'r ReadTransaction,
    found: HashMap<u32, Found>,
    /// How much there is to keep.
    bytes: u64,
}

impl<'r> Reading<'r> {
    /// The tables and their plans.
    pub(crate) fn new(group: &'r ReadTransaction, bounds: Bounds) -> Result<Self, Fault> {
        check_format(group)?;
        let mut plans: HashMap<u32, Vec<_>> = HashMap::new();
        for entry in group.open_table(PLANS)?.iter()? {
            let (place, plan) = entry?;
            let (table, serial) = place.value();
            let (plan, adopted) = decode_plan(plan.value())?;
            plans
                .entry(table)
                .or_default()
                .push((serial, Arc::new(plan), adopted));
        }
        let mut found = HashMap::new();
        for entry in group.open_table(TABLES)?.iter()? {
            let (id, known) = entry?;
            let plans = plans.remove(&id.value()).unwrap_or_default();
            found.insert(
                id.value(),
                Found::new(decode_table(known.value())?, plans, bounds)?,
            );
        }
        Ok(Self {
            group,
            found,
            bytes: 0,
        })
    }

    /// The rows and leases, into their tables; and how many bytes they are.
    pub(crate) fn read(mut self) -> Result<(Vec<Arc<Tracked>>, u64), Fault> {
        for entry in self.group.open_table(ROWS)?.iter()? {
            let (key, row) = entry?;
            self.row(key.value(), row.value())?;
        }
        for entry in self.group.open_table(LEASES)?.iter()? {
            let (key, record) = entry?;
            self.lease(key.value(), record.value())?;
        }
        let tables = self.found.into_iter().map(|(id, found)| found.finish(id));
        let mut tables: Vec<_> = tables.collect();
        tables.sort_by_key(|tracked| tracked.id);
        Ok((tables, self.bytes))
    }

    fn row(&mut self, key: &[u8], row: &[u8]) -> Result<(), Fault> {
        self.bytes += (key.len() + row.len()) as u64;
        let (found, key) = find(&mut self.found, key)?;
        let (serial, row) = decode_row(row)?;
        let plan = found.plans.iter().find(|(known, ..)| *known == serial);
        let (_, plan, _) = plan.ok_or_else(|| damaged("a row's plan is missing"))?;
        check_row(plan, key, &row)?;
        found.memory.restore_row(Journalled { key, row, plan });
        Ok(())
    }

    fn lease(&mut self, key: &[u8], record: &[u8]) -> Result<(), Fault> {
        self.bytes += (key.len() + record.len()) as u64;
        let (found, id) = find(&mut self.found, key)?;
        let record = decode_record(record)?;
        if id != record.granted.id.to_be_bytes() {
            return Err(damaged("a lease is not where it belongs"));
        }
        KeyPath::new(record.owner.bytes(), found.plans[found.last].1.levels())
            .map_err(|_| damaged("a lease's key is none"))?;
        found.records.push(record);
        Ok(())
    }
}

impl Found {
    fn new(
        known: Known,
        plans: Vec<(u32, Arc<Plan>, Adopted)>,
        bounds: Bounds,
    ) -> Result<Self, Fault> {
        let newest = plans
            .iter()
            .enumerate()
            .max_by_key(|(_, (_, plan, _))| plan.version());
        let (last, (_, plan, adopted)) = newest.ok_or_else(|| damaged("a table has no plan"))?;
        let memory = MemoryTable::watched(plan, bounds, (adopted, known.latest), known.fence);
        Ok(Self {
            memory,
            last,
            known,
            plans,
            records: Vec::new(),
        })
    }

    /// The leases go back in the order in which they are due: a book keeps
    /// them so, and is quick only with the latest.
    fn finish(mut self, id: u32) -> Arc<Tracked> {
        self.records.sort_unstable_by_key(Record::due_at);
        for record in self.records {
            self.memory.restore_lease(record);
        }
        let plans = self
            .plans
            .into_iter()
            .map(|(serial, plan, _)| (serial, plan));
        let mut layouts = Layouts::new(self.memory.shards(), plans.collect());
        layouts.fence = self.known.fence;
        layouts.latest = self.known.latest;
        Arc::new(Tracked::new(id, self.known.name, self.memory, layouts))
    }
}

fn check_format(group: &ReadTransaction) -> Result<(), Fault> {
    let none = |_| Fault::NotAStore("another program's database");
    let meta = group.open_table(META).map_err(none)?;
    let format = meta.get(FORMAT_KEY)?.map(|format| format.value());
    match format {
        Some(1..=FORMAT) => Ok(()),
        Some(0) => Err(damaged("its format is 0")),
        Some(newer) => Err(Fault::Newer(newer)),
        None => Err(Fault::NotAStore("another program's database")),
    }
}

/// The table that a key of the file belongs to, and the rest of the key.
fn find<'f, 'k>(
    found: &'f mut HashMap<u32, Found>,
    key: &'k [u8],
) -> Result<(&'f mut Found, &'k [u8]), Fault> {
    let (id, rest) = split(key).ok_or_else(|| damaged("a key is too short"))?;
    let found = found.get_mut(&id);
    Ok((
        found.ok_or_else(|| damaged("a key's table is missing"))?,
        rest,
    ))
}

/// A row has a state of the right kind for each limit of its level.
fn check_row(plan: &Plan, key: &[u8], row: &[State]) -> Result<(), Fault> {
    let path = KeyPath::new(key, plan.levels()).map_err(|_| damaged("a row's key is none"))?;
    let limits = &plan.limits()[plan.range(path.depth() - 1)];
    let fits = limits
        .iter()
        .zip(row)
        .all(|(limit, state)| limit.rule.fits(state));
    match fits && limits.len() == row.len() {
        true => Ok(()),
        false => Err(damaged("a row does not go with its limits")),
    }
}

fn damaged(what: &str) -> Fault {
    Fault::Damaged(what.to_owned())
}
