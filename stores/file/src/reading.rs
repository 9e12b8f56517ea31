//! What is read back from a file: tables and their plans, rows, leases.

use std::collections::HashMap;
use std::mem::discriminant;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableTable, TableDefinition, TableError};
use tidegate_memory::journal::{Adopted, Journalled};
use tidegate_memory::{Bounds, MemoryTable};
use tidegate_store::core::{DecodeError, Rule, Span, State};
use tidegate_store::decide::Row;
use tidegate_store::definitions::KeptDefinitions;
use tidegate_store::ledger::Record;
use tidegate_store::{KeyPath, OwnedKey, Plan, PlanLimit, Usage};

use crate::bytes::{
    Known, decode_definition, decode_event, decode_owner, decode_plan, decode_record, decode_row,
    decode_table, encode_own,
};
use crate::error::Fault;
use crate::journal::{Layouts, Tracked};
use crate::layout::{
    DEFINED, EVENTS, FORMAT, FORMAT_KEY, LEASES, META, OWNERS, PLANS, ROWS, TABLES, USAGE, split,
    usage_place,
};

/// A table on its way back.
struct Found {
    known: Known,
    plans: Vec<(u32, Arc<Plan>, Adopted)>,
    memory: MemoryTable,
    /// The newest plan's place in `plans`.
    last: usize,
    records: Vec<Record<OwnedKey>>,
    /// The rows that go by rules of their own.
    own: Vec<OwnRow>,
    /// The plans that such rows were written by, and go by now: one for all that
    /// are alike.
    variants: HashMap<Vec<u8>, Variants>,
}

/// A row with rules of its own.
struct OwnRow {
    key: OwnedKey,
    states: Row,
    plans: Variants,
}

