//! One set's table: a command's way to the server and back.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::Value;
use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{Command, KeyPath, Plan, RemoteTable, Reply, Sent, StoreError, Table};

use crate::error::garbled;
use crate::keys::Names;
use crate::link::Link;
use crate::options::Clock;
use crate::registry::{Change, Registry};
use crate::script::{Needs, Scripts};
use crate::wire::command::encode;
use crate::wire::reply::{self, Answer};
use crate::wire::{self};

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
struct Inner {
    shared: Arc<Shared>,
    names: Names,
    registry: Registry,
    limits: Mutex<Limits>,
    /// One change of limits is written at a time.
    writing: tokio::sync::Mutex<()>,
}

/// By what limits this process decides.
#[derive(Debug, Default)]
struct Limits {
    newest: Option<Arc<Plan>>,
    /// The newest plan's edition, once it is written.
    edition: Option<Arc<Edition>>,
    /// What is to be written before anything is decided.
    changes: VecDeque<Change>,
}

impl Limits {
    /// The newest plan's edition, if nothing is to be written first.
    fn settled(&self) -> Option<Arc<Edition>> {
        let edition = self.edition.as_ref().filter(|_| self.changes.is_empty());
        edition.map(Arc::clone)
    }
}

/// A plan as the script is given it.
#[derive(Debug)]
struct Edition {
    plan: Arc<Plan>,
    number: i64,
    bytes: Arc<[u8]>,
    needs: Needs,
}

/// A command on its way.
struct Request {
    plan: Arc<Plan>,
    now: Timestamp,
    calendars: Box<[Option<Bounds>]>,
    command: Arc<[u8]>,
    keys: Vec<Vec<u8>>,
    /// The levels of the rows that were added to those of the path.
    others: Vec<usize>,
}

impl RedisTable {
    pub(crate) fn new(shared: Arc<Shared>, names: Names) -> Self {
        let registry = Registry::new(names.plans(), shared.clock);
        Self(Arc::new(Inner {
            shared,
            names,
            registry,
            limits: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        }))
    }

    /// All of `command` that is needed once this returns.
    fn request(&self, command: &Command<'_>) -> Request {
        Request {
            plan: Arc::clone(command.plan),
            now: command.now,
            calendars: command.calendars.into(),
            command: encode(command, self.0.shared.clock).into(),
            keys: self.0.names.of(&command.key),
            others: Vec::new(),
        }
    }
}

impl Table for RedisTable {
    /// Blocks the calling thread until the answer is there, or the deadline.
    fn execute(&self, command: &Command<'_>) -> Result<Reply, StoreError> {
        let (inner, request) = (Arc::clone(&self.0), self.request(command));
        let work = async move { inner.execute(request).await };
        self.0.shared.link.block_on(work)
    }

    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        // A newer plan may be here already.
        let _ = self.0.follow(plan, now, calendars);
        let inner = Arc::clone(&self.0);
        // What cannot be written now is before the next command.
        let _ = self
            .0
            .shared
            .link
            .block_on(async move { inner.edition().await.map(drop) });
    }

    fn remote(&self) -> Option<&dyn RemoteTable> {
        Some(self)
    }

    /// Counts the keys on the server one by one, which takes it a while.
    fn len(&self) -> usize {
        let inner = Arc::clone(&self.0);
        let count = async move { inner.count().await };
        self.0.shared.link.block_on(count).unwrap_or(0)
    }
}

impl RemoteTable for RedisTable {
    fn send(&self, command: &Command<'_>) -> Sent {
        let (inner, request) = (Arc::clone(&self.0), self.request(command));
        let work = async move { inner.execute(request).await };
        Box::pin(self.0.shared.link.start(work))
    }
}

