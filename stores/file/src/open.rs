//! What is checked when a file is opened, and what is read back.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Builder, Database, ReadTransaction, ReadableDatabase, ReadableTable};
use tidegate_contract::book::Record;
use tidegate_contract::{KeyPath, OwnedKey, Plan};
use tidegate_memory::journal::{Adopted, Journalled};
use tidegate_memory::{Bounds, MemoryTable};

use crate::bytes::{Known, decode_plan, decode_record, decode_row, decode_table};
use crate::disk::Disk;
use crate::error::Fault;
use crate::journal::{Layouts, Tracked};
use crate::layout::{FORMAT, FORMAT_KEY, LEASES, META, PLANS, ROWS, TABLES, split};

/// How a redb file begins.
const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";
/// Everything is read once, at open; after that only pages that are written.
const CACHE_BYTES: usize = 32 << 20;
/// A file is compacted when it is opened, if it is larger than this
const COMPACT_FROM: u64 = 64 << 20;
/// and that many times what it holds.
const COMPACT_RATIO: u64 = 4;

pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// What was read back.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) tables: Vec<Arc<Tracked>>,
}

/// Checks the whole file and reads it back; what is refused is left as it was.
pub(crate) fn open(disk: &Disk, bounds: Bounds) -> Result<Opened, Fault> {
    check_head(disk)?;
    let mut opened = guarded(|| {
        let database = trusted(disk)?;
        let group = database.begin_read()?;
        let (tables, bytes) = Reading::new(&group, bounds)?.read()?;
        drop(group);
        Ok((Opened { database, tables }, bytes))
    });
    if let Ok((opened, bytes)) = &mut opened {
        disk.release()?;
        let length = disk.length()?;
        if length > COMPACT_FROM && length / COMPACT_RATIO > *bytes {
            opened.database.compact()?;
        }
    }
    opened.map(|(opened, _)| opened)
}

/// Opens the database again after an error, for writing only: memory knows all.
pub(crate) fn reopen(disk: &Disk) -> Result<Database, Fault> {
    guarded(|| Ok(builder().create_with_backend(disk.clone())?))
}

/// Runs `read`; a panic of redb on bytes that nothing of its own wrote is one
/// more way to say that the file is damaged.
fn guarded<T>(read: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    let panicked = |_| Err(Fault::Damaged("its pages contradict each other".into()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked)
}

fn check_head(disk: &Disk) -> Result<(), Fault> {
    let mut head = [0; MAGIC.len()];
    if disk.length()? < head.len() as u64 {
        return Err(Fault::NotAStore("it is too short"));
    }
    redb::StorageBackend::read(disk, 0, &mut head)?;
    match head == MAGIC {
        true => Ok(()),
        false => Err(Fault::NotAStore("it does not begin like one")),
    }
}

/// Opens the database and verifies every page. A file that was not closed is
/// verified by redb as it repairs it: a commit that is torn was never
/// acknowledged, and gives way to the one before.
fn trusted(disk: &Disk) -> Result<Database, Fault> {
    let repaired = Arc::new(AtomicBool::new(false));
    let mut builder = builder();
    let note = Arc::clone(&repaired);
    builder.set_repair_callback(move |_| note.store(true, Ordering::Relaxed));
    let opened = builder.create_with_backend(disk.clone());
    let mut database = opened.map_err(|error| truncated(error.into()))?;
    let whole = repaired.load(Ordering::Relaxed) || database.check_integrity()?;
    match whole {
        true => Ok(database),
        false => Err(Fault::Damaged("a checksum does not hold".into())),
    }
}

/// A file that ends where redb has a page was cut off.
fn truncated(fault: Fault) -> Fault {
    match fault {
        Fault::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Fault::Damaged("it ends too early".into())
        }
        Fault::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            Fault::Damaged(error.to_string())
        }
        fault => fault,
    }
}

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
struct Reading<'r> {
    group: &'r ReadTransaction,
    found: HashMap<u32, Found>,
    /// How much there is to keep.
    bytes: u64,
}

impl<'r> Reading<'r> {
    /// The tables and their plans.
    fn new(group: &'r ReadTransaction, bounds: Bounds) -> Result<Self, Fault> {
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

    /// The rows and leases, into their tables.
    fn read(mut self) -> Result<(Vec<Arc<Tracked>>, u64), Fault> {
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
        let (record, due_at) = decode_record(record)?;
        if id != record.granted.id.to_be_bytes() {
            return Err(damaged("a lease is not where it belongs"));
        }
        KeyPath::new(record.owner.bytes(), found.plans[found.last].1.levels())
            .map_err(|_| damaged("a lease's key is none"))?;
        found.records.push(record.due(due_at));
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
fn check_row(plan: &Plan, key: &[u8], row: &[tidegate_contract::core::State]) -> Result<(), Fault> {
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
