//! Commands on memory that processes share wait for its locks on threads of their own.
//!
//! A process that is stopped amid a step keeps a lock of the segment. Whoever asks meanwhile waits
//! for it: here, with the interpreter's lock held, no other thread would go on, nor would an event
//! loop. So a thread of Python waits for a moment, as long as a step takes; what has met a
//! lock for longer, and so has changed nothing, is asked again on a thread that holds nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_shm::with_patience;
use tidegate_store::core::Timestamp;
use tidegate_store::{
    Abilities, Answer, AtomicBuckets, Change, Command, Defined, Definition, Definitions, Ending,
    Event, Execution, Follower, Op, Out, OwnedCommand, Page, Plan, Reply, Store, StoreError,
    StoreFuture, Table, TableBounds, Verb,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::fork;

/// For so long a thread of Python waits for a lock: many times a step, and less than a thread takes
/// to begin.
const MOMENT: Duration = Duration::from_micros(100);

/// So many threads wait for locks at most. A command that waits for a thread waits for its lock
/// already: it has its deadline from when it was asked.
const THREADS: usize = 16;

/// What has the threads, and the fork that it is of. That of a parent is left where it is.
static RUNTIME: Mutex<Option<(u64, &'static Runtime)>> = Mutex::new(None);

fn runtime() -> Result<&'static Runtime, StoreError> {
    let mut known = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((generation, runtime)) = *known
        && generation == fork::generation()
    {
        return Ok(runtime);
    }
    let mut builder = Builder::new_current_thread();
    builder
        .max_blocking_threads(THREADS)
        .thread_name("tidegate-shm-locks");
    let made = builder.build();
    let no_thread =
        |error| StoreError::Unavailable(format!("no thread for those who wait: {error}"));
    let runtime: &'static Runtime = Box::leak(Box::new(made.map_err(no_thread)?));
    *known = Some((fork::generation(), runtime));
    Ok(runtime)
}

/// A store in shared memory.
pub(crate) struct Patient(pub(crate) Arc<dyn Store>);

impl Store for Patient {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        self.0.last_plan(name)
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.0.definitions(owner, newer_than)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        self.0.definition(owner, key)
    }

    fn definitions_at(&self, owner: &str, keys: &[&[u8]]) -> StoreFuture<Vec<Option<Definition>>> {
        self.0.definitions_at(owner, keys)
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        self.0.definition_with_ancestors(owner, key, parent_offset)
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        self.0.definitions_page(owner, prefix, after, most)
    }

    fn define(&self, owner: &str, definition: Definition) -> StoreFuture<bool> {
        self.0.define(owner, definition)
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        self.0.change(owner, change)
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        self.0.events(owner, subject, after, most, now)
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.0.follow(owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(PatientTable(self.0.open(name, plan)?)))
    }

    fn open_within(
        &self,
        name: &str,
        plan: &Arc<Plan>,
        bounds: &TableBounds,
    ) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.0.open_within(name, plan, bounds)?;
        Ok(Arc::new(PatientTable(table)))
    }

    fn forget(&self, name: &str) {
        self.0.forget(name);
    }
}

struct PatientTable(Arc<dyn Table>);

impl Table for PatientTable {
    fn execute(&self, command: &Command<'_>, mut out: Out<'_>) -> Execution {
        // A batch has an answer for each of its commands, and some may be done.
        if !matches!(command.op, Op::One(..)) {
            return self.0.execute(command, out);
        }
        let (execution, was_short) = with_patience(Duration::ZERO, MOMENT, || {
            self.0.execute(command, out.lend())
        });
        match was_short {
            false => execution,
            true => self.unless_done(command, execution, out),
        }
    }

    fn atomic_buckets(&self) -> Option<&dyn AtomicBuckets> {
        self.0.atomic_buckets()
    }
}

impl PatientTable {
    /// What was answered although a lock was not given; else the command, asked again.
    #[cold]
    fn unless_done(
        &self,
        command: &Command<'_>,
        execution: Execution,
        mut out: Out<'_>,
    ) -> Execution {
        let answer = match execution.pending().map(look) {
            None => out.take(),
            Some(Told::Now(answer)) => answer,
            Some(Told::Later(later)) => return later.into(),
        };
        match (answer, runtime()) {
            (Ok(reply), _) => out.ready(Ok(reply)),
            (Err(_), Ok(runtime)) => {
                let asked = Asked {
                    table: Arc::clone(&self.0),
                    command: OwnedCommand::of(command),
                };
                let since = Instant::now();
                let executing =
                    runtime.spawn_blocking(move || asked.execute(Instant::now() - since));
                StoreFuture::new(answered(executing)).into()
            }
            (Err(error), Err(_)) => out.ready(Err(error)),
        }
    }
}

enum Told {
    Now(Answer),
    Later(StoreFuture),
}

/// What is told at once of an answer that comes later.
fn look(mut later: StoreFuture) -> Told {
    match Pin::new(&mut later).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Told::Now(answer),
        Poll::Pending => Told::Later(later),
    }
}

/// A command, and where it is executed.
struct Asked {
    table: Arc<dyn Table>,
    command: OwnedCommand,
}

impl Asked {
    /// It was waited for the lock before, for so long.
    fn execute(self, waited: Duration) -> Executed {
        let mut answer = Ok(Reply::Done);
        let execute =
            |command: &Command<'_>| self.table.execute(command, Out::new(&mut answer)).pending();
        let (later, _) = with_patience(waited, Duration::MAX, || self.command.lend(execute));
        Executed {
            told: Some(later.map_or(Told::Now(answer), Told::Later)),
            asked: Some(self),
        }
    }

    /// Gives a lease back that nobody was told of.
    fn cancel(&self, id: u128) {
        let mut answer = Ok(Reply::Done);
        self.command.lend(|take| {
            let Op::One(path, _) = take.op else {
                return;
            };
            let cancel = Verb::End {
                id,
                ending: Ending::Cancel,
                remember: false,
            };
            let cancel = Command {
                op: Op::One(path, cancel),
                // What is given back needs none.
                calendars: &[],
                patience: None,
                ..*take
            };
            // If the lock is not given again, the process owes it.
            drop(self.table.execute(&cancel, Out::new(&mut answer)));
        });
    }
}

/// What was told of a command, until somebody takes it.
struct Executed {
    told: Option<Told>,
    asked: Option<Asked>,
}

impl Drop for Executed {
    fn drop(&mut self) {
        let (Some(Told::Now(Ok(reply))), Some(asked)) = (self.told.take(), self.asked.take())
        else {
            return;
        };
        if let (Some(id), Ok(runtime)) = (reply.new_lease(), runtime()) {
            drop(runtime.spawn_blocking(move || asked.cancel(id)));
        }
    }
}

async fn answered(executing: JoinHandle<Executed>) -> Answer {
    let lost = |_| StoreError::Unavailable("the thread that asked has ended".to_owned());
    let told = executing.await.map_err(lost)?.told.take();
    match told {
        Some(Told::Now(answer)) => answer,
        Some(Told::Later(later)) => later.await,
        None => Err(StoreError::Mismatch),
    }
}
