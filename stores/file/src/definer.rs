//! What is defined: written on a thread of its own, since it waits for the disk, one
//! definition at a time and in the order in which they came. The first starts the thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tidegate_store::definitions::{Removal, Step, at_once, check_lasts};
use tidegate_store::{
    Change, Cleared, Defined, LocalDefinitions, Reply, Responder, StoreError, StoreFuture,
    response_channel,
};

use crate::bytes::{encode_definition, encode_event, encode_owner};
use crate::journal::{self, Journal, Kind};
use crate::layout::definition_key;

/// So many wait for the disk at once; one more is refused.
const MOST: usize = 1_024;

/// Keeps definitions. Dropped, it waits until those that it was given are written.
#[derive(Debug)]
pub(crate) struct Definer {
    /// What is defined, as it is in the file.
    local_definitions: Arc<LocalDefinitions>,
    journal: Arc<Journal>,
    /// `None` until something is to be written.
    writer: Mutex<Option<Writer>>,
}

/// The thread that writes, and how it gets what is to be written.
#[derive(Debug)]
struct Writer {
    orders: SyncSender<Order>,
    thread: JoinHandle<()>,
}

/// Something to be done, and who is told.
struct Order {
    work: Work,
    told: Responder,
}

/// What is to be done, and where it is said what became of it.
enum Work {
    /// A change to be made for an owner.
    Change(String, Box<Change>, Arc<Mutex<Option<Defined>>>),
    /// What is kept for owners whose names begin so is to be removed; so many tables are being
    /// deleted.
    Clear(String, usize, Arc<Mutex<Option<Cleared>>>),
}

/// So many definitions and events are removed at a time.
const REMOVED_AT_ONCE: usize = 4_096;

impl Definer {
    pub(crate) fn new(local_definitions: LocalDefinitions, journal: Arc<Journal>) -> Self {
        Self {
            local_definitions: Arc::new(local_definitions),
            journal,
            writer: Mutex::default(),
        }
    }

    pub(crate) const fn local_definitions(&self) -> &Arc<LocalDefinitions> {
        &self.local_definitions
    }

    /// What became of it, once it is written.
    pub(crate) fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        if let Err(error) = check_lasts(&change.definition) {
            return at_once(Err(error));
        }
        let made = Arc::default();
        let work = Work::Change(owner.to_owned(), Box::new(change), Arc::clone(&made));
        self.ordered(work, made)
    }

    /// Removes what is kept for owners whose names begin with `prefix`, some of it, once it is
    /// written that so many tables, which the journal forgets, are being deleted.
    pub(crate) fn clear(&self, prefix: &str, tables: usize) -> StoreFuture<Cleared> {
        let made = Arc::default();
        let work = Work::Clear(prefix.to_owned(), tables, Arc::clone(&made));
        self.ordered(work, made)
    }

    /// What becomes of `work`.
    fn ordered<T: Send + 'static>(
        &self,
        work: Work,
        made: Arc<Mutex<Option<T>>>,
    ) -> StoreFuture<T> {
        let (told, written) = response_channel(|_| {});
        if let Err(error) = self.order(Order { work, told }) {
            return at_once(Err(error));
        }
        StoreFuture::new(async move {
            written.await?;
            let made = made.lock().take();
            made.ok_or(StoreError::Mismatch)
        })
    }

    /// Gives it to the thread, which the first one starts.
    fn order(&self, order: Order) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        let writer = match writer.as_mut() {
            Some(writer) => writer,
            None => writer.insert(self.start()?),
        };
        match writer.orders.try_send(order) {
            Err(TrySendError::Full(_)) => Err(StoreError::Unavailable(format!(
                "{MOST} changes of limits wait for the disk; try again later"
            ))),
            // It has panicked: what is awaited says so.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    fn start(&self) -> Result<Writer, StoreError> {
        let (orders, given) = sync_channel(MOST);
        let local_definitions = Arc::clone(&self.local_definitions);
        let journal = Arc::clone(&self.journal);
        let thread = thread::Builder::new().name("tidegate-definitions".to_owned());
        let thread = thread.spawn(move || write(&given, &local_definitions, &journal));
        let thread = thread.map_err(|error| {
            StoreError::Unavailable(format!("no thread to write changes of limits: {error}"))
        })?;
        Ok(Writer { orders, thread })
    }
}

