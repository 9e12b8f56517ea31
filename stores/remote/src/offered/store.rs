//! The store, and what is done for each request.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_store::bytes::definition::{
    encode_defined, encode_definition, encode_definitions, encode_event,
};
use tidegate_store::bytes::reply::{encode_answer, encode_page};
use tidegate_store::core::DecodeError;
use tidegate_store::optimistic::Clock;
use tidegate_store::{
    Abilities, Adaptive, Answer, Change, Defined, NamespacedStore, OwnedListing, Plan, PlanLimit,
    Reply, Store, StoreError, Timer,
};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;

use super::answered::Answered;
use super::expired::Expired;
use super::lasting;
use super::limits::is_one;
use super::table::{OfferedTable, PageOf, Unanswered};
use super::versions::Versions;
use crate::wire::{Adoption, Asked, Request, Response, SentPlan, put_abilities};

/// So many tables are open at once.
pub const MOST_TABLES: usize = 10_000;

/// The longest name of a table or an owner, in bytes: a store beyond takes 512, and has the
/// name of the namespace before it.
const LONGEST_NAME: usize = 480;

/// So many requests are answered at once that do not wait, and so many wait.
const MOST_CALLS: usize = 4_096;
const MOST_WAITING: usize = 65_536;

/// What all that is kept for others is kept under: it meets nothing of the server's own.
const NAMESPACE: &str = "offered";

