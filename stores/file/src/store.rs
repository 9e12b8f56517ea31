//! The store: opening, tables by name, compaction.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate_memory::journal::Adopted;
use tidegate_memory::{Bounds, MemoryTable};
use tidegate_store::definitions::at_once;
use tidegate_store::{
    Abilities, Change, Cleared, Defined, Definition, Definitions, Event, Follower,
    LocalDefinitions, Page, Plan, Store, StoreError, StoreFuture, Table, TableBounds,
};

use crate::birth;
use crate::definer::Definer;
use crate::disk::Disk;
use crate::error::{Fault, FileError};
use crate::journal::{Journal, Layouts, Tracked};
use crate::medium::Medium;
use crate::open;
use crate::options::{Options, SyncMode};
use crate::table::FileTable;
use tidegate_store::core::Timestamp;

/// State in memory, kept in one file. See the [crate].
///
/// The last of the store and its tables to be dropped waits until everything is
/// written; who wants to know whether it was calls [`flush`](Self::flush).
#[derive(Debug)]
pub struct FileStore {
    bounds: Bounds,
    tables: Mutex<HashMap<String, Arc<FileTable>>>,
    journal: Arc<Journal>,
    definer: Definer,
}

impl FileStore {
    /// Opens the file at `path`, made if it is not there, and reads it back.
    /// Every page of it is verified.
    ///
    /// # Errors
    /// [`FileError`], with what to do; the file is then as it was.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, FileError> {
        let path = path.as_ref();
        Self::open_on(birth::file(path)?, path, options)
    }

    /// Opens what is called `path`.
    pub(crate) fn open_on(
        medium: Arc<dyn Medium>,
        path: &Path,
        options: Options,
    ) -> Result<Self, FileError> {
        let about = |fault: Fault| fault.of(path.to_owned());
        let syncs = options.sync != SyncMode::Never;
        let disk = Disk::held(medium, syncs);
        let opened = open::open(&disk, options.bounds).map_err(about)?;
        let (forgotten, tracked): (Vec<_>, Vec<_>) = opened
            .tables
            .into_iter()
            .partition(|table| table.is_forgotten());
        let journal = Journal::start((opened.database, disk), options.sync, tracked.clone());
        let journal = Arc::new(journal.map_err(|error| about(error.into()))?);
        let forgotten: Vec<_> = forgotten.iter().map(|table| table.id).collect();
        journal.forget(&forgotten);
        let tables = tracked.into_iter().map(|tracked| {
            let (name, journal) = (tracked.name.clone(), Arc::clone(&journal));
            (name, Arc::new(FileTable::new(tracked, journal)))
        });
        let local_definitions = LocalDefinitions::default();
        for (owner, kept) in opened.definitions {
            local_definitions.restore(&owner, kept);
        }
        Ok(Self {
            bounds: options.bounds,
            tables: Mutex::new(tables.collect()),
            definer: Definer::new(local_definitions, Arc::clone(&journal)),
            journal,
        })
    }

    /// Returns once everything changed so far is written, and synced unless
    /// the store never does.
    ///
    /// # Errors
    /// [`FileError::Journal`]: it cannot be written now; it will be tried again.
    pub fn flush(&self) -> Result<(), FileError> {
        let flushed = self.journal.flush();
        flushed.map_err(|error| FileError::Journal(error.to_string()))
    }

    /// Gives the room back that the file no longer needs; commands that change
    /// something wait meanwhile. Answers whether it became smaller.
    ///
    /// # Errors
    /// [`FileError::Journal`].
    pub fn compact(&self) -> Result<bool, FileError> {
        self.journal.compact()
    }

    /// The names of the tables that the file holds.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.tables.lock().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    fn make(&self, id: u32, name: &str, plan: &Arc<Plan>, bounds: Bounds) -> FileTable {
        let start = (&Adopted::default(), Timestamp::MIN);
        let memory = MemoryTable::watched(plan, bounds, start, 0);
        let layouts = Layouts::new(memory.shards(), Vec::new());
        let tracked = Arc::new(Tracked::new(id, name.to_owned(), memory, layouts));
        let journal = Arc::clone(&self.journal);
        FileTable::new(tracked, journal)
    }
}

