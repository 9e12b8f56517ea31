//! The store: one table of DynamoDB's, sets by name.

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
use crate::clock::CorrectedClock;
use crate::connection::Connection;
use crate::definitions::DefinedItems;
use crate::error::{DynamodbError, Trouble};
use crate::options::{Options, is_table_name};
use crate::shared::Shared;
use crate::table::DynamodbTable;
use crate::{registry, schema};

/// The longest name of a set, in bytes.
const LONGEST_NAME: usize = 512;

/// A table is made in the time that it takes, up to this.
const MAKING: Duration = Duration::from_secs(300);

/// State in a table of DynamoDB's, shared by all who use the same. See the [crate].
///
/// When it is dropped, and every set on it, the last of them waits for what is under way, at
/// most for the deadline or a second: what was let go of just before is given back.
#[derive(Debug)]
pub struct DynamodbStore {
    // Declared first, dropped first: what drives the work is there until it is done.
    finish: Finish,
    shared: Arc<Shared>,
    defined: Arc<DefinedItems>,
}

impl DynamodbStore {
    /// The store in the DynamoDB table called `table`, which is made where it is not there.
    /// DynamoDB is asked once, so that what is wrong is told at once, and what time it is is
    /// known before anything is decided.
    ///
    /// # Errors
    /// [`DynamodbError`]; a secret is in none of its messages.
    pub fn open(table: &str, options: Options) -> Result<Self, DynamodbError> {
        if !is_table_name(table) {
            return Err(DynamodbError::Table(table.to_owned()));
        }
        options.check().map_err(DynamodbError::Option)?;
        let failed = |error: StoreError| DynamodbError::Server(error.to_string());
        let no_thread = |error| DynamodbError::Server(format!("no thread for the store: {error}"));
        let driver = Driver::new("tidegate-dynamodb", options.deadline).map_err(no_thread)?;
        let clock = CorrectedClock::start();
        let (name, said, ticks) = (table.to_owned(), options.clone(), Arc::clone(&clock));
        let connection = driver.block_on_within(MAKING, async move {
            let connection = Connection::new(&name, &said, &ticks).await;
            let mut backoff = crate::backoff::Backoff::default();
            loop {
                match schema::provide(&connection, said.migrate).await {
                    Ok(()) => return Ok(connection),
                    Err(trouble) => backoff.after(trouble).await?,
                }
            }
        });
        let connection = connection.map_err(failed)?;
        if options.clock == Clock::Server && !clock.has_heard() {
            return Err(DynamodbError::Server(
                "the answers of DynamoDB have no `Date`, by which the clocks of those who decide \
                 are brought together; have what stands between pass it on"
                    .to_owned(),
            ));
        }
        let shared = Arc::new(Shared {
            driver,
            connection,
            clock,
            options,
        });
        let finish = shared.driver.finish();
        Ok(Self {
            defined: Arc::new(DefinedItems::new(&shared)),
            shared,
            finish,
        })
    }

    /// The plan that was adopted last for the set called `name`, if there is any.
    fn newest(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        if name.len() > LONGEST_NAME {
            return Err(StoreError::Unavailable(format!(
                "the name of the set has {} bytes; DynamoDB takes {LONGEST_NAME}",
                name.len()
            )));
        }
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        self.shared.driver.block_on(async move {
            let newest = registry::newest(&shared, &name).await;
            newest.map_err(Trouble::told)
        })
    }
}

impl Store for DynamodbStore {
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: true,
            shared: true,
            own_clock: self.shared.options.clock == Clock::Server,
            answers_can_be_lost: true,
            counts_usage: true,
        }
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        self.newest(name)
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

    /// The whole table is scanned for it, by as many calls as that takes.
    fn clear(&self, prefix: &str, after: Option<&[u8]>) -> StoreFuture<Cleared> {
        let (shared, prefix) = (Arc::clone(&self.shared), prefix.to_owned());
        let after = after.map(<[u8]>::to_vec);
        let work = async move {
            let cleared = clear(&shared.connection, &prefix, after.as_deref()).await;
            cleared.map_err(Trouble::told)
        };
        self.shared.driver.later(work)
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        following::follow(&self.shared.driver, &self.defined, owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        match self.newest(name)?.map(|kept| kept.levels()) {
            Some(kept) if kept != plan.levels() => Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted: plan.levels(),
            }),
            _ => Ok(Arc::new(DynamodbTable::new(
                Arc::clone(&self.shared),
                self.finish.clone(),
                name,
            ))),
        }
    }
}
