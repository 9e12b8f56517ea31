//! One set's table: a command's way to the server and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use redis::Value;
use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{
    Command, HeldLease, KeyPath, Listing, OwnedKey, Page, Patience, Plan, RemoteTable, Reply, Sent,
    StoreError, Table,
};
use tidegate_remote::waiting::{self, Waiting};

use crate::error::garbled;
use crate::keys::Names;
use crate::limits::{Edition, Limits};
use crate::link::{Link, closed};
use crate::options::Clock;
use crate::registry::Registry;
use crate::request::Request;
use crate::script::{Needs, Scripts};
use crate::waiting::InLine;
use crate::wakes::Wakes;
use crate::wire;
use crate::wire::reply::{self, Answer};

/// So many commands.
const LIKELY: u32 = 64;

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) scripts: Scripts,
    pub(crate) clock: Clock,
    pub(crate) wakes: Arc<Wakes>,
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
    /// So many more commands are asked by a script that knows of those who wait.
    lines: Likely,
    /// So many more are asked by the whole script.
    not_plain: Likely,
}

/// What was met once is likely to be met by the next commands, too.
#[derive(Debug, Default)]
struct Likely(AtomicU32);

impl Likely {
    fn fill(&self) {
        self.0.store(LIKELY, Ordering::Relaxed);
    }

    /// Whether it is likely to be met by this one.
    fn spend(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.fetch_update(set, fetch, less).is_ok()
    }
}

impl RedisTable {
    pub(crate) fn new(shared: Arc<Shared>, names: Names) -> Self {
        let registry = Registry::new(names.plans(), shared.clock);
        Self(Arc::new(Inner {
            shared,
            names,
            registry,
            limits: Limits::default(),
            lines: Likely::default(),
            not_plain: Likely::default(),
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

    /// A round trip is as long as a disk takes.
    fn holds_up(&self) -> bool {
        true
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
        let link = &self.0.shared.link;
        let lone = link.connection().is_shared() && self.0.limits.are_settled_on(command.plan);
        let work = async move { inner.execute(request).await };
        if !lone {
            return Box::pin(link.start(work));
        }
        match link.drive(work) {
            Some(driven) => Box::pin(driven),
            None => Box::pin(std::future::ready(Err(closed()))),
        }
    }

    fn wait(&self, command: &Command<'_>, patience: &Patience) -> Option<Sent> {
        let waiting = Waiting::of(command, patience)?;
        let handle = self.0.shared.link.handle();
        Some(waiting::stay(handle, waiting, InLine::new(&self.0)))
    }
}

impl Inner {
    async fn execute(self: Arc<Self>, mut request: Request) -> Result<Reply, StoreError> {
        match self.answer(&mut request).await? {
            Answer::Reply(reply) | Answer::Kept(reply) => Ok(reply),
            _ => Err(garbled("no reply")),
        }
    }

    /// The answer to a command by the plan that it was made for.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        request: &mut Request,
    ) -> Result<Answer, StoreError> {
        let calendars = &request.calendars;
        self.limits.follow(&request.plan, request.now, calendars)?;
        let edition = self.edition().await?;
        if !Arc::ptr_eq(&edition.plan, &request.plan) {
            return Err(StoreError::StalePlan);
        }
        if let Some(answer) = self.ask_plain(&edition, request).await? {
            return Ok(answer);
        }
        self.ask(&edition, request).await
    }

    /// The answer to a plain take, if all about it is plain.
    async fn ask_plain(
        &self,
        edition: &Edition,
        request: &Request,
    ) -> Result<Option<Answer>, StoreError> {
        let (Some(plain), Some(take)) = (&edition.plain, &request.plain) else {
            return Ok(None);
        };
        let Some(keys) = request.plain_keys() else {
            return Ok(None);
        };
        if self.not_plain.spend() {
            return Ok(None);
        }
        let shared = &self.shared;
        let by_caller = shared.clock == Clock::Caller;
        let now = by_caller.then(|| wire::instant(request.now));
        let (script, argument) = (&shared.scripts.plain, plain.argument(take, now));
        let value = shared.link.call(script, &keys, &[argument]).await?;
        if value == Value::Nil {
            self.not_plain.fill();
            return Ok(None);
        }
        reply::read(value, &request.deciding, request.now).map(Some)
    }

    /// Calls the script until nothing is missing to it.
    pub(crate) async fn ask(
        &self,
        edition: &Edition,
        request: &mut Request,
    ) -> Result<Answer, StoreError> {
        let mut editions = Vec::new();
        if self.lines.spend() {
            request.needs = request.needs.and(Needs::LINE);
        }
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
                Answer::Queued => {
                    self.lines.fill();
                    request.needs = request.needs.and(Needs::LINE);
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
            _ => Needs::ALL.and(request.needs),
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
