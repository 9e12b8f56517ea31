//! A store beyond a network that does not always answer.

use std::future::ready;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::ManualClock;
use tidegate_memory::MemoryStore;
use tidegate_store::{
    Abilities, Command, Execution, Op, Out, Plan, Store, StoreError, StoreFuture, Table,
};

/// How it is.
#[derive(Clone, Copy)]
pub enum Mood {
    /// It answers.
    Well,
    /// It is not there.
    Away,
    /// It does what it is told so often, and says nothing.
    Mute(usize),
    /// The next request makes it panic; then it answers.
    Panics,
}

/// See the [module](self).
#[derive(Default)]
pub struct Flaky {
    store: MemoryStore,
    mood: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    /// How many of them carried an idempotency key.
    keyed: Arc<AtomicUsize>,
    takes: Arc<Takes>,
    loses_none: bool,
}

/// By which clock the next request takes how long.
type Takes = Mutex<Option<(ManualClock, Duration)>>;

struct FlakyTable {
    table: Arc<dyn Table>,
    mood: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    keyed: Arc<AtomicUsize>,
    takes: Arc<Takes>,
}

const AWAY: usize = usize::MAX;
const PANICS: usize = AWAY - 1;

impl Flaky {
    /// One that loses no answer.
    pub fn sound() -> Self {
        Self {
            loses_none: true,
            ..Self::default()
        }
    }

    /// How often it was asked under an idempotency key.
    pub fn asked_by_key(&self) -> usize {
        self.keyed.load(Ordering::SeqCst)
    }

    pub fn is(&self, mood: Mood) {
        let mood = match mood {
            Mood::Well => 0,
            Mood::Away => AWAY,
            Mood::Mute(times) => times,
            Mood::Panics => PANICS,
        };
        self.mood.store(mood, Ordering::SeqCst);
    }

    /// The next request takes it so long.
    pub fn takes(&self, clock: &ManualClock, long: Duration) {
        *self.takes.lock().expect("nobody panics") = Some((clock.clone(), long));
    }

    /// How often it was.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Store for Flaky {
    fn abilities(&self) -> Abilities {
        Abilities {
            answers_can_be_lost: !self.loses_none,
            counts_usage: false,
            ..self.store.abilities()
        }
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(FlakyTable {
            table: self.store.open(name, plan)?,
            mood: Arc::clone(&self.mood),
            asked: Arc::clone(&self.asked),
            keyed: Arc::clone(&self.keyed),
            takes: Arc::clone(&self.takes),
        }))
    }
}

impl Table for FlakyTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        if matches!(command.op, Op::Adopt) {
            return self.table.execute(command, out);
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        if let Op::One(_, verb) = command.op
            && verb
                .terms()
                .is_some_and(|terms| terms.idempotency.is_some())
        {
            self.keyed.fetch_add(1, Ordering::SeqCst);
        }
        let takes = self.takes.lock().expect("nobody panics").take();
        if let Some((clock, long)) = takes {
            clock.advance(long);
        }
        let away = Err(StoreError::Unavailable("nobody answers".into()));
        match self.mood.load(Ordering::SeqCst) {
            0 => self.table.execute(command, out),
            AWAY => StoreFuture::new(ready(away)).into(),
            PANICS => {
                self.mood.store(0, Ordering::SeqCst);
                panic!("a test wants it");
            }
            times => {
                // Whoever does not hear of it cannot give it back.
                let _never_dropped = ManuallyDrop::new(self.table.execute(command, out));
                self.mood.store(times - 1, Ordering::SeqCst);
                StoreFuture::new(ready(away)).into()
            }
        }
    }
}
