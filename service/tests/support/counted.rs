//! A memory store that notes each command it is given, and answers later: once as many
//! are under way as it was told to await. The protocols' tests have it from here.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tidegate_memory::MemoryStore;
use tidegate_store::{
    Abilities, Command, Definitions, Execution, Op, Out, Plan, Store, StoreError, StoreFuture,
    Table,
};

/// So often an answer is asked for that awaits others.
const LOOKS: u32 = 10_000;

/// The store, and what it was asked.
#[derive(Clone, Default)]
pub struct Counted {
    store: Arc<MemoryStore>,
    asked: Arc<Asked>,
}

#[derive(Default)]
struct Asked {
    /// The table of each command about keys, and of how many.
    commands: Mutex<Vec<(String, usize)>>,
    awaited: AtomicUsize,
}

impl Counted {
    /// The commands since the last time, by table: how many keys each was about.
    pub fn take(&self) -> Vec<(String, usize)> {
        let mut commands = std::mem::take(&mut *self.asked.commands.lock().unwrap());
        commands.sort();
        commands
    }

    /// From now on none is answered until so many are under way.
    pub fn await_together(&self, commands: usize) {
        self.asked.awaited.store(commands, Ordering::SeqCst);
    }
}

struct CountedTable {
    name: String,
    table: Arc<dyn Table>,
    asked: Arc<Asked>,
}

impl Store for Counted {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.store.definitions(owner, newer_than)
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(CountedTable {
            name: name.to_owned(),
            table: self.store.open(name, plan)?,
            asked: Arc::clone(&self.asked),
        }))
    }
}

impl Table for CountedTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let about = match command.op {
            Op::One(..) => 1,
            Op::Batch(items) => items.len(),
            _ => return self.table.execute(command, out),
        };
        let asked = Arc::clone(&self.asked);
        let noted = (self.name.clone(), about);
        asked.commands.lock().unwrap().push(noted);
        let answer = self.table.execute_and_wait(command);
        let mut looks = 0;
        Execution::from(StoreFuture::new(poll_fn(move |context| {
            looks += 1;
            let under_way = asked.commands.lock().unwrap().len();
            match under_way >= asked.awaited.load(Ordering::SeqCst) {
                true => Poll::Ready(answer.clone()),
                false if looks > LOOKS => Poll::Ready(Err(StoreError::Unavailable(
                    "the others are not under way".into(),
                ))),
                false => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        })))
    }
}
