//! The schema, made and brought up to date by numbered files.

use tidegate_store::StoreError;
use tokio_postgres::Transaction;

use crate::error::{PostgresError, unavailable};
use crate::link::Link;
use crate::options::{Options, Tables};

macro_rules! migrations {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../migrations/", $name, ".sql")))),*]
    };
}

/// Each file with its name, in order; the first is number 1. A file that was
/// released is never changed: what changes later is a file of its own.
const MIGRATIONS: &[(&str, &str)] = migrations![
    "001-tables",
    "002-numbers",
    "003-bucket",
    "004-window",
    "005-ring",
    "006-log",
    "007-slots",
    "008-rule",
    "009-compose",
    "010-rows",
    "011-retained",
    "012-adopt",
    "013-leases",
    "014-verbs",
    "015-adjust",
    "016-decide",
    "017-register",
    "018-prune",
    "019-line",
    "020-take-plain",
    "021-plain-sets",
    "022-definitions",
];

/// Under this number one process at a time changes the schema.
const LOCK: i64 = 0x7469_6465_6761_7465;

/// Why a migration ended.
enum Ending {
    Schema(PostgresError),
    Failed(StoreError),
}

impl From<StoreError> for Ending {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<tokio_postgres::Error> for Ending {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failed(unavailable(&error))
    }
}

/// Whether there is nothing to be made or changed.
pub(crate) async fn is_ready(link: &Link, options: &Options) -> Result<bool, StoreError> {
    let mut connection = link.connection().await?;
    let transaction = connection.client_mut()?.transaction().await;
    let transaction = transaction.map_err(|error| unavailable(&error))?;
    let found = version(&transaction).await;
    let is_newest = found.map_err(|error| unavailable(&error))? == MIGRATIONS.len() as i32;
    let is_ready = is_newest && unlike(&transaction, options.tables).await?.is_empty();
    drop(transaction);
    connection.give_back();
    Ok(is_ready)
}

/// Brings the schema to the newest version, or says why it is not.
pub(crate) async fn migrate(link: &Link, options: &Options) -> Result<(), PostgresError> {
    match attempt(link, options).await {
        Ok(()) => Ok(()),
        Err(Ending::Schema(error)) => Err(error),
        Err(Ending::Failed(error)) => Err(PostgresError::Server(error.to_string())),
    }
}

async fn attempt(link: &Link, options: &Options) -> Result<(), Ending> {
    let mut connection = link.connection().await?;
    let client = connection.client_mut()?;
    let transaction = client.transaction().await?;
    transaction
        .batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        .await?;
    let known = MIGRATIONS.len() as i32;
    let mut found = version(&transaction).await?;
    if found < known && options.migrate {
        let lock = "SELECT pg_advisory_xact_lock($1)";
        transaction.execute(lock, &[&LOCK]).await?;
        found = version(&transaction).await?;
        apply(&transaction, found).await?;
        found = found.max(known);
    }
    if found > known {
        return Err(Ending::Schema(PostgresError::Newer { found, known }));
    }
    if found < known {
        return Err(Ending::Schema(PostgresError::Older { found, known }));
    }
    keep_as(&transaction, options.tables).await?;
    transaction.commit().await?;
    connection.give_back();
    Ok(())
}

/// The newest migration that was applied; 0 if there is no schema. (The tables
/// are looked up as rows: `to_regclass` may remember that they were not there.)
async fn version(transaction: &Transaction<'_>) -> Result<i32, tokio_postgres::Error> {
    let there =
        "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'tidegate' AND c.relname = 'migrations')";
    let there: bool = transaction.query_one(there, &[]).await?.get(0);
    if !there {
        return Ok(0);
    }
    let newest = "SELECT coalesce(max(version), 0) FROM tidegate.migrations";
    Ok(transaction.query_one(newest, &[]).await?.get(0))
}

async fn apply(transaction: &Transaction<'_>, found: i32) -> Result<(), tokio_postgres::Error> {
    let table = "CREATE SCHEMA IF NOT EXISTS tidegate;
        CREATE TABLE IF NOT EXISTS tidegate.migrations (
            version integer PRIMARY KEY,
            name text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT now()
        )";
    transaction.batch_execute(table).await?;
    for (number, (name, text)) in (1..).zip(MIGRATIONS) {
        if number > found {
            transaction.batch_execute(text).await?;
            let note = "INSERT INTO tidegate.migrations (version, name) VALUES ($1, $2)";
            transaction.execute(note, &[&number, name]).await?;
        }
    }
    Ok(())
}

/// What tables are called that are kept so, in SQL and in the catalogue.
const fn kept_as(tables: Tables) -> Option<(&'static str, &'static str)> {
    match tables {
        Tables::AsTheyAre => None,
        Tables::Logged => Some(("LOGGED", "p")),
        Tables::Unlogged => Some(("UNLOGGED", "u")),
    }
}

/// The tables that are not kept as is asked for.
async fn unlike(transaction: &Transaction<'_>, tables: Tables) -> Result<Vec<String>, StoreError> {
    let Some((_, letter)) = kept_as(tables) else {
        return Ok(Vec::new());
    };
    let others = "SELECT relname::text FROM pg_class WHERE relnamespace = 'tidegate'::regnamespace
        AND relname IN ('rows', 'leases') AND relpersistence::text <> $1";
    let others = transaction.query(others, &[&letter]).await;
    let others = others.map_err(|error| unavailable(&error))?;
    Ok(others.iter().map(|table| table.get(0)).collect())
}

/// Makes rows and leases logged or unlogged, if they are not what is asked for.
async fn keep_as(transaction: &Transaction<'_>, tables: Tables) -> Result<(), StoreError> {
    let Some((word, _)) = kept_as(tables) else {
        return Ok(());
    };
    for table in unlike(transaction, tables).await? {
        let change = format!("ALTER TABLE tidegate.{table} SET {word}");
        let changed = transaction.batch_execute(&change).await;
        changed.map_err(|error| unavailable(&error))?;
    }
    Ok(())
}
