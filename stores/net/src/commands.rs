//! The way of every command to a store beyond a network: which of what the store can do
//! it needs, on which thread, and what its answer is.

use std::sync::Arc;

use tidegate_store::{
    Command, Count, HeldLease, Hours, KeyCommand, Op, OwnedKey, OwnedListing, Page, Reply,
    StoreError, StoreFuture, Usage,
};

use crate::batch::batch;
use crate::driver::Driver;
use crate::waiting::{Line, Waiting, stay};

/// What a store does for one table. [`begin`] puts every command together from it.
pub trait Commands: Send + Sync + 'static {
    /// What drives its connections.
    fn driver(&self) -> &Driver;

    /// Begins a verb for one key that does not wait in line.
    fn send(self: &Arc<Self>, command: &KeyCommand<'_>) -> StoreFuture;

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

    /// A page of what was used in some hours.
    fn page_of_usage(
        self: Arc<Self>,
        listing: OwnedListing,
        hours: Hours,
    ) -> impl Future<Output = Result<Page<Usage>, StoreError>> + Send;

    /// How many keys there are. The server may count them one by one.
    fn count(self: Arc<Self>) -> impl Future<Output = Result<usize, StoreError>> + Send;
}

/// A command under way, wherever it is awaited.
pub fn begin<C: Commands>(table: &Arc<C>, command: &Command<'_>) -> StoreFuture {
    let (driver, own) = (table.driver(), Arc::clone(table));
    match command.op {
        Op::One(path, verb) => match Waiting::of(command) {
            Some(waiting) => {
                let line = table.line(&waiting);
                stay(driver.tasks(), waiting, line)
            }
            None => table.send(&command.one(path, verb)),
        },
        Op::Batch(items) => batch(driver, command, items, move |one| begin(&own, one)),
        Op::Adopt => {
            table.follow(command);
            // What cannot be written now is before the next command.
            driver.later(async move {
                own.catch_up().await?;
                Ok(Reply::Done)
            })
        }
        Op::ListKeys(listing) => {
            let listing = OwnedListing::of(&listing);
            driver.later(async move { Ok(Reply::Keys(own.page_of_keys(listing).await?)) })
        }
        Op::ListLeases(listing) => {
            let listing = OwnedListing::of(&listing);
            driver.later(async move { Ok(Reply::Leases(own.page_of_leases(listing).await?)) })
        }
        Op::ListUsage(listing, hours) => {
            let listing = OwnedListing::of(&listing);
            driver.later(async move {
                let page = own.page_of_usage(listing, hours).await?;
                Ok(Reply::Usage(page))
            })
        }
        Op::Count => driver.later(async move {
            Ok(Reply::Count(Count {
                keys: own.count().await?,
                leases: None,
                remembered: None,
            }))
        }),
    }
}
