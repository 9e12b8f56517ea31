//! The DynamoDB table as an operator has it: made, looked at, brought up to date, deleted.

use std::cell::Cell;
use std::time::Duration;

use aws_sdk_dynamodb::types::{BillingMode, TableDescription, TableStatus};
use tidegate_store::StoreError;
use tokio::runtime::{Builder, Runtime};

use crate::backoff::Backoff;
use crate::clock::CorrectedClock;
use crate::connection::{Connection, code};
use crate::error::{DynamodbError, Trouble};
use crate::options::{Options, is_table_name};
use crate::schema::{self, GLANCE, Sweep, VERSION, unusable};

/// What is done to a table takes its time.
const LONGEST: Duration = Duration::from_secs(300);

/// The least that a request may take: these are no decisions, for which somebody waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// A table of DynamoDB's that may be there or not. Its methods block until they are done, up to
/// five minutes; they are not for the threads of an async runtime.
#[derive(Debug)]
pub struct Administration {
    runtime: Runtime,
    table: String,
    options: Options,
}

/// How a table is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Status {
    /// Its name.
    pub table: String,
    /// What DynamoDB says of it, as `ACTIVE`.
    pub state: String,
    /// The version of what is in it; `None` if nothing is yet.
    pub layout: Option<u32>,
    /// Whether DynamoDB deletes what is spent.
    pub expires: bool,
    /// Whether DynamoDB refuses to delete the table.
    pub is_protected: bool,
    /// Whether what is asked is billed, and not what is provisioned.
    pub on_demand: bool,
    /// How many items it has, as DynamoDB counted them within the last six hours.
    pub items: u64,
    /// How many bytes, likewise.
    pub bytes: u64,
}

impl Status {
    /// The version of the layout that this version of the program reads and writes.
    pub const LAYOUT: u32 = VERSION;

    /// Whether nothing is left to [upgrade](Administration::upgrade).
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.expires && self.layout == Some(VERSION)
    }
}

/// What was done to a table that was not as it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Done {
    /// It was made.
    Made,
    /// Its time to live was switched on.
    Expires,
    /// The version of the layout was written, or raised.
    Layout,
    /// It is protected now.
    Protected,
    /// It is protected no longer.
    Unprotected,
}

impl Administration {
    /// The table called `table`, where `options` say; nobody is asked yet. A request may take 10 s
    /// at least, whatever the deadline.
    ///
    /// # Errors
    /// [`DynamodbError`]: a name or an option that makes no sense.
    pub fn new(table: &str, mut options: Options) -> Result<Self, DynamodbError> {
        if !is_table_name(table) {
            return Err(DynamodbError::Table(table.to_owned()));
        }
        options.check().map_err(DynamodbError::Option)?;
        options.deadline = options.deadline.max(PATIENCE);
        let runtime = Builder::new_current_thread().enable_all().build();
        let failed = |error| DynamodbError::Server(format!("no runtime to ask by: {error}"));
        Ok(Self {
            runtime: runtime.map_err(failed)?,
            table: table.to_owned(),
            options,
        })
    }

    /// How the table is.
    ///
    /// # Errors
    /// [`DynamodbError::NotThere`]; [`DynamodbError::Server`].
    pub fn status(&self) -> Result<Status, DynamodbError> {
        self.ask(described)?
            .ok_or_else(|| DynamodbError::NotThere(self.table.clone()))
    }

    /// Makes the table, billed on demand, and whatever is missing of one that is there; waits until
    /// it can be used. One that is there is protected as it was.
    ///
    /// # Errors
    /// [`DynamodbError::Server`]: also of a table that was made for something else, or by a newer
    /// or an older version.
    pub fn create(&self, is_protected: bool) -> Result<Vec<Done>, DynamodbError> {
        self.ask(async move |connection| {
            let is_there = schema::describe(connection).await?.is_some();
            if !is_there {
                schema::make(connection, is_protected).await?;
            }
            active(connection).await?;
            let mut done: Vec<_> = (!is_there).then_some(Done::Made).into_iter().collect();
            done.extend(complete(connection, false).await?);
            Ok(done)
        })
    }

    /// Brings a table up to date: its time to live is on, and its layout is this version's, which
    /// programs of an older one cannot read; and protects it or not, if that is said. Answers what
    /// had to be done.
    ///
    /// # Errors
    /// [`DynamodbError::NotThere`]; [`DynamodbError::Server`]: also of a table that was made for
    /// something else, or by a newer version.
    pub fn upgrade(&self, protect: Option<bool>) -> Result<Vec<Done>, DynamodbError> {
        let done = self.ask(async move |connection| {
            let Some(table) = schema::describe(connection).await? else {
                return Ok(None);
            };
            active(connection).await?;
            let mut done = complete(connection, true).await?;
            let is_protected = table.deletion_protection_enabled.unwrap_or_default();
            if let Some(protect) = protect.filter(|protect| *protect != is_protected) {
                let update = connection.client.update_table();
                let update = update.table_name(&connection.table);
                let update = update.deletion_protection_enabled(protect);
                connection.ask(update.send()).await?;
                active(connection).await?;
                done.push(match protect {
                    true => Done::Protected,
                    false => Done::Unprotected,
                });
            }
            Ok(Some(done))
        })?;
        done.ok_or_else(|| DynamodbError::NotThere(self.table.clone()))
    }