impl Inner {
    async fn execute(&self, mut request: Request) -> Result<Reply, StoreError> {
        self.follow(&request.plan, request.now, &request.calendars)?;
        let edition = self.edition().await?;
        if !Arc::ptr_eq(&edition.plan, &request.plan) {
            return Err(StoreError::StalePlan);
        }
        let mut editions = Vec::new();
        loop {
            let value = self.call(&edition, &request, &editions).await?;
            match reply::read(value, &request.plan, request.now)? {
                Answer::Reply(reply) => return Ok(reply),
                Answer::Editions(found) => {
                    let (link, own) = (&self.shared.link, edition.number);
                    editions = self.registry.leading_to(link, &found, own).await?;
                }
                Answer::More(owners) => {
                    for owner in owners {
                        self.add_rows(&owner, &mut request)?;
                    }
                }
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
            [] => edition.needs,
            _ => Needs::ALL,
        };
        let script = self.shared.scripts.get(needs);
        let own = [
            Arc::clone(&edition.bytes),
            Arc::clone(&request.command),
            wire::command::levels(&request.others).into(),
        ];
        let arguments = [&own, editions].concat();
        let link = &self.shared.link;
        link.call(&script, &request.keys, &arguments).await
    }

    /// The rows of an owner whose lease gives something back are needed, too.
    fn add_rows(&self, owner: &[u8], request: &mut Request) -> Result<(), StoreError> {
        let path = KeyPath::new(owner, request.plan.levels());
        let path = path.map_err(|_| garbled("a lease of no key"))?;
        for level in 0..path.depth() {
            let row = self.names.row(&path, level);
            if !request.keys.contains(&row) {
                request.keys.push(row);
                request.others.push(level);
            }
        }
        Ok(())
    }

    /// Takes note of a change of limits.
    fn follow(
        &self,
        plan: &Arc<Plan>,
        now: Timestamp,
        calendars: &[Option<Bounds>],
    ) -> Result<(), StoreError> {
        let mut limits = self.limits.lock();
        if let Some(newest) = &limits.newest {
            if Arc::ptr_eq(newest, plan) {
                return Ok(());
            }
            if plan.version() < newest.version() {
                return Err(StoreError::StalePlan);
            }
        }
        let change = Change {
            plan: Arc::clone(plan),
            at: now,
            calendars: calendars.into(),
            is_first: limits.newest.is_none(),
        };
        limits.newest = Some(Arc::clone(plan));
        limits.edition = None;
        limits.changes.push_back(change);
        Ok(())
    }

    /// The newest plan's edition, written first if it is not yet.
    async fn edition(&self) -> Result<Arc<Edition>, StoreError> {
        if let Some(edition) = self.limits.lock().settled() {
            return Ok(edition);
        }
        let _one_at_a_time = self.writing.lock().await;
        loop {
            let change = self.limits.lock().changes.front().cloned();
            let Some(change) = change else { break };
            let (link, scripts) = (&self.shared.link, &self.shared.scripts);
            let number = self.registry.add(link, scripts, &change).await?;
            let mut limits = self.limits.lock();
            limits.changes.pop_front();
            limits.edition = Some(Arc::new(Edition {
                number,
                bytes: wire::plan::edition(&change.plan, number).into(),
                needs: Needs::of(&change.plan),
                plan: change.plan,
            }));
        }
        let edition = self.limits.lock().edition.clone();
        edition.ok_or_else(|| StoreError::Unavailable("the table has no limits yet".to_owned()))
    }

    async fn count(&self) -> Result<usize, StoreError> {
        let (mut count, mut cursor) = (0, b"0".to_vec());
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(self.names.all_rows());
            let answer = self.shared.link.ask(scan.arg("COUNT").arg(1_000)).await?;
            let Value::Array(parts) = answer else {
                return Err(garbled("no scan"));
            };
            let [Value::BulkString(next), Value::Array(keys)] = &parts[..] else {
                return Err(garbled("no scan"));
            };
            count += keys.len();
            cursor.clone_from(next);
            if cursor == b"0" {
                return Ok(count);
            }
        }
    }
}
