//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use redis::Value;
use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{
    Command, HeldLease, KeyPath, Listing, OwnedKey, Page, Plan, RemoteTable, Reply, Sent,
    StoreError, Table,
};

use crate::error::garbled;
use crate::keys::Names;
use crate::limits::{Edition, Limits};
use crate::link::Link;
use crate::options::Clock;
use crate::registry::Registry;
use crate::request::Request;
use crate::script::{Needs, Scripts};
use crate::wire::reply::{self, Answer};

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) scripts: Scripts,
    pub(crate) clock: Clock,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct RedisTable(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) names: Names,
    pub(crate) registry: Registry,
    pub(crate) limits: Limits,
}

impl RedisTable {
    pub(crate) fn new(shared: Arc<Shared>, names: Names) -> Self {
        let registry = Registry::new(names.plans(), shared.clock);
        Self(Arc::new(Inner {
            shared,
            names,
            registry,
            limits: Limits::default(),
        }))
    }

    /// Does `work` on the store's thread; the calling one waits.
    fn block_on<T: Send + 'static, W>(
        &self,
        work: impl FnOnce(Arc<Inner>) -> W,
    ) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.0.shared.link.block_on(work(Arc::clone(&self.0)))
    }
}

impl Table for RedisTable {
    /// Blocks the calling thread until the answer is there, or the deadline.
    fn execute(&self, command: &Command<'_>) -> Result<Reply, StoreError> {
        let request = Request::of(command, &self.0);
        self.block_on(|inner| async move { inner.execute(request).await })
    }

    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        // A newer plan may be here already.
        let _ = self.0.limits.follow(plan, now, calendars);
        // What cannot be written now is before the next command.
        let _ = self.block_on(|inner| async move { inner.edition().await.map(drop) });
    }

    fn remote(&self) -> Option<&dyn RemoteTable> {
        Some(self)
    }

    fn list_keys(&self, listing: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        let wanted = self.0.wanted(listing)?;
        self.block_on(|inner| async move { inner.page_of_keys(wanted).await })
    }

    fn list_leases(&self, listing: &Listing<'_>) -> Result<Page<HeldLease>, StoreError> {
        let wanted = self.0.wanted(listing)?;
        self.block_on(|inner| async move { inner.page_of_leases(wanted).await })
    }

    /// Counts the keys on the server one by one, which takes it a while.
    fn len(&self) -> usize {
        let count = self.block_on(|inner| async move { inner.count().await });
        count.unwrap_or(0)
    }
}

impl RemoteTable for RedisTable {
    fn send(&self, command: &Command<'_>) -> Sent {
        let (inner, request) = (Arc::clone(&self.0), Request::of(command, &self.0));
        let work = async move { inner.execute(request).await };
        Box::pin(self.0.shared.link.start(work))
    }
}

impl Inner {
    async fn execute(self: Arc<Self>, mut request: Request) -> Result<Reply, StoreError> {
        let calendars = &request.calendars;
        self.limits.follow(&request.plan, request.now, calendars)?;
        let edition = self.edition().await?;
        if !Arc::ptr_eq(&edition.plan, &request.plan) {
            return Err(StoreError::StalePlan);
        }
        match self.ask(&edition, &mut request).await? {
            Answer::Reply(reply) => Ok(reply),
            _ => Err(garbled("no reply")),
        }
    }

    /// Calls the script until nothing is missing to it.
    pub(crate) async fn ask(
        &self,
        edition: &Edition,
        request: &mut Request,
    ) -> Result<Answer, StoreError> {
        let mut editions = Vec::new();
        loop {
            let value = self.call(edition, request, &editions).await?;
            match reply::read(value, &request.deciding, request.now)? {
                Answer::Editions(found) => {
                    let (link, own) = (&self.shared.link, edition.number);
                    editions = self.registry.leading_to(link, &found, own).await?;
                }
                Answer::More(owners) => {
                    for owner in owners {
                        let path = KeyPath::new(&owner, request.plan.levels());
                        let path = path.map_err(|_| garbled("a lease of no key"))?;
                        request.add_rows(&path, &self.names);
                    }
                }
                answer => return Ok(answer),
            }
        }
    }

    async fn call(
        &self,
        edition: &Edition,
        request: &Request,
        editions: &[Arc<[u8]>],
    ) -> Result<Value, StoreError> {
        let needs = match editions {
            [] => edition.needs.and(request.needs),
            _ => Needs::ALL,
        };
        let script = self.shared.scripts.get(needs);
        let own = [
            Arc::clone(&edition.bytes),
            Arc::clone(&request.command),
            request.rows(),
        ];
        let arguments = [&own, editions].concat();
        let link = &self.shared.link;
        link.call(&script, &request.keys, &arguments).await
    }
}
