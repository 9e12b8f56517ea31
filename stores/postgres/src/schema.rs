//! The schema, made and brought up to date.
//!
//! Version 1 is all files of `sql/`, one for each subject, which say every function once. A
//! version that was released is never changed: what changes later is another at the end of
//! [`VERSIONS`], with a file of its own that is called after it, `sql/002-what.sql` and so
//! on (`ALTER TABLE`, `CREATE OR REPLACE FUNCTION`). Each is applied once, in order, and
//! noted in `tidegate.migrations`, with a digest of its texts: a version that is not released
//! yet changes, and a schema that an earlier state of it made is refused.

use tidegate_net::digest;
use tidegate_store::StoreError;
use tokio_postgres::Transaction;

use crate::connection::Link;
use crate::error::{PostgresError, unavailable};
use crate::options::{Options, Tables};

/// What brings a schema from the version before to this one.
#[derive(Clone, Copy)]
struct Version {
    /// As it is noted in `tidegate.migrations`, followed by the digest of the texts.
    name: &'static str,
    /// What is executed, in order.
    texts: &'static [&'static str],
}

macro_rules! texts {
    ($($file:literal),* $(,)?) => {
        &[$(include_str!(concat!("../sql/", $file, ".sql"))),*]
    };
}

/// In order; the first is number 1. See the [module](self) for how one is added.
const VERSIONS: &[Version] = &[Version {
    name: "schema",
    texts: texts![
        "tables",
        "numbers",
        "bucket",
        "window",
        "ring",
        "log",
        "slots",
        "rule",
        "compose",
        "rows",
        "adopt",
        "usage",
        "leases",
        "verbs",
        "line",
        "plain",
        "batch",
        "definitions",
    ],
}];

impl Version {
    /// Its name and the digest of its texts.
    fn note(&self) -> String {
        format!("{} {}", self.name, digest(self.texts.iter().copied()))
    }
}

/// Under this number one process at a time changes the schema.
const LOCK: i64 = 0x7469_6465_6761_7465;

/// Why it is not brought up to date.
#[derive(Debug)]
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
    let found = found.map_err(|error| unavailable(&error))?;
    let as_noted = is_as_noted(&transaction, found, VERSIONS).await;
    let as_noted = as_noted.map_err(|error| unavailable(&error))?;
    let is_ready = found == VERSIONS.len() as i32
        && as_noted
        && unlike(&transaction, options.tables).await?.is_empty();
    drop(transaction);
    connection.give_back();
    Ok(is_ready)
}

/// Brings the schema to the newest version, or says why it is not.
pub(crate) async fn migrate(link: &Link, options: &Options) -> Result<(), PostgresError> {
    match attempt(link, options, VERSIONS).await {
        Ok(()) => Ok(()),
        Err(Ending::Schema(error)) => Err(error),
        Err(Ending::Failed(error)) => Err(PostgresError::Server(error.to_string())),
    }
}

