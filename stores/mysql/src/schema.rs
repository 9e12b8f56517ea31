//! The SQL tables, and how one version of them becomes the next.
//!
//! Who opens a store whose tables are there needs no leave to make any: the
//! version is read first. Steps are applied one at a time under a lock of the
//! server's, each followed by its number, so that a step that was cut off is done
//! again; therefore each can be. With the number goes a digest of the steps: one that is not
//! released yet changes, and tables that an earlier state of it made are refused.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use tidegate_net::digest;

use crate::error::Trouble;

/// What each step does; `{p}` is the prefix, `{random}` a number below 2^30. The number of a
/// step is its place, from 1 on: one that was released is never changed or taken out, and a
/// later change of the tables is another at the end.
const STEPS: &[&[&str]] = &[&[
    "CREATE TABLE IF NOT EXISTS {p}_tables (
        id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
        name VARBINARY(512) NOT NULL UNIQUE,
        newest INT UNSIGNED NOT NULL DEFAULT 0
    ) ENGINE=InnoDB",
    // A process that opened a set before the tables were dropped and made anew is not to
    // find another set under its number.
    "ALTER TABLE {p}_tables AUTO_INCREMENT = {random}",
    "CREATE TABLE IF NOT EXISTS {p}_plans (
        table_id INT UNSIGNED NOT NULL,
        revision INT UNSIGNED NOT NULL,
        body MEDIUMBLOB NOT NULL,
        PRIMARY KEY (table_id, revision)
    ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS {p}_rows (
        table_id INT UNSIGNED NOT NULL,
        name VARBINARY(201) NOT NULL,
        whole VARBINARY(4096) NULL,
        forget_at BIGINT NOT NULL,
        keep_until BIGINT NOT NULL,
        leases BOOL NOT NULL,
        body MEDIUMBLOB NOT NULL,
        PRIMARY KEY (table_id, name),
        KEY keep_until (keep_until)
    ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS {p}_leases (
        table_id INT UNSIGNED NOT NULL,
        root VARBINARY(201) NOT NULL,
        id BINARY(16) NOT NULL,
        owner VARBINARY(4096) NOT NULL,
        due BIGINT NOT NULL,
        turn BIGINT UNSIGNED NOT NULL,
        ask BINARY(32) NULL,
        body MEDIUMBLOB NOT NULL,
        PRIMARY KEY (table_id, root, id),
        KEY due (table_id, root, due, turn),
        KEY ask (table_id, root, ask),
        KEY due_anywhere (table_id, due)
    ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS {p}_usage (
        table_id INT UNSIGNED NOT NULL,
        name VARBINARY(201) NOT NULL,
        hour INT UNSIGNED NOT NULL,
        limit_name VARBINARY(201) NOT NULL,
        whole VARBINARY(4096) NULL,
        whole_limit MEDIUMBLOB NULL,
        amount BIGINT NOT NULL,
        over_at BIGINT NOT NULL,
        PRIMARY KEY (table_id, name, hour, limit_name),
        KEY over_at (over_at)
    ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS {p}_turns (
        table_id INT UNSIGNED NOT NULL,
        name VARBINARY(201) NOT NULL,
        came BIGINT NOT NULL,
        turn BINARY(16) NOT NULL,
        until BIGINT NOT NULL,
        PRIMARY KEY (table_id, name, came, turn),
        KEY turn (table_id, turn),
        KEY until (until)
    ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS {p}_definitions (
        owner VARBINARY(201) NOT NULL,
        name VARBINARY(201) NOT NULL,
        whole VARBINARY(4096) NULL,
        body MEDIUMBLOB NOT NULL,
        version BIGINT NOT NULL,
        ends_at BIGINT NULL,
        PRIMARY KEY (owner, name),
        KEY ends (owner, ends_at)
    ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS {p}_definition_versions (
        owner VARBINARY(201) NOT NULL PRIMARY KEY,
        version BIGINT NOT NULL,
        events BIGINT NOT NULL
    ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS {p}_definition_changes (
        owner VARBINARY(201) NOT NULL,
        name VARBINARY(201) NOT NULL,
        whole VARBINARY(4096) NULL,
        version BIGINT NOT NULL,
        PRIMARY KEY (owner, version)
    ) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS {p}_definition_events (
        owner VARBINARY(201) NOT NULL,
        version BIGINT NOT NULL,
        subject VARBINARY(201) NOT NULL,
        whole VARBINARY(4096) NULL,
        body MEDIUMBLOB NOT NULL,
        at BIGINT NOT NULL,
        ends_at BIGINT NOT NULL,
        most BIGINT NOT NULL,
        PRIMARY KEY (owner, version),
        KEY subject (owner, subject, version),
        KEY ends (owner, ends_at)
    ) ENGINE=InnoDB",
]];

/// How long it waits for another that is at it.
const PATIENCE_SECONDS: u32 = 60;

/// That the server is a MariaDB: what its statements lock, and when, is known and tried
/// there alone.
pub(crate) async fn check_server(conn: &mut Conn) -> Result<(), Trouble> {
    let version: Option<String> = conn.query_first("SELECT VERSION()").await?;
    let version = version.unwrap_or_default();
    match version.to_ascii_lowercase().contains("mariadb") {
        true => Ok(()),
        false => Err(Trouble::Failed(tidegate_store::StoreError::Unavailable(
            format!(
                "expected a MariaDB server, found one of version `{version}`, as MySQL has; \
                 use MariaDB, PostgreSQL (postgres://HOST/DATABASE) or Redis (redis://HOST)"
            ),
        ))),
    }
}

/// Whether the tables are what this version needs.
pub(crate) async fn is_provided(conn: &mut Conn, prefix: &str) -> Result<bool, Trouble> {
    Ok(version(conn, prefix).await? == Some(STEPS.len() as u32))
}

/// Makes the tables what this version needs.
pub(crate) async fn provide(conn: &mut Conn, prefix: &str) -> Result<(), Trouble> {
    let lock = format!("{prefix} schema");
    let locked: Option<Option<u8>> = conn
        .exec_first("SELECT GET_LOCK(?, ?)", (&lock, PATIENCE_SECONDS))
        .await?;
    if locked.flatten() != Some(1) {
        return Err(Trouble::Lost("another makes the tables".to_owned()));
    }
    let migrated = migrate(conn, prefix).await;
    conn.exec_drop("DO RELEASE_LOCK(?)", (&lock,)).await?;
    migrated
}

async fn migrate(conn: &mut Conn, prefix: &str) -> Result<(), Trouble> {
    let make = format!(
        "CREATE TABLE IF NOT EXISTS {prefix}_schema (
            one TINYINT UNSIGNED NOT NULL PRIMARY KEY,
            version INT UNSIGNED NOT NULL,
            steps CHAR(16) NOT NULL
        ) ENGINE=InnoDB"
    );
    conn.query_drop(make).await?;
    let found = version(conn, prefix).await?.unwrap_or(0);
    for (done, step) in STEPS.iter().enumerate().skip(found as usize) {
        for statement in *step {
            let random = rand::random_range(1_u32..1 << 30).to_string();
            let statement = statement.replace("{random}", &random);
            conn.query_drop(statement.replace("{p}", prefix)).await?;
        }
        let note = format!("REPLACE INTO {prefix}_schema (one, version, steps) VALUES (1, ?, ?)");
        let made = done + 1;
        conn.exec_drop(note, (made as u32, made_by(made))).await?;
    }
    Ok(())
}

/// The version that is there, if this program can go on from it; none if there are no tables.
async fn version(conn: &mut Conn, prefix: &str) -> Result<Option<u32>, Trouble> {
    /// There is no such table.
    const NO_TABLE: u16 = 1146;
    let sql = format!("SELECT * FROM {prefix}_schema WHERE one = 1");
    let row: Option<Row> = match conn.query_first(sql).await {
        Ok(row) => row,
        Err(mysql_async::Error::Server(error)) if error.code == NO_TABLE => None,
        Err(error) => return Err(error.into()),
    };
    let Some(row) = row else { return Ok(None) };
    let found: u32 = row.get("version").unwrap_or(0);
    if found as usize > STEPS.len() {
        return Err(newer(found));
    }
    // The first builds noted no digest.
    let steps: Option<String> = row.get("steps");
    match steps.as_deref() == Some(&made_by(found as usize)) {
        true => Ok(Some(found)),
        false => Err(unreleased(found)),
    }
}

/// The digest of so many of the first steps.
fn made_by(steps: usize) -> String {
    digest(
        STEPS
            .iter()
            .take(steps)
            .flat_map(|step| step.iter().copied()),
    )
}

fn unreleased(found: u32) -> Trouble {
    Trouble::Failed(tidegate_store::StoreError::Unavailable(format!(
        "the tables of version {found} were made by another build, before that version was released; \
         stop all servers, drop the tables (limits begin anew; overrides, entities and applied \
         policies are gone) and start again, or give this one another prefix"
    )))
}

fn newer(found: u32) -> Trouble {
    Trouble::Failed(tidegate_store::StoreError::Unavailable(format!(
        "the tables are of version {found}, made by a newer Tidegate; upgrade this one, \
         or give it another prefix"
    )))
}
