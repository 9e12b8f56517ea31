//! The store: connections, tables by name.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_net::{Finish, Notifier, following, within};
use tidegate_store::core::Timestamp;
use tidegate_store::{
    Abilities, Change, Cleared, Defined, Definition, Definitions, Event, Follower, Page, Plan,
    Store, StoreError, StoreFuture, Table,
};
use tokio::sync::Semaphore;

use crate::clear::clear;
use crate::connection::{Link, driver};
use crate::definitions::DefinedRows;
use crate::error::PostgresError;
use crate::lock::{self, AdvisoryLock};
use crate::options::{Clock, Options};
use crate::prune::{self, Walk};
use crate::registry;
use crate::schema::{is_ready, migrate};
use crate::shared::Shared;
use crate::table::PostgresTable;
use crate::wakes;

/// The schema is made, and a table is pruned, in the time that it takes, up to this.
const MAKING: Duration = Duration::from_secs(600);

/// State in a PostgreSQL database, shared by all who use it. See the [crate].
///
/// When it is dropped, and every set on it, the last of them waits for what is under
/// way, at most for the deadline or a second: what was let go of just before is given
/// back.
#[derive(Debug)]
pub struct PostgresStore {
    // Declared first, dropped first: what drives the work is there until it is done.
    finish: Finish,
    shared: Arc<Shared>,
    defined: Arc<DefinedRows>,
}

impl PostgresStore {
    /// The store at `address`: `postgres://[user[:password]@]host[:port]/database`.
    /// The server is asked for its schema, which is made or brought up to date if
    /// the options allow it.
    ///
    /// # Errors
    /// [`PostgresError`]; a password is in none of its messages.
    pub fn open(address: &str, options: Options) -> Result<Self, PostgresError> {
        if options.deadline.is_zero() {
            return Err(PostgresError::Option(
                "the deadline of a PostgreSQL store is zero; give it a second",
            ));
        }
        if options.connections == 0 {
            return Err(PostgresError::Option(
                "a PostgreSQL store needs at least one connection",
            ));
        }
        let shared = Arc::new(Shared {
            link: Arc::new(Link::new(address, &options)?),
            driver: driver(&options)?,
            clock: options.clock,
            session: options.leases_end_with_session.then(Arc::default),
            notifier: Arc::new(Notifier::new(wakes::PREFIX)),
            turns: Semaphore::new(options.connections.div_ceil(2)),
        });
        let prune_every = options.prune_every;
        make_ready(&shared, options)?;
        if shared.clock == Clock::Server && !prune_every.is_zero() {
            prune::start(&shared, prune_every);
        }
        let finish = shared.driver.finish();
        let defined = DefinedRows::new(&shared.link, shared.driver.deadline());
        Ok(Self {
            defined: Arc::new(defined),
            shared,
            finish,
        })
    }

    /// Removes rows that equal "never seen", and deals with leases that are due,
    /// wherever nobody asks any more; how many. It walks along all rows in steps, none of
    /// which takes longer than the deadline, for up to ten minutes. One process at a time
    /// does it: another gets 0. It is done by itself every now and then
    /// ([`Options::prune_every`]).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; what was removed by then stays removed.
    pub fn prune(&self) -> Result<usize, StoreError> {
        let mut walk = Walk::new(&self.shared);
        let pruned = async move { walk.walk().await };
        self.shared.driver.block_on_within(MAKING, pruned)
    }

    /// Takes the server's own lock called `name`, and waits for it up to `within`
    /// (a millisecond at least); the calling thread waits as long. `None` if it
    /// was not free. It costs a connection for as long as it is held.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn lock(&self, name: &str, within: Duration) -> Result<Option<AdvisoryLock>, StoreError> {
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let take = async move { lock::take(shared, &name, within).await };
        self.shared.driver.block_on_within(within, take)
    }

    /// The plan that was adopted last by anyone, if there is any.
    fn newest(&self, name: &str) -> Result<Option<Plan>, StoreError> {
        let (link, name) = (Arc::clone(&self.shared.link), name.to_owned());
        let newest = async move { registry::newest(&link, &name).await };
        self.shared.driver.block_on(newest)
    }
}