async fn attempt(link: &Link, options: &Options, versions: &[Version]) -> Result<(), Ending> {
    let mut connection = link.connection().await?;
    let client = connection.client_mut()?;
    let transaction = client.transaction().await?;
    transaction
        .batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        .await?;
    let known = versions.len() as i32;
    let mut found = version(&transaction).await?;
    if found < known && options.migrate {
        let lock = "SELECT pg_advisory_xact_lock($1)";
        transaction.execute(lock, &[&LOCK]).await?;
        found = version(&transaction).await?;
    }
    if !is_as_noted(&transaction, found, versions).await? {
        return Err(Ending::Schema(PostgresError::Unreleased { version: found }));
    }
    if found < known && options.migrate {
        apply(&transaction, found, versions).await?;
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

/// The newest version that was applied; 0 if there is no schema. (The tables
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

/// Whether the version that was `found`, if this program knows it, had the texts that it has here.
async fn is_as_noted(
    transaction: &Transaction<'_>,
    found: i32,
    versions: &[Version],
) -> Result<bool, tokio_postgres::Error> {
    let place = usize::try_from(found - 1).ok();
    let Some(known) = place.and_then(|place| versions.get(place)) else {
        return Ok(true);
    };
    let noted = "SELECT name FROM tidegate.migrations WHERE version = $1";
    let noted: String = transaction.query_one(noted, &[&found]).await?.get(0);
    Ok(noted == known.note())
}

async fn apply(
    transaction: &Transaction<'_>,
    found: i32,
    versions: &[Version],
) -> Result<(), tokio_postgres::Error> {
    let table = "CREATE SCHEMA IF NOT EXISTS tidegate;
        CREATE TABLE IF NOT EXISTS tidegate.migrations (
            version integer PRIMARY KEY,
            name text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT now()
        )";
    transaction.batch_execute(table).await?;
    for (number, version) in (1_i32..).zip(versions) {
        if number > found {
            for text in version.texts {
                transaction.batch_execute(text).await?;
            }
            let note = "INSERT INTO tidegate.migrations (version, name) VALUES ($1, $2)";
            transaction
                .execute(note, &[&number, &version.note()])
                .await?;
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
        AND relname IN ('rows', 'leases', 'usage') AND relpersistence::text <> $1";
    let others = transaction.query(others, &[&letter]).await;
    let others = others.map_err(|error| unavailable(&error))?;
    Ok(others.iter().map(|table| table.get(0)).collect())
}

/// Makes rows, leases and usage logged or unlogged, if they are not what is asked for.
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

#[cfg(test)]
mod tests {
    use tidegate_conformance::postgres_server::PostgresServer;
    use tokio::runtime::Runtime;

    use super::*;

    /// As a later program has it.
    const LATER: &[Version] = &[
        VERSIONS[0],
        Version {
            name: "notes",
            texts: &["ALTER TABLE tidegate.sets ADD note text NOT NULL DEFAULT 'none'"],
        },
    ];

    async fn said(link: &Link, statement: &str) -> Vec<String> {
        let rows = link.query(statement, &[]).await.expect("an answer");
        rows.iter().map(|row| row.get(0)).collect()
    }

    #[test]
    fn a_later_version_is_applied_once_and_keeps_what_is_there() {
        let Some(server) = PostgresServer::start() else {
            return;
        };
        let options = Options::default();
        let content = Options {
            migrate: false,
            ..options.clone()
        };
        let link = Link::new(&server.url(), &options).expect("an address");
        Runtime::new().expect("a runtime").block_on(async {
            attempt(&link, &options, VERSIONS).await.expect("it is new");
            let set = "INSERT INTO tidegate.sets (name) VALUES ('t') RETURNING name";
            assert_eq!(said(&link, set).await, ["t"]);
            let may_not = attempt(&link, &content, LATER).await;
            let older = PostgresError::Older { found: 1, known: 2 };
            assert!(matches!(may_not, Err(Ending::Schema(error)) if error == older));
            for _ in 0..2 {
                attempt(&link, &options, LATER).await.expect("its owner");
            }
            let noted = "SELECT name FROM tidegate.migrations ORDER BY version";
            assert_eq!(
                said(&link, noted).await,
                LATER.iter().map(Version::note).collect::<Vec<_>>()
            );
            let kept = "SELECT name || ' ' || note FROM tidegate.sets";
            assert_eq!(said(&link, kept).await, ["t none"]);
            let refused = attempt(&link, &options, VERSIONS).await;
            let newer = PostgresError::Newer { found: 2, known: 1 };
            assert!(matches!(refused, Err(Ending::Schema(error)) if error == newer));
        });
    }

    /// Its functions were those of before, and one that was new was not found when it was called.
    #[test]
    fn a_schema_that_an_unreleased_build_has_made_is_refused() {
        const EARLIER: &[Version] = &[Version {
            name: "schema",
            texts: &["CREATE TABLE tidegate.rows (name bytea)"],
        }];
        let Some(server) = PostgresServer::start() else {
            return;
        };
        let options = Options::default();
        let link = Link::new(&server.url(), &options).expect("an address");
        Runtime::new().expect("a runtime").block_on(async {
            attempt(&link, &options, EARLIER).await.expect("it is new");
            assert_eq!(is_ready(&link, &options).await, Ok(false));
            let refused = attempt(&link, &options, VERSIONS).await;
            let unreleased = PostgresError::Unreleased { version: 1 };
            assert!(matches!(refused, Err(Ending::Schema(error)) if error == unreleased));
        });
    }
}
