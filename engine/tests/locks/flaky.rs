//! A store beyond a network that does not always answer.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::Timestamp;
use tidegate::contract::core::Bounds;
use tidegate::contract::{
    Abilities, Command, Plan, RemoteTable, Reply, Sent, Store, StoreError, Table,
};
use tidegate_memory::MemoryStore;

/// How it is.
#[derive(Clone, Copy)]
pub enum Mood {
    /// It answers.
    Well,
    /// It is not there.
    Away,
    /// It does what it is told so often, and says nothing.
    Mute(usize),
}

/// See the [module](self).
#[derive(Default)]
pub struct Flaky {
    store: MemoryStore,
    mood: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

struct FlakyTable {
    table: Arc<dyn Table>,
    mood: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

const AWAY: usize = usize::MAX;

impl Flaky {
    pub fn is(&self, mood: Mood) {
        let mood = match mood {
            Mood::Well => 0,
            Mood::Away => AWAY,
            Mood::Mute(times) => times,
        };
        self.mood.store(mood, Ordering::SeqCst);
    }

    /// How often it was.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Store for Flaky {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(FlakyTable {
            table: self.store.open(name, plan)?,
            mood: Arc::clone(&self.mood),
            asked: Arc::clone(&self.asked),
        }))
    }
}

impl Table for FlakyTable {
    fn execute(&self, command: &Command<'_>) -> Result<Reply, StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let away = Err(StoreError::Unavailable("nobody answers".into()));
        match self.mood.load(Ordering::SeqCst) {
            0 => self.table.execute(command),
            AWAY => away,
            times => {
                let done = self.table.execute(command);
                self.mood.store(times - 1, Ordering::SeqCst);
                done.and(away)
            }
        }
    }

    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        self.table.adopt(plan, now, calendars);
    }

    fn remote(&self) -> Option<&dyn RemoteTable> {
        Some(self)
    }

    fn len(&self) -> usize {
        self.table.len()
    }
}

impl RemoteTable for FlakyTable {
    fn send(&self, command: &Command<'_>) -> Sent {
        Box::pin(ready(self.execute(command)))
    }
}