impl Store for FileStore {
    /// A group that could not be written has changed memory.
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: true,
            shared: false,
            own_clock: false,
            answers_can_be_lost: true,
            counts_usage: true,
        }
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        let tables = self.tables.lock();
        let table = tables.get(name);
        Ok(table.map(|table| table.tracked().memory.last_plan()))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        at_once(Ok(self
            .definer
            .local_definitions()
            .definitions(owner, newer_than)))
    }

    /// Kept once it is in the file, whatever the [`SyncMode`]; and synced,
    /// unless the store never does.
    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        self.definer.change(owner, change)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        at_once(Ok(self.definer.local_definitions().definition(owner, key)))
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        let local_definitions = self.definer.local_definitions();
        at_once(Ok(local_definitions.definition_with_ancestors(
            owner,
            key,
            parent_offset,
        )))
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        let local_definitions = self.definer.local_definitions();
        at_once(Ok(local_definitions.page(owner, prefix, after, most)))
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        let local_definitions = self.definer.local_definitions();
        at_once(local_definitions.events(owner, subject, after, most, now))
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.definer.local_definitions().follow(owner, follower);
    }

    fn forget(&self, name: &str) {
        let mut tables = self.tables.lock();
        let table = tables.remove(name);
        // Before another table is given a number.
        if let Some(table) = &table {
            self.journal.forget(&[table.tracked().id]);
        }
        drop(tables);
    }

    /// In the file once it is answered; what has no answer is gone from here, and from the file
    /// with the next group that is written.
    fn clear(&self, prefix: &str, _: Option<&[u8]>) -> StoreFuture<Cleared> {
        let gone: Vec<_> = {
            let mut tables = self.tables.lock();
            let gone = tables.extract_if(|name, _| name.starts_with(prefix));
            let gone: Vec<_> = gone.collect();
            // Before another table is given a number. All in one group: after a crash none of them
            // is there half.
            let ids: Vec<_> = gone.iter().map(|(_, table)| table.tracked().id).collect();
            self.journal.forget(&ids);
            gone
        };
        self.definer.clear(prefix, gone.len())
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        self.open_within(name, plan, &TableBounds::default())
    }

    fn open_within(
        &self,
        name: &str,
        plan: &Arc<Plan>,
        asked: &TableBounds,
    ) -> Result<Arc<dyn Table>, StoreError> {
        let bounds = self.bounds.within(asked);
        let mut tables = self.tables.lock();
        if let Some(table) = tables.get(name) {
            if Arc::strong_count(table) > 1 {
                return Err(StoreError::InUse(name.to_owned()));
            }
            let kept = table.tracked().memory.last_plan().levels();
            if kept != plan.levels() {
                return Err(StoreError::OtherLevels {
                    name: name.to_owned(),
                    kept,
                    wanted: plan.levels(),
                });
            }
            table.tracked().memory.bound(bounds);
            table.tracked().memory.set_steady_clock(asked.steady_clock);
            return Ok(Arc::clone(table) as Arc<dyn Table>);
        }
        self.journal.check()?;
        let ids = tables.values().map(|table| table.tracked().id);
        let ids = ids.chain(self.journal.forgotten());
        let id = ids.max().map_or(0, |id| id + 1);
        let table = Arc::new(self.make(id, name, plan, bounds));
        table.tracked().memory.set_steady_clock(asked.steady_clock);
        // If it cannot be written now, it is there to be opened again later.
        tables.insert(name.to_owned(), Arc::clone(&table));
        self.journal.add(Arc::clone(table.tracked()))?;
        Ok(table)
    }
}