/// The plan that wrote a row, and what that is over the newest plan.
type Variants = (Arc<Plan>, Arc<Plan>);

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
        self.usage()?;
        let tables = self.found.into_iter().map(|(id, found)| found.finish(id));
        let mut tables: Vec<_> = tables.collect();
        tables.sort_by_key(|tracked| tracked.id);
        Ok((tables, self.bytes))
    }

    fn usage(&mut self) -> Result<(), Fault> {
        let table = match self.group.open_table(USAGE) {
            // No table of it has ever been written by a version that counts.
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            table => table?,
        };
        for entry in table.iter()? {
            let (key, kept) = entry?;
            self.bytes += key.value().len() as u64 + 16;
            let (amount, keep) = kept.value();
            let (found, rest) = find(&mut self.found, key.value())?;
            let place = usage_place(rest);
            let (key, limit, hour) = place.ok_or_else(|| damaged("a record of usage is none"))?;
            let record = Usage {
                key,
                limit,
                hour,
                amount,
            };
            found.memory.restore_usage(record, Span::from_micros(keep));
        }
        Ok(())
    }

    fn row(&mut self, key: &[u8], row: &[u8]) -> Result<(), Fault> {
        self.bytes += (key.len() + row.len()) as u64;
        let (found, key) = find(&mut self.found, key)?;
        let written = decode_row(row)?;
        let known = found.plans.iter();
        let plan = known.clone().find(|(known, ..)| *known == written.serial);
        let (_, plan, _) = plan.ok_or_else(|| damaged("a row's plan is missing"))?;
        check_row(plan, key, &written.states)?;
        let row = written.states;
        match written.own {
            None => found.memory.restore_row(Journalled { key, row, plan }),
            Some(own) => {
                let plan = Arc::clone(plan);
                found.own_row(key, row, (&plan, written.serial), &own)?;
            }
        }
        Ok(())
    }

    fn lease(&mut self, key: &[u8], record: &[u8]) -> Result<(), Fault> {
        self.bytes += (key.len() + record.len()) as u64;
        let (found, id) = find(&mut self.found, key)?;
        let record = decode_record(record)?;
        if id != record.granted.id.to_be_bytes() {
            return Err(damaged("a lease is not where it belongs"));
        }
        KeyPath::stored(record.owner.bytes(), found.plans[found.last].1.levels())
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
            own: Vec::new(),
            variants: HashMap::new(),
        })
    }

    /// Keeps a row for when it is known which others have rules of their own.
    fn own_row(
        &mut self,
        key: &[u8],
        states: Row,
        (plan, serial): (&Plan, u32),
        own: &[Rule],
    ) -> Result<(), Fault> {
        let path =
            KeyPath::stored(key, plan.levels()).map_err(|_| damaged("a row's key is none"))?;
        let range = plan.range(path.depth() - 1);
        if range.len() != own.len() {
            return Err(damaged("a row's rules do not go with its limits"));
        }
        let limits = plan.limits()[range]
            .iter()
            .zip(own)
            .map(|(limit, rule)| PlanLimit {
                rule: *rule,
                ..limit.clone()
            });
        let limits: Vec<_> = limits.collect();
        let mut alike = [serial.to_le_bytes(), (path.depth() as u32).to_le_bytes()].concat();
        encode_own(&limits, &mut alike);
        let newest = &self.plans[self.last].1;
        let plans = self.variants.entry(alike).or_insert_with(|| {
            let own = |limit: &PlanLimit| limits.iter().find(|own| own.uid == limit.uid);
            let same = |limit: &PlanLimit| {
                let like = |own: &&PlanLimit| discriminant(&own.rule) == discriminant(&limit.rule);
                own(limit).filter(like).map(|own| own.rule)
            };
            (
                Arc::new(plan.variant(|limit| Some(own(limit)?.rule))),
                Arc::new(newest.variant(same)),
            )
        });
        self.own.push(OwnRow {
            key: OwnedKey::new(key),
            states,
            plans: plans.clone(),
        });
        Ok(())
    }

    fn restore_own(&mut self) {
        let own = std::mem::take(&mut self.own);
        if own.is_empty() {
            return;
        }
        let newest = own
            .iter()
            .map(|row| (row.key.clone(), Arc::clone(&row.plans.1)));
        self.memory.restore_overrides(newest.collect());
        for row in own {
            self.memory.restore_row(Journalled {
                key: row.key.bytes(),
                row: row.states,
                plan: &row.plans.0,
            });
        }
    }

    /// The leases go back in the order in which they are due: where there are more
    /// than may be remembered, the first of them are forgotten.
    fn finish(mut self, id: u32) -> Arc<Tracked> {
        self.restore_own();
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

/// What owners have defined.
pub(crate) fn read_definitions(
    group: &ReadTransaction,
) -> Result<HashMap<String, KeptDefinitions>, Fault> {
    let mut kept = HashMap::<String, KeptDefinitions>::new();
    for (owner, version) in each(group, OWNERS, decode_owner)? {
        kept.entry(owner).or_default().version = version;
    }
    for (owner, definition) in each(group, DEFINED, decode_definition)? {
        theirs(&mut kept, &owner, definition.version)?
            .definitions
            .push(definition);
    }
    for (owner, event) in each(group, EVENTS, decode_event)? {
        theirs(&mut kept, &owner, event.version)?.events.push(event);
    }
    Ok(kept)
}

/// What is kept for an owner that has come as far as to this version.
fn theirs<'k>(
    kept: &'k mut HashMap<String, KeptDefinitions>,
    owner: &str,
    version: u64,
) -> Result<&'k mut KeptDefinitions, Fault> {
    let theirs = kept.get_mut(owner).filter(|kept| version <= kept.version);
    theirs.ok_or_else(|| damaged("an owner's version is missing"))
}

/// What is in a table of definitions, which may not be there.
fn each<T>(
    group: &ReadTransaction,
    table: TableDefinition<'_, &'static [u8], &'static [u8]>,
    decode: impl Fn(&[u8], &[u8]) -> Result<T, DecodeError>,
) -> Result<Vec<T>, Fault> {
    let table = match group.open_table(table) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let entries = table.iter()?.map(|entry| {
        let (place, value) = entry?;
        Ok(decode(place.value(), value.value())?)
    });
    entries.collect()
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
    let path = KeyPath::stored(key, plan.levels()).map_err(|_| damaged("a row's key is none"))?;
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