/// What came is no request that this reads.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the request cannot be read ({0}); is the client newer than this server?")]
pub struct Unread(#[from] DecodeError);

/// A store that is offered to others, who share it. Nothing of it meets what else is kept in
/// the store that it is made of.
///
/// What others may do with it: everything that a program can whose store it is. It opens at
/// most [`MOST_TABLES`] tables, and answers a bounded number of requests at once.
pub struct Offered {
    store: Arc<dyn Store>,
    timer: Arc<dyn Timer>,
    clock: Clock,
    tables: Mutex<HashMap<String, Arc<OfferedTable>>>,
    /// One at a time opens tables.
    opening: tokio::sync::Mutex<()>,
    versions: Versions,
    expired: Expired,
    /// Grows with whatever is defined.
    defined: watch::Sender<u64>,
    calls: Semaphore,
    waiting: Semaphore,
    closing: watch::Sender<bool>,
}

impl Offered {
    /// A part of `store`, by the clock of `timer`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, timer: Arc<dyn Timer>) -> Self {
        Self {
            store: Arc::new(NamespacedStore::new(store, NAMESPACE)),
            timer,
            clock: Clock::Server,
            tables: Mutex::default(),
            opening: tokio::sync::Mutex::new(()),
            versions: Versions::default(),
            expired: Expired::default(),
            defined: watch::Sender::new(0),
            calls: Semaphore::new(MOST_CALLS),
            waiting: Semaphore::new(MOST_WAITING),
            closing: watch::Sender::new(false),
        }
    }

    /// The same, by the clock of who asks, which comes with each command: for tests that
    /// decide themselves what time it is. Nothing then expires by itself.
    #[must_use]
    pub const fn by_the_callers_clock(mut self) -> Self {
        self.clock = Clock::Caller;
        self
    }

    /// Changes whenever something is defined by way of this.
    #[must_use]
    pub fn defined(&self) -> watch::Receiver<u64> {
        self.defined.subscribe()
    }

    /// From here on nobody waits any more: a server stops.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Ends when it was [closed](Self::close).
    pub async fn closed(&self) {
        let mut closing = self.closing.subscribe();
        // An error says that it is gone.
        let _ = closing.wait_for(|closing| *closing).await.map(drop);
    }

    /// Answers a request. A take that may wait is answered when it has its turn; dropped
    /// before, its place is given up, and what it was granted back.
    ///
    /// # Errors
    /// [`Unread`]: nothing was done.
    pub async fn answer(&self, body: &[u8]) -> Result<Answered, Unread> {
        let request = Request::read(body)?;
        let may_wait = matches!(&request, Request::Ask(asked) if asked.turn.is_some());
        let places = match may_wait {
            true => &self.waiting,
            false => &self.calls,
        };
        let Ok(_place) = places.try_acquire() else {
            let busy = StoreError::Busy("too many requests at once".to_owned());
            return Ok(Response::error(&busy).into());
        };
        let done = tokio::select! {
            biased;
            done = self.done(request) => done,
            () = self.closed(), if may_wait => Err(stopping().into()),
        };
        match done {
            Ok(answered) => Ok(answered),
            Err(Failed::Store(error)) => Ok(Response::error(&error).into()),
            Err(Failed::Unanswered(Unanswered::UnknownPlan)) => Ok(Response::unknown_plan().into()),
            Err(Failed::Unanswered(Unanswered::Unread(error))) => Err(error.into()),
        }
    }

    async fn done(&self, request: Request<'_>) -> Result<Answered, Failed> {
        match request {
            Request::Abilities => {
                let abilities = self.abilities();
                let body = Response::done(|out| put_abilities(abilities, out));
                Ok(body.into())
            }
            Request::LastPlan(name) => self.last_plan(name).await,
            Request::Open(name, version, plan) => {
                let plan = SentPlan::read(plan, version).map_err(Unanswered::Unread)?;
                self.takes(&plan)?;
                self.open(name, plan).await?;
                Ok(replied(&Ok(Reply::Done)))
            }
            Request::Adopt(adoption) => self.adopt(adoption).await,
            Request::Ask(asked) => self.ask(asked).await,
            Request::Keys(client, listing) => self.page(client.table, &listing, PageOf::Keys).await,
            Request::Leases(client, listing) => {
                self.page(client.table, &listing, PageOf::Leases).await
            }
            Request::Usage(client, listing, hours) => {
                self.page(client.table, &listing, PageOf::Usage(hours))
                    .await
            }
            Request::Count(client, now) => {
                let table = self.table(client.table)?;
                let count = table.count(now).await.map(Reply::Count);
                self.there(client.table, &table, &count)?;
                Ok(replied(&count))
            }
            request => self.administered(request).await,
        }
    }

    /// What is about definitions, events and names.
    async fn administered(&self, request: Request<'_>) -> Result<Answered, Failed> {
        let body = match request {
            Request::Changes(owner, newer_than, keys_alone) => {
                let news = self.store.definitions(named(owner)?, newer_than).await?;
                let news = match keys_alone {
                    true => news.keys_alone(),
                    false => lasting::news(news, self.timer.now()),
                };
                Response::done(|out| encode_definitions(&news, out))
            }
            Request::One(owner, key) => {
                let one = self.store.definition(named(owner)?, key).await?;
                let one = lasting::there(one, self.timer.now());
                Response::done(|out| {
                    out.option(one.as_ref(), |out, one| encode_definition(one, out));
                })
            }
            Request::WithAncestors(owner, key, parent_offset) => {
                let (store, now) = (&*self.store, || self.timer.now());
                let found =
                    lasting::with_ancestors(store, named(owner)?, (key, parent_offset), now);
                let found = found.await?;
                Response::done(|out| {
                    out.list(found.iter(), |out, one| encode_definition(one, out));
                })
            }
            Request::Page(owner, prefix, after, most) => {
                let page = self
                    .store
                    .definitions_page(named(owner)?, prefix, after, most);
                let (mut page, now) = (page.await?, self.timer.now());
                let there = page.items.into_iter();
                page.items = there
                    .filter_map(|one| lasting::there(Some(one), now))
                    .collect();
                Response::done(|out| {
                    encode_page(&page, out, |out, one| encode_definition(one, out));
                })
            }
            Request::Change(owner, change) => self.change(named(owner)?, change).await?,
            Request::Events(owner, subject, after, most) => {
                let now = self.timer.now();
                let page = self.store.events(named(owner)?, subject, after, most, now);
                let page = page.await?;
                Response::done(|out| encode_page(&page, out, |out, one| encode_event(one, out)))
            }
            Request::Versions(owners) => {
                for owner in &owners {
                    named(owner)?;
                }
                let versions = self.versions.of(&*self.store, &owners).await?;
                let versions = versions.into_iter();
                Response::done(|out| {
                    out.list(versions, |out, version| _ = out.u64(version));
                })
            }
            Request::Clear(prefix, after) => self.clear(prefix, after).await?,
            // It is one of those above.
            _ => return Err(StoreError::Mismatch.into()),
        };
        Ok(body.into())
    }

    fn abilities(&self) -> Abilities {
        let abilities = self.store.abilities();
        Abilities {
            shared: true,
            own_clock: self.clock == Clock::Server,
            answers_can_be_lost: true,
            ..abilities
        }
    }

    /// The table, if it is open: one that was open before a restart is opened again by who
    /// sends its plan.
    fn table(&self, name: &str) -> Result<Arc<OfferedTable>, Failed> {
        let found = self.tables.lock().get(name).cloned();
        found.ok_or(Failed::Unanswered(Unanswered::UnknownPlan))
    }

    /// What a table answered. One that is not there any more, as others have cleared it, was
    /// asked nothing: it is opened again by who sends its plan.
    fn there(&self, name: &str, table: &Arc<OfferedTable>, answer: &Answer) -> Result<(), Failed> {
        if !is_gone(answer) {
            return Ok(());
        }
        let mut tables = self.tables.lock();
        if tables
            .get(name)
            .is_some_and(|kept| Arc::ptr_eq(kept, table))
        {
            tables.remove(name);
        }
        Err(Failed::Unanswered(Unanswered::UnknownPlan))
    }

    async fn page(
        &self,
        name: &str,
        listing: &OwnedListing,
        of: PageOf,
    ) -> Result<Answered, Failed> {
        let table = self.table(name)?;
        let page = table.page(listing, of).await;
        self.there(name, &table, &page)?;
        Ok(replied(&page))
    }

    async fn last_plan(&self, name: &str) -> Result<Answered, Failed> {
        let (store, name) = (Arc::clone(&self.store), named(name)?.to_owned());
        let last = blocking(move || store.last_plan(&name)).await?;
        let body = Response::done(|out| {
            out.option(last, |out, plan| {
                out.u64(plan.version()).bytes(&SentPlan::of(&plan).bytes);
            });
        });
        Ok(body.into())
    }

    /// Whether each of those who ask can have its own capacities of the moment. A store that
    /// processes share decides a command by the plan that was told last, whose ever it is.
    fn takes(&self, plan: &Plan) -> Result<(), StoreError> {
        let mut limits = plan.limits().iter();
        match limits.find(|limit| limit.adaptive.is_some()) {
            Some(limit) if self.store.abilities().shared => Err(StoreError::Unavailable(format!(
                "the limit `{}` is adaptive, and the server that offers its store shares that \
                 store with others; give this set the shared store itself, or let the server \
                 that offers have `memory:` or `file:`",
                limit.name
            ))),
            _ => Ok(()),
        }
    }

    async fn open(&self, name: &str, plan: Plan) -> Result<Arc<OfferedTable>, Failed> {
        let fits = |table: Arc<OfferedTable>| match table.levels() {
            kept if kept == plan.levels() => Ok(table),
            kept => Err(Failed::Store(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted: plan.levels(),
            })),
        };
        if let Ok(table) = self.table(named(name)?) {
            return fits(table);
        }
        let _one_at_a_time = self.opening.lock().await;
        if let Ok(table) = self.table(name) {
            return fits(table);
        }
        if self.tables.lock().len() >= MOST_TABLES {
            let full = format!("{MOST_TABLES} tables are open that it offers to others");
            return Err(StoreError::Full(full).into());
        }
        let (store, owned, plan) = (Arc::clone(&self.store), name.to_owned(), plan.clone());
        let opened = blocking(move || {
            let last = store.last_plan(&owned)?;
            let plan = match &last {
                None => plan,
                Some(last) => after(last, &plan),
            };
            let plan = Arc::new(plan);
            Ok((store.open(&owned, &plan)?, plan, last.is_some()))
        });
        let (table, plan, was_there) = opened.await?;
        let by_callers_clock = self.clock == Clock::Caller;
        let timer = Arc::clone(&self.timer);
        let table = Arc::new(OfferedTable::new(
            table,
            (plan, was_there),
            timer,
            by_callers_clock,
        ));
        let mut tables = self.tables.lock();
        tables.insert(name.to_owned(), Arc::clone(&table));
        Ok(table)
    }

    async fn adopt(&self, adoption: Adoption<'_>) -> Result<Answered, Failed> {
        let name = adoption.client.table;
        let table = match adoption.plan {
            None => self.table(name)?,
            Some(bytes) => {
                let plan = SentPlan::read(bytes, adoption.client.version);
                let plan = plan.map_err(Unanswered::Unread)?;
                self.takes(&plan)?;
                let table = self.open(name, plan.clone()).await?;
                // As it is called is told by what it is.
                table.learn(crate::wire::digest(bytes), plan);
                table
            }
        };
        Ok(replied(&table.adopt(&adoption)?))
    }

    async fn ask(&self, asked: Asked<'_>) -> Result<Answered, Failed> {
        let table = self.table(asked.client.table)?;
        let (answer, undelivered) = table.ask(&asked).await?;
        self.there(asked.client.table, &table, &answer)?;
        Ok(Answered {
            undelivered,
            ..replied(&answer)
        })
    }

    /// Makes a change. A file may hold it up.
    async fn change(&self, owner: &str, mut change: Change) -> Result<Vec<u8>, Failed> {
        if let (Some(event), Clock::Server) = (&mut change.event, self.clock) {
            event.at = self.timer.now();
        }
        let (expected, now) = (change.expected, self.timer.now());
        let has_clock = self.store.abilities().own_clock;
        let is_kept_on = !has_clock && change.definition.lasts.is_some();
        let change = lasting::kept(change, now, has_clock);
        let mut defined = self.make(owner, change.clone()).await?;
        if let (Defined::Conflict(Some(there)), Some(0)) = (&defined, expected)
            && lasting::there(Some(there.clone()), now).is_none()
        {
            // It is over, so that nothing is there.
            defined = self.make(owner, change.expecting(there.version)).await?;
        }
        if let Defined::Conflict(there) = defined {
            defined = Defined::Conflict(lasting::there(there, now));
        }
        if is_kept_on {
            // What fails is tried again with one that comes later.
            let _ = self.remove_expired(owner).await;
        }
        self.defined.send_modify(|count| *count += 1);
        Ok(Response::done(|out| encode_defined(&defined, out)))
    }

    /// Removes some of what is over, which a store without a clock keeps.
    async fn remove_expired(&self, owner: &str) -> Result<(), StoreError> {
        let now = self.timer.now();
        for removal in self.expired.next(&*self.store, owner, now).await? {
            self.make(owner, removal).await?;
        }
        Ok(())
    }

    async fn make(&self, owner: &str, change: Change) -> Result<Defined, StoreError> {
        let (store, owner) = (Arc::clone(&self.store), owner.to_owned());
        blocking(move || Ok(store.change(&owner, change)))
            .await?
            .await
    }

    async fn clear(&self, prefix: &str, after: Option<&[u8]>) -> Result<Vec<u8>, Failed> {
        if prefix.len() > LONGEST_NAME {
            return Err(too_long(prefix).into());
        }
        let forget = |prefix: &str| {
            let mut tables = self.tables.lock();
            tables.retain(|name, _| !name.starts_with(prefix));
        };
        forget(prefix);
        let (store, owned) = (Arc::clone(&self.store), prefix.to_owned());
        let after = after.map(<[u8]>::to_vec);
        let clearing = blocking(move || Ok(store.clear(&owned, after.as_deref()))).await?;
        let cleared = clearing.await?;
        // What was opened meanwhile may be of what is gone.
        forget(prefix);
        Ok(Response::done(|out| {
            out.u64(cleared.removed);
            out.option(cleared.next, |out, next| _ = out.bytes(&next));
        }))
    }
}

