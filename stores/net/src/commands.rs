//! What a store beyond a network does for one table.

use std::sync::Arc;

use tidegate_store::core::Timestamp;
use tidegate_store::{
    Answer, Command, HeldLease, Hours, KeyCommand, OwnedCommand, OwnedKey, OwnedListing, Page,
    StoreError, StoreFuture, Usage,
};

use crate::driver::Driver;
use crate::waiting::{Line, Waiting};

/// What a store does for one table. [`begin`](crate::begin()) puts every command together from it.
pub trait Commands: Send + Sync + Sized + 'static {
    /// What drives its connections.
    fn driver(&self) -> &Driver;

    /// Begins a verb for one key that does not wait in line.
    fn send(self: &Arc<Self>, command: &KeyCommand<'_>) -> StoreFuture;

    /// Decides `batch`, all of one root, in its order: an answer to each is pushed as it
    /// comes. A store that can do more than to send one
    /// [after the other](crate::in_order()) decides them at one instant, in as few trips as it has
    /// room for. When it is dropped, or ends, those that have no answer may have been executed.
    ///
    /// # Errors
    /// What keeps all from being answered that are not yet: their answer.
    fn decide(
        self: &Arc<Self>,
        batch: &OwnedCommand,
        answers: &mut Vec<Answer>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// A place for one that does.
    fn line(self: &Arc<Self>, waiting: &Waiting) -> impl Line;

    /// Goes over to the command's plan, unless a newer one is here already.
    fn follow(&self, command: &Command<'_>);

    /// Writes what the server does not know yet of the plans that were gone over to.
    fn catch_up(self: Arc<Self>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// A page of the keys that are more than "never seen".
    fn page_of_keys(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> impl Future<Output = Result<Page<OwnedKey>, StoreError>> + Send;

    /// A page of the leases that are held.
    fn page_of_leases(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> impl Future<Output = Result<Page<HeldLease>, StoreError>> + Send;

    /// A page of what was used in some hours, as it is kept.
    fn page_of_usage(
        self: Arc<Self>,
        listing: OwnedListing,
        hours: Hours,
    ) -> impl Future<Output = Result<Page<Usage>, StoreError>> + Send;

    /// Those of these roots under which leases have expired by `now` that nothing has ended yet. None
    /// where a listing of usage finds them itself.
    fn expired_roots(
        self: Arc<Self>,
        _roots: Vec<OwnedKey>,
        _now: Timestamp,
    ) -> impl Future<Output = Result<Vec<OwnedKey>, StoreError>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// Ends the leases under a root that have expired by `now`, as any command does: for a store
    /// whose listing of usage has [them ended](crate::ExpirySweep).
    fn end_expired(
        self: Arc<Self>,
        _root: OwnedKey,
        _now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }

    /// How many keys there are. The server may count them one by one.
    fn count(self: Arc<Self>) -> impl Future<Output = Result<usize, StoreError>> + Send;
}
