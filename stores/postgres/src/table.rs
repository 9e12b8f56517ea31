//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{
    Command, HeldLease, Listing, OwnedKey, Page, Plan, RemoteTable, Reply, Sent, StoreError, Table,
};
use tidegate_remote::{Changes, Driver};

use crate::calls::Calls;
use crate::error::garbled;
use crate::link::Link;
use crate::listing::Wanted;
use crate::options::Clock;
use crate::reply::Answer;
use crate::request::Request;
use crate::session::Session;

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    /// With what leases end, if they do.
    pub(crate) session: Option<Arc<Session>>,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct PostgresTable {
    shared: Arc<Shared>,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    calls: Calls,
    changes: Changes<i64>,
}

impl PostgresTable {
    pub(crate) fn new(shared: Arc<Shared>, tab: i32) -> Self {
        let calls = Calls {
            link: Arc::clone(&shared.link),
            clock: shared.clock,
            tab,
            session: shared.session.clone(),
        };
        let changes = Changes::default();
        let inner = Arc::new(Inner { calls, changes });
        Self { shared, inner }
    }
}

impl Table for PostgresTable {
    /// Blocks the calling thread until the answer is there, or the deadline.
    fn execute(&self, command: &Command<'_>) -> Result<Reply, StoreError> {
        let (inner, request) = (Arc::clone(&self.inner), Request::new(command));
        let work = async move { inner.execute(request).await };
        self.shared.driver.block_on(work)
    }

    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        // A newer plan may be here already.
        let _ = self.inner.changes.follow(plan, now, calendars);
        let inner = Arc::clone(&self.inner);
        let work = async move { inner.changes.newest(&inner.calls).await.map(drop) };
        // What cannot be written now is before the next command.
        let _ = self.shared.driver.block_on(work);
    }

    fn remote(&self) -> Option<&dyn RemoteTable> {
        Some(self)
    }

    fn list_keys(&self, listing: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        let (inner, wanted) = (Arc::clone(&self.inner), Wanted::new(listing));
        let work = async move { inner.calls.page_of_keys(&wanted).await };
        self.shared.driver.block_on(work)
    }

    fn list_leases(&self, listing: &Listing<'_>) -> Result<Page<HeldLease>, StoreError> {
        let (inner, wanted) = (Arc::clone(&self.inner), Wanted::new(listing));
        let work = async move { inner.calls.page_of_leases(&wanted).await };
        self.shared.driver.block_on(work)
    }

    /// Counts the rows on the server, which takes it a while.
    fn len(&self) -> usize {
        let inner = Arc::clone(&self.inner);
        let count = async move { inner.calls.count().await };
        self.shared.driver.block_on(count).unwrap_or(0)
    }
}

impl RemoteTable for PostgresTable {
    fn send(&self, command: &Command<'_>) -> Sent {
        let (inner, request) = (Arc::clone(&self.inner), Request::new(command));
        let work = async move { inner.execute(request).await };
        Box::pin(self.shared.driver.start(work))
    }
}

impl Inner {
    async fn execute(&self, request: Request) -> Result<Reply, StoreError> {
        let plan = &request.plan;
        self.changes.follow(plan, request.now, &request.bounds)?;
        let edition = self.changes.edition_of(plan, &self.calls).await?;
        match self.calls.ask(edition, &request).await? {
            Answer::Reply(reply) => Ok(reply),
            Answer::Looked(_) | Answer::More => Err(garbled("no reply")),
        }
    }
}
