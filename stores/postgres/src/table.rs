//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{Command, Plan, RemoteTable, Reply, Sent, StoreError, Table};
use tidegate_remote::{Changes, Driver};

use crate::error::garbled;
use crate::link::{Argument, Link};
use crate::options::Clock;
use crate::registry::Registry;
use crate::reply::{self, Answer};
use crate::request::{Plain, Request};

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct PostgresTable {
    shared: Arc<Shared>,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    link: Arc<Link>,
    clock: Clock,
    registry: Registry,
    changes: Changes<i64>,
}

const DECIDE: &str = "SELECT tidegate.decide($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
    $11::text::numeric, $12, $13, $14, $15, $16)";

const DECIDE_BUCKET: &str =
    "SELECT tidegate.decide_bucket($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

impl PostgresTable {
    pub(crate) fn new(shared: Arc<Shared>, tab: i32) -> Self {
        let (link, clock) = (Arc::clone(&shared.link), shared.clock);
        let registry = Registry {
            link: Arc::clone(&link),
            clock,
            tab,
        };
        let inner = Arc::new(Inner {
            link,
            clock,
            registry,
            changes: Changes::default(),
        });
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
        let work = async move { inner.changes.newest(&inner.registry).await.map(drop) };
        // What cannot be written now is before the next command.
        let _ = self.shared.driver.block_on(work);
    }

    fn remote(&self) -> Option<&dyn RemoteTable> {
        Some(self)
    }

    /// Counts the rows on the server, which takes it a while.
    fn len(&self) -> usize {
        let inner = Arc::clone(&self.inner);
        let count = async move { inner.count().await };
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
        let edition = self.changes.edition_of(plan, &self.registry).await?;
        loop {
            let text = match request.plain() {
                Some(plain) => self.decide_bucket(edition, &request, plain).await?,
                None => self.decide(edition, &request).await?,
            };
            match reply::read(&text, plan, request.now)? {
                Answer::Reply(reply) => return Ok(reply),
                Answer::More => {}
            }
        }
    }

    async fn decide(&self, edition: i64, request: &Request) -> Result<String, StoreError> {
        let (now, caller) = (request.now.as_micros(), self.clock == Clock::Caller);
        let arguments: [Argument<'_>; 16] = [
            &self.registry.tab,
            &edition,
            &now,
            &caller,
            &request.key,
            &request.ends,
            &request.calendars,
            &request.verb,
            &request.amounts,
            &request.detail,
            &request.id,
            &request.until,
            &request.ask,
            &request.ending,
            &request.used,
            &request.remember,
        ];
        self.answer(DECIDE, &arguments).await
    }

    async fn decide_bucket(
        &self,
        edition: i64,
        request: &Request,
        plain: Plain,
    ) -> Result<String, StoreError> {
        let (now, caller) = (request.now.as_micros(), self.clock == Clock::Caller);
        let arguments: [Argument<'_>; 10] = [
            &self.registry.tab,
            &edition,
            &now,
            &caller,
            &request.key,
            &plain.amount,
            &request.detail,
            &plain.drain,
            &plain.weight,
            &plain.brim,
        ];
        self.answer(DECIDE_BUCKET, &arguments).await
    }

    async fn answer(
        &self,
        statement: &str,
        arguments: &[Argument<'_>],
    ) -> Result<String, StoreError> {
        let rows = self.link.ask(statement, arguments).await?;
        let row = rows.first().ok_or_else(|| garbled("no row"))?;
        row.try_get(0).map_err(|_| garbled("no text"))
    }

    async fn count(&self) -> Result<usize, StoreError> {
        let statement = "SELECT count(*) FROM tidegate.rows
            WHERE tab = $1 AND (level IS NOT NULL OR cells IS NOT NULL)";
        let rows = self.link.ask(statement, &[&self.registry.tab]).await?;
        let row = rows.first().ok_or_else(|| garbled("no count"))?;
        Ok(usize::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }
}
