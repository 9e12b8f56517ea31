//! What is defined: written on a thread of its own, since it waits for the disk, one
//! definition at a time and in the order in which they came.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tidegate_store::definitions::{Step, at_once, check_lasts};
use tidegate_store::{
    Change, Defined, LocalDefinitions, Reply, Responder, StoreError, StoreFuture, response_channel,
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
    /// Only `None` while it is dropped.
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

/// A change to be made, and who is told.
struct Order {
    owner: String,
    change: Change,
    made: Arc<Mutex<Option<Defined>>>,
    told: Responder,
}

impl Definer {
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        local_definitions: LocalDefinitions,
        journal: Arc<Journal>,
    ) -> io::Result<Self> {
        let local_definitions = Arc::new(local_definitions);
        let (orders, given) = sync_channel(MOST);
        let writer = Arc::clone(&local_definitions);
        let thread = thread::Builder::new().name("tidegate-definitions".to_owned());
        let thread = thread.spawn(move || write(&given, &writer, &journal))?;
        Ok(Self {
            local_definitions,
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    pub(crate) const fn local_definitions(&self) -> &Arc<LocalDefinitions> {
        &self.local_definitions
    }

    /// What became of it, once it is written.
    pub(crate) fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        if let Err(error) = check_lasts(&change.definition) {
            return at_once(Err(error));
        }
        let (told, written) = response_channel(|_| {});
        let made = Arc::<Mutex<Option<Defined>>>::default();
        let order = Order {
            owner: owner.to_owned(),
            change,
            made: Arc::clone(&made),
            told,
        };
        let is_full = self
            .orders
            .as_ref()
            .is_some_and(|orders| matches!(orders.try_send(order), Err(TrySendError::Full(_))));
        if is_full {
            return at_once(Err(StoreError::Unavailable(format!(
                "{MOST} changes of limits wait for the disk; try again later"
            ))));
        }
        StoreFuture::new(async move {
            written.await?;
            let made = made.lock().take();
            made.ok_or(StoreError::Mismatch)
        })
    }
}

/// Until there are no more orders, and nobody who gives any.
fn write(given: &Receiver<Order>, local_definitions: &LocalDefinitions, journal: &Journal) {
    for order in given {
        let Order {
            owner,
            change,
            made,
            told,
        } = order;
        let changed = make(&owner, &change, local_definitions, journal);
        drop(told.answer(changed.map(|changed| {
            *made.lock() = Some(changed);
            Reply::Done
        })));
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
        self.orders = None;
        // A follower that is told there may be the last who had the store.
        let own = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| !own(thread)) {
            // It has panicked: then nothing more of it is written.
            let _ = thread.join();
        }
    }
}