/// Looks at the schema within the deadline, and makes it what it must be, if it is not.
fn make_ready(shared: &Shared, options: Options) -> Result<(), PostgresError> {
    let failed = |error: StoreError| PostgresError::Server(error.to_string());
    if is_lent_by_transaction(shared) {
        return Err(PostgresError::Pooler);
    }
    let (link, wanted) = (Arc::clone(&shared.link), options.clone());
    let looked = async move { is_ready(&link, &wanted).await };
    if shared.driver.block_on(looked).map_err(failed)? {
        return Ok(());
    }
    let link = Arc::clone(&shared.link);
    let made = async move { Ok(migrate(&link, &options).await) };
    shared
        .driver
        .block_on_within(MAKING, made)
        .map_err(failed)?
}

/// As far as that can be found out soon: a server that has no second connection left
/// says nothing about it.
fn is_lent_by_transaction(shared: &Shared) -> bool {
    let (link, patience) = (Arc::clone(&shared.link), shared.driver.deadline() / 4);
    let looked = async move { within(patience, link.is_lent_by_transaction()).await };
    shared.driver.block_on(looked).unwrap_or(false)
}

impl Store for PostgresStore {
    /// Rows that are unlogged are durable until the server crashes.
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: true,
            shared: true,
            own_clock: self.shared.clock == Clock::Server,
            answers_can_be_lost: true,
            counts_usage: true,
        }
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        Ok(self.newest(name)?.map(Arc::new))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        following::definitions(&self.shared.driver, &self.defined, owner, newer_than)
    }

    /// Others know within a second.
    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        following::change(&self.shared.driver, &self.defined, owner, change)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        following::definition(&self.shared.driver, &self.defined, owner, key)
    }

    fn definitions_at(&self, owner: &str, keys: &[&[u8]]) -> StoreFuture<Vec<Option<Definition>>> {
        let (defined, owner) = (Arc::clone(&self.defined), owner.to_owned());
        let keys: Vec<_> = keys.iter().map(|key| key.to_vec()).collect();
        let driver = &self.shared.driver;
        driver.later(async move { defined.definitions_at(&owner, &keys).await })
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        let (defined, owner) = (Arc::clone(&self.defined), owner.to_owned());
        let (driver, key) = (&self.shared.driver, key.to_vec());
        driver.later(async move { defined.with_ancestors(&owner, &key, parent_offset).await })
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        following::page(
            &self.shared.driver,
            &self.defined,
            owner,
            (prefix, after),
            most,
        )
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        _: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        following::events(
            &self.shared.driver,
            &self.defined,
            owner,
            (subject, after),
            most,
        )
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        following::follow(&self.shared.driver, &self.defined, owner, follower);
    }

    fn clear(&self, prefix: &str, after: Option<&[u8]>) -> StoreFuture<Cleared> {
        let (link, prefix) = (Arc::clone(&self.shared.link), prefix.to_owned());
        let is_first = after.is_none();
        let work = async move { clear(&link, &prefix, is_first).await };
        self.shared.driver.later(work)
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        match self.newest(name)?.map(|kept| kept.levels()) {
            Some(kept) if kept != plan.levels() => Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted: plan.levels(),
            }),
            _ => {
                let (link, name) = (Arc::clone(&self.shared.link), name.to_owned());
                let number = async move { registry::number(&link, &name).await };
                let number = self.shared.driver.block_on(number)?;
                let (shared, finish) = (Arc::clone(&self.shared), self.finish.clone());
                let table = PostgresTable::new(shared, finish, number);
                Ok(Arc::new(table))
            }
        }
    }
}
