//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{
    Command, HeldLease, Listing, OwnedKey, Page, Patience, Plan, RemoteTable, Reply, Sent,
    StoreError, Table,
};
use tidegate_remote::waiting::{self, Waiting};
use tidegate_remote::{Changes, Driver, Ears, Finish};
use tokio::sync::Semaphore;

use crate::calls::{Calls, Turn};
use crate::error::garbled;
use crate::link::Link;
use crate::listing::Wanted;
use crate::options::Clock;
use crate::reply::Answer;
use crate::request::Request;
use crate::session::Session;
use crate::waiting::InLine;

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    /// With what leases end, if they do.
    pub(crate) session: Option<Arc<Session>>,
    /// Where those who wait are told.
    pub(crate) ears: Arc<Ears>,
    /// So many of those who stand in line ask at once: others have the other
    /// connections, also when all are woken.
    pub(crate) turns: Semaphore,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct PostgresTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    shared: Arc<Shared>,
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) calls: Calls,
    changes: Changes<i64>,
}

impl PostgresTable {
    pub(crate) fn new(shared: Arc<Shared>, finish: Finish, tab: i32) -> Self {
        let calls = Calls {
            link: Arc::clone(&shared.link),
            clock: shared.clock,
            tab,
            session: shared.session.clone(),
        };
        let changes = Changes::default();
        let inner = Arc::new(Inner { calls, changes });
        Self {
            shared,
            inner,
            _finish: finish,
        }
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

    fn wait(&self, command: &Command<'_>, patience: &Patience) -> Option<Sent> {
        let waiting = Waiting::of(command, patience)?;
        let line = InLine::new(&self.inner, &self.shared, &waiting);
        Some(waiting::stay(self.shared.driver.tasks(), waiting, line))
    }
}

impl Inner {
    pub(crate) async fn execute(&self, request: Request) -> Result<Reply, StoreError> {
        let edition = self.edition_for(&request).await?;
        match self.calls.ask(edition, &request).await? {
            Answer::Reply(reply) => Ok(reply),
            _ => Err(garbled("no reply")),
        }
    }

    /// A take in its turn: the reply, and whether others are first.
    pub(crate) async fn execute_in_turn(
        &self,
        request: Request,
        turn: &Turn,
    ) -> Result<(Reply, bool), StoreError> {
        let edition = self.edition_for(&request).await?;
        match self.calls.ask_in_turn(edition, &request, turn).await? {
            Answer::Reply(reply) => Ok((reply, false)),
            Answer::Kept(reply) => Ok((reply, true)),
            _ => Err(garbled("no reply")),
        }
    }

    async fn edition_for(&self, request: &Request) -> Result<i64, StoreError> {
        let plan = &request.plan;
        self.changes.follow(plan, request.now, &request.bounds)?;
        self.changes.edition_of(plan, &self.calls).await
    }
}
