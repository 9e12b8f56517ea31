//! What is defined: written on a thread of its own, since it waits for the disk, one
//! definition at a time and in the order in which they came.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tidegate_store::definitions::{at_once, check_lasts};
use tidegate_store::{
    Definition, LocalDefinitions, Reply, Responder, StoreError, StoreFuture, response_channel,
};

use crate::journal::Journal;
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

/// A definition to be kept, and who is told.
struct Order {
    owner: String,
    definition: Definition,
    kept: Arc<Mutex<Option<bool>>>,
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

    /// Whether it is a change, once it is written.
    pub(crate) fn define(&self, owner: &str, definition: Definition) -> StoreFuture<bool> {
        if let Err(error) = check_lasts(&definition) {
            return at_once(Err(error));
        }
        let (told, written) = response_channel(|_| {});
        let kept = Arc::<Mutex<Option<bool>>>::default();
        let order = Order {
            owner: owner.to_owned(),
            definition,
            kept: Arc::clone(&kept),
            told,
        };
        let given = self.orders.as_ref().map(|orders| orders.try_send(order));
        if let Some(Err(TrySendError::Full(_))) = given {
            return at_once(Err(StoreError::Unavailable(format!(
                "{MOST} changes of limits wait for the disk; try again later"
            ))));
        }
        StoreFuture::new(async move {
            written.await?;
            let kept = *kept.lock();
            kept.ok_or(StoreError::Mismatch)
        })
    }
}

/// Until there are no more orders, and nobody who gives any.
fn write(given: &Receiver<Order>, local_definitions: &LocalDefinitions, journal: &Journal) {
    for order in given {
        let Order {
            owner,
            definition,
            kept,
            told,
        } = order;
        let place = definition_key(&owner, &definition.key);
        let written = journal.define((place, definition.value.clone()));
        let defined = written.and_then(|()| local_definitions.define(&owner, definition));
        drop(told.answer(defined.map(|changed| {
            *kept.lock() = Some(changed);
            Reply::Done
        })));
    }
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
