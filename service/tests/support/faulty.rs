//! A store in memory that can fall silent, keep nothing, or lose an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tidegate_memory::MemoryStore;
use tidegate_store::core::Timestamp;
use tidegate_store::{
    Abilities, Change, Command, Defined, Definition, Definitions, Event, Execution, Follower, Op,
    Out, Page, Plan, Store, StoreError, StoreFuture, Table, block_on,
};

/// The store, and what is wrong with it.
#[derive(Default)]
pub struct Faulty {
    pub memory: MemoryStore,
    pub faults: Arc<Faults>,
}

#[derive(Default)]
pub struct Faults {
    /// What is asked about one key is done, and never answered.
    pub is_silent: AtomicBool,
    /// No definition and no event is kept.
    pub keeps_nothing: AtomicBool,
    /// The next change is made, and not answered.
    pub loses: AtomicBool,
    /// Another client's change, which comes before the next.
    pub rival: Mutex<Option<Change>>,
    /// Before each change that expects a version, another client keeps once more what is there.
    pub outruns: AtomicBool,
}

struct FaultyTable {
    table: Arc<dyn Table>,
    faults: Arc<Faults>,
}

impl Store for Faulty {
    fn abilities(&self) -> Abilities {
        self.memory.abilities()
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.memory.definitions(owner, newer_than)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        self.memory.definition(owner, key)
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        let away = || StoreFuture::new(async { Err(StoreError::Unavailable("away".to_owned())) });
        if self.faults.keeps_nothing.load(Ordering::SeqCst) {
            return away();
        }
        let rival = self.faults.rival.lock().unwrap().take();
        if let Some(rival) = rival {
            block_on(self.memory.change(owner, rival)).unwrap();
        }
        if self.faults.outruns.load(Ordering::SeqCst) && change.expected.is_some() {
            let key = &change.definition.key;
            if let Some(there) = block_on(self.memory.definition(owner, key)).unwrap() {
                block_on(self.memory.change(owner, there.into())).unwrap();
            }
        }
        let made = self.memory.change(owner, change);
        match self.faults.loses.swap(false, Ordering::SeqCst) {
            true => away(),
            false => made,
        }
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        self.memory.events(owner, subject, after, most, now)
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.memory.follow(owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(FaultyTable {
            table: self.memory.open(name, plan)?,
            faults: Arc::clone(&self.faults),
        }))
    }
}

impl Table for FaultyTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let is_one = matches!(command.op, Op::One(..));
        if !is_one || !self.faults.is_silent.load(Ordering::SeqCst) {
            return self.table.execute(command, out);
        }
        self.table.execute_and_wait(command).ok();
        Execution::from(StoreFuture::new(std::future::pending()))
    }
}
