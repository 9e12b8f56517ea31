//! A store in memory that does something wrong now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_store::{
    Abilities, Change, Command, Defined, Definition, Execution, Op, Out, Plan, Reply, Store,
    StoreError, StoreFuture, Table, Verb,
};

/// One take in so many goes wrong.
const OFTEN: u64 = 50;

/// What it does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It forgets what was used.
    Forgets,
    /// It charges twice.
    ChargesTwice,
}

/// Such a store.
pub struct Faulty {
    pub store: Arc<dyn Store>,
    pub fault: Fault,
}

struct FaultyTable {
    table: Arc<dyn Table>,
    fault: Fault,
    takes: AtomicU64,
}

impl Store for Faulty {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        self.store.definition(owner, key)
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        self.store.change(owner, change)
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(FaultyTable {
            table: self.store.open(name, plan)?,
            fault: self.fault,
            takes: AtomicU64::new(0),
        }))
    }
}

impl Table for FaultyTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        if let Op::One(path, Verb::Take { amounts, .. }) = &command.op
            && self.takes.fetch_add(1, Ordering::Relaxed) % OFTEN == OFTEN - 1
        {
            let verb = match self.fault {
                Fault::Forgets => Verb::Reset,
                Fault::ChargesTwice => Verb::Debit { amounts },
            };
            let mut answer = Ok(Reply::Done);
            let wrong = command.about(Op::One(*path, verb));
            // Slots are not charged without a lease: those stay right.
            let _ = self.table.execute(&wrong, Out::new(&mut answer));
        }
        self.table.execute(command, out)
    }
}