impl fmt::Debug for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offered")
            .field("clock", &self.clock)
            .field("tables", &self.tables.lock().len())
            .finish_non_exhaustive()
    }
}

/// Why a request has no answer of its own.
enum Failed {
    Store(StoreError),
    Unanswered(Unanswered),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Unanswered> for Failed {
    fn from(why: Unanswered) -> Self {
        Self::Unanswered(why)
    }
}

fn replied(answer: &Answer) -> Answered {
    match answer {
        Err(error) => Response::error(error).into(),
        answer => Response::done(|out| encode_answer(answer, out)).into(),
    }
}

/// Whether the table is not there any more. It is told of all that was asked, as nothing was
/// done.
fn is_gone(answer: &Answer) -> bool {
    match answer {
        Err(StoreError::TableGone(_)) => true,
        Ok(Reply::Batch(answers)) => !answers.is_empty() && answers.iter().all(is_gone),
        _ => false,
    }
}

/// `plan`, for a table whose plan was `last`: with the limits that others may know still,
/// numbered behind it, unless it is the same.
fn after(last: &Plan, plan: &Plan) -> Plan {
    let mut limits = plan.limits().to_vec();
    let is_new = |limits: &[PlanLimit], limit: &PlanLimit| {
        limit.level < plan.levels() && !limits.iter().any(|known| is_one(known, limit))
    };
    for limit in last.limits() {
        if is_new(&limits, limit) {
            let adaptive = limit.adaptive.as_ref().map(|_| Adaptive::default());
            let limit = limit.clone();
            limits.push(PlanLimit { adaptive, ..limit });
        }
    }
    let plan =
        Plan::new(plan.version(), plan.levels(), limits, plan.keep()).counting_usage(plan.usage());
    let least = last.version() + u64::from(!last.has_limits_of(&plan));
    let version = plan.version().max(least);
    let numbered = Plan::new(version, plan.levels(), plan.limits().to_vec(), plan.keep());
    numbered.counting_usage(plan.usage())
}

fn named(name: &str) -> Result<&str, StoreError> {
    match name.len() {
        0..=LONGEST_NAME => Ok(name),
        _ => Err(too_long(name)),
    }
}

fn stopping() -> StoreError {
    StoreError::Unavailable("the server is stopping".to_owned())
}

fn too_long(name: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "a name has {} bytes; a server that offers its store takes {LONGEST_NAME}",
        name.len()
    ))
}

/// What waits for a disk or a network on the calling thread has one of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let work = spawn_blocking(work).await;
    work.unwrap_or_else(|_| Err(StoreError::Unavailable("it is shutting down".to_owned())))
}