    /// Deletes the table, with all that was counted, and waits until it is gone.
    ///
    /// # Errors
    /// [`DynamodbError::Protected`], and nothing is done; [`DynamodbError::NotThere`];
    /// [`DynamodbError::Server`]: also of a table that was made for something else, which stays.
    pub fn delete(&self) -> Result<(), DynamodbError> {
        let begun = Cell::new(false);
        self.ask(async |connection| {
            let name = || connection.table.clone();
            loop {
                let table = match schema::describe(connection).await? {
                    Some(table) => table,
                    None if begun.get() => return Ok(Ok(())),
                    None => return Ok(Err(DynamodbError::NotThere(name()))),
                };
                if table.deletion_protection_enabled == Some(true) {
                    return Ok(Err(DynamodbError::Protected(name())));
                }
                if table.table_status != Some(TableStatus::Deleting) {
                    let delete = connection.client.delete_table().table_name(name());
                    let was_begun = begun.replace(true);
                    match connection.ask(delete.send()).await {
                        Ok(_) => {}
                        // It is still being made or changed.
                        Err(asked) if code(&asked) == Some("ResourceInUseException") => {
                            begun.set(was_begun);
                        }
                        Err(asked) if code(&asked) == Some("ResourceNotFoundException") => {}
                        Err(asked) => return Err(asked.into()),
                    }
                }
                tokio::time::sleep(GLANCE).await;
            }
        })?
    }

    /// Does `work`, again if DynamoDB does not answer or takes no more.
    fn ask<T>(
        &self,
        work: impl AsyncFn(&Connection) -> Result<T, Trouble>,
    ) -> Result<T, DynamodbError> {
        let asking = async {
            let clock = CorrectedClock::start();
            let connection = Connection::new(&self.table, &self.options, &clock).await;
            let mut backoff = Backoff::default();
            loop {
                match work(&connection).await {
                    Ok(answer) => return Ok(answer),
                    Err(trouble) => backoff.after(trouble).await?,
                }
            }
        };
        let asked: Result<T, StoreError> = self.runtime.block_on(async {
            let late = |_| {
                StoreError::Unavailable(format!(
                    "the DynamoDB table `{}` is not ready within {} s; look again with \
                     `tidegate dynamodb status`",
                    self.table,
                    LONGEST.as_secs()
                ))
            };
            tokio::time::timeout(LONGEST, asking).await.map_err(late)?
        });
        asked.map_err(|error| DynamodbError::Server(error.to_string()))
    }
}

/// Waits until the table can be used and changed.
async fn active(connection: &Connection) -> Result<(), Trouble> {
    let is_active = |status: Option<&TableStatus>| status == Some(&TableStatus::Active);
    schema::awaited(connection, is_active).await.map(drop)
}

/// Makes what is missing of a table that is there.
async fn complete(connection: &Connection, upgrades: bool) -> Result<Vec<Done>, Trouble> {
    // Programs of an older layout cannot go on once it is raised: that comes last.
    schema::acceptable(connection, upgrades).await?;
    let mut done = Vec::new();
    match schema::sweep(connection).await? {
        Sweep::Is => {}
        Sweep::Begins => done.push(Done::Expires),
        Sweep::Refused(why) => {
            return Err(unusable(&format!(
                "the time to live of the DynamoDB table `{}` cannot be switched on: {why}",
                connection.table
            )));
        }
    }
    if schema::agree(connection, upgrades).await? {
        done.push(Done::Layout);
    }
    Ok(done)
}

async fn described(connection: &Connection) -> Result<Option<Status>, Trouble> {
    let Some(table) = schema::describe(connection).await? else {
        return Ok(None);
    };
    let is_usable = schema::is_usable(table.table_status.as_ref());
    let layout = match is_usable {
        true => schema::version(connection).await?,
        false => None,
    };
    let expires = is_usable && schema::sweeps(connection).await?;
    Ok(Some(Status {
        table: connection.table.clone(),
        state: table
            .table_status
            .as_ref()
            .map_or_else(String::new, |status| status.as_str().to_owned()),
        layout,
        expires,
        is_protected: table.deletion_protection_enabled.unwrap_or_default(),
        on_demand: is_on_demand(&table),
        items: count(table.item_count),
        bytes: count(table.table_size_bytes),
    }))
}

fn is_on_demand(table: &TableDescription) -> bool {
    let billed = table.billing_mode_summary.as_ref();
    billed.and_then(|billed| billed.billing_mode.as_ref()) == Some(&BillingMode::PayPerRequest)
}

fn count(told: Option<i64>) -> u64 {
    told.and_then(|told| u64::try_from(told).ok())
        .unwrap_or_default()
}
