//! The store: connections to one server, tables by name.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_net::{Driver, Finish, following};
use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::Clock;
use tidegate_store::{
    Abilities, Change, Cleared, Defined, Definition, Definitions, Event, Follower, Page, Plan,
    Store, StoreError, StoreFuture, Table,
};

use crate::clear::clear;
use crate::connection::Pool;
use crate::definitions::DefinedRows;
use crate::error::{MysqlError, Trouble};
use crate::lock::NativeLock;
use crate::options::Options;
use crate::shared::Shared;
use crate::table::MysqlTable;
use crate::{registry, schema};

/// The longest name of a table, in bytes.
const LONGEST_NAME: usize = 512;

/// SQL tables are made in the time that it takes, up to this.
const MAKING: Duration = Duration::from_secs(600);

/// State in a MariaDB server, shared by all who use the same database and prefix.
/// See the [crate].
///
/// When it is dropped, and every set on it, the last of them waits for what is under
/// way, at most for the deadline or a second: what was let go of just before is given
/// back.
#[derive(Debug)]
pub struct MysqlStore {
    // Declared first, dropped first: what drives the work is there until it is done.
    finish: Finish,
    shared: Arc<Shared>,
    defined: Arc<DefinedRows>,
}

impl MysqlStore {
    /// The store at `address`: `mysql://[user[:password]@]host[:port]/database` (or
    /// `mariadb://`). The server is asked once, and SQL tables are made where there
    /// are none, so that what is wrong is told at once.
    ///
    /// # Errors
    /// [`MysqlError`]; a password is in none of its messages.
    pub fn open(address: &str, options: Options) -> Result<Self, MysqlError> {
        options.check().map_err(MysqlError::Option)?;
        let no_thread = |error| MysqlError::Server(format!("no thread for the store: {error}"));
        let shared = Arc::new(Shared {
            driver: Driver::new("tidegate-mysql", options.deadline).map_err(no_thread)?,
            pool: Pool::new(address, options.connections, options.deadline)?,
            clock: options.clock,
            prefix: options.prefix,
        });
        let provided = is_provided(&shared).and_then(|is_provided| match is_provided {
            true => Ok(()),
            false => provide(&shared),
        });
        provided.map_err(|error| MysqlError::Server(error.to_string()))?;
        let finish = shared.driver.finish();
        Ok(Self {
            defined: Arc::new(DefinedRows::new(&shared)),
            shared,
            finish,
        })
    }

    /// Waits up to `patience` for the server's own lock `name`; `None` if others
    /// hold it for longer. It has a connection of its own, beside the store's, for
    /// as long as it is waited for and held.
    ///
    /// # Errors
    /// *Cannot tell*; then it is not held.
    pub async fn lock(
        &self,
        name: &str,
        patience: Duration,
    ) -> Result<Option<NativeLock>, StoreError> {
        NativeLock::take(Arc::clone(&self.shared), name, patience).await
    }

    /// The number of the table called `name`, and the plan that was adopted last
    /// by anyone, if there is any; the table is made if `makes` says so.
    fn find(&self, name: &str, makes: bool) -> Result<Option<(u32, Option<Plan>)>, StoreError> {
        if name.len() > LONGEST_NAME {
            return Err(StoreError::Unavailable(format!(
                "the name of the set has {} bytes; MariaDB takes {LONGEST_NAME}",
                name.len()
            )));
        }
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        self.shared.driver.block_on(async move {
            let found = find(&shared, &name, makes).await;
            found.map_err(Trouble::told)
        })
    }
}

async fn find(
    shared: &Shared,
    name: &str,
    makes: bool,
) -> Result<Option<(u32, Option<Plan>)>, Trouble> {
    let table = match makes {
        true => Some(registry::number(shared, name).await?),
        false => registry::find(shared, name).await?,
    };
    let Some(table) = table else { return Ok(None) };
    Ok(Some((table, registry::newest(shared, table).await?)))
}

fn is_provided(shared: &Arc<Shared>) -> Result<bool, StoreError> {
    let lender = Arc::clone(shared);
    shared.driver.block_on(async move {
        let mut lent = lender.pool.lend().await.map_err(Trouble::told)?;
        schema::check_server(&mut lent.conn)
            .await
            .map_err(Trouble::told)?;
        let is_provided = schema::is_provided(&mut lent.conn, &lender.prefix).await;
        let is_provided = is_provided.map_err(Trouble::told)?;
        lent.put_back();
        Ok(is_provided)
    })
}

/// Makes the SQL tables.
fn provide(shared: &Arc<Shared>) -> Result<(), StoreError> {
    let lender = Arc::clone(shared);
    shared.driver.block_on_within(MAKING, async move {
        let mut lent = lender.pool.lend().await.map_err(Trouble::told)?;
        let provided = schema::provide(&mut lent.conn, &lender.prefix).await;
        provided.map_err(Trouble::told)?;
        lent.put_back();
        Ok(())
    })
}

impl Store for MysqlStore {
    /// What survives is up to the server; see the [crate].
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
        let found = self.find(name, false)?;
        Ok(found.and_then(|(_, plan)| plan).map(Arc::new))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        following::definitions(&self.shared.driver, &self.defined, owner, newer_than)
    }

    /// Others know within five seconds.
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
        let (shared, prefix) = (Arc::clone(&self.shared), prefix.to_owned());
        let is_first = after.is_none();
        let work = async move {
            let cleared = clear(&shared, &prefix, is_first).await;
            cleared.map_err(Trouble::told)
        };
        self.shared.driver.later(work)
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let found = self.find(name, true)?;
        let (number, kept) = found.unwrap_or_default();
        match kept.map(|kept| kept.levels()) {
            Some(kept) if kept != plan.levels() => Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted: plan.levels(),
            }),
            _ => Ok(Arc::new(MysqlTable::new(
                Arc::clone(&self.shared),
                self.finish.clone(),
                number,
            ))),
        }
    }
}