/// Until there are no more orders, and nobody who gives any.
fn write(given: &Receiver<Order>, local_definitions: &LocalDefinitions, journal: &Journal) {
    for order in given {
        let Order { work, told } = order;
        let done = match work {
            Work::Change(owner, change, made) => {
                let changed = make(&owner, &change, local_definitions, journal);
                changed.map(|changed| *made.lock() = Some(changed))
            }
            Work::Clear(prefix, tables, made) => {
                let cleared = clear(&prefix, tables, local_definitions, journal);
                cleared.map(|cleared| *made.lock() = Some(cleared))
            }
        };
        drop(told.answer(done.map(|()| Reply::Done)));
    }
}

/// Written first, and then so here.
fn make(
    owner: &str,
    change: &Change,
    local_definitions: &LocalDefinitions,
    journal: &Journal,
) -> Result<Defined, StoreError> {
    let step = match local_definitions.step(owner, change) {
        Err(answer) => return Ok(answer),
        Ok(step) => step,
    };
    journal.define(written(owner, &step))?;
    let version = step.definition.version;
    local_definitions.make(owner, step);
    Ok(Defined::Done {
        changed: true,
        version,
    })
}

/// Tables are deleted by the journal, some of it with each group that it writes: the last call
/// is the one that finds nothing left.
fn clear(
    prefix: &str,
    tables: usize,
    local_definitions: &LocalDefinitions,
    journal: &Journal,
) -> Result<Cleared, StoreError> {
    let removal = local_definitions.removal(prefix, REMOVED_AT_ONCE);
    match &removal {
        Some(removal) => {
            journal.define(removed(removal))?;
            local_definitions.remove(removal);
        }
        None => journal.flush()?,
    }
    let items = removal.as_ref().map_or(0, |removal| {
        (removal.keys.len() + removal.events.len()) as u64
    });
    let is_over = removal.is_none() && journal.forgotten().is_empty();
    Ok(Cleared {
        removed: tables as u64 + items,
        next: (!is_over).then(Vec::new),
    })
}

/// What of the file a removal deletes.
fn removed(removal: &Removal) -> Vec<journal::Change> {
    let owner = &removal.owner;
    let gone = |kind, place| journal::Change {
        kind,
        place,
        value: None,
    };
    let keys = removal.keys.iter();
    let keys = keys.map(|key| gone(Kind::Definition, definition_key(owner, key)));
    let events = removal.events.iter().map(|version| {
        let place = definition_key(owner, &version.to_be_bytes());
        gone(Kind::Event, place)
    });
    let version = removal
        .is_last
        .then(|| gone(Kind::Version, owner.as_bytes().to_vec()));
    keys.chain(events).chain(version).collect()
}

/// What of the file a step changes.
fn written(owner: &str, step: &Step) -> Vec<journal::Change> {
    let definition = &step.definition;
    let change = |kind, place, value| journal::Change { kind, place, value };
    let event = |version: u64, value| {
        let place = definition_key(owner, &version.to_be_bytes());
        change(Kind::Event, place, value)
    };
    let place = definition_key(owner, &definition.key);
    let version = Some(encode_owner(definition.version));
    let mut written = vec![
        change(Kind::Definition, place, encode_definition(definition)),
        change(Kind::Version, owner.as_bytes().to_vec(), version),
    ];
    let told = step.event.as_ref();
    written.extend(step.dropped.iter().map(|&gone| event(gone, None)));
    written.extend(told.map(|told| event(told.version, Some(encode_event(told)))));
    written
}

impl Drop for Definer {
    fn drop(&mut self) {
        let Some(Writer { orders, thread }) = self.writer.get_mut().take() else {
            return;
        };
        drop(orders);
        // A follower that is told there may be the last who had the store.
        if thread.thread().id() != thread::current().id() {
            // It has panicked: then nothing more of it is written.
            let _ = thread.join();
        }
    }
}
