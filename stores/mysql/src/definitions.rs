//! What is defined for an owner: rows of their own, never dropped with any state; its
//! version, and the keys that were changed last.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tidegate_net::following::{Following, Hearing, Source};
use tidegate_store::{Definition, Definitions, StoreError};
use tokio::sync::Notify;

use crate::backoff::Backoff;
use crate::error::Trouble;
use crate::names;
use crate::shared::Shared;
use crate::sql::{AT_START, NOW, marks};

/// Of so many keys it is remembered when they were changed last.
const MOST_CHANGES: usize = tidegate_store::definitions::MOST_CHANGES;

/// The definitions of a store. See the [module](self).
#[derive(Debug)]
pub(crate) struct Defined {
    shared: Arc<Shared>,
    following: Following,
}

/// A key, its value and what is left to it.
type Row = (Vec<u8>, Option<Vec<u8>>, Option<i64>);

impl Defined {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            following: Following::default(),
        }
    }

    async fn write_once(&self, owner: &str, definition: &Definition) -> Result<bool, Trouble> {
        let mut lent = self.shared.pool.lend().await?;
        let written = write(&mut lent.conn, &self.shared.prefix, owner, definition).await;
        match &written {
            Ok(_) => lent.put_back(),
            Err(trouble) => {
                self.shared.pool.forget_if_gone(trouble);
                lent.roll_back().await;
            }
        }
        written
    }

    async fn read_rows(&self, owner: &str, newer_than: u64) -> Result<Definitions, Trouble> {
        let (p, owner) = (&self.shared.prefix, names::name(owner.as_bytes()));
        let sql = format!("SELECT version, floor FROM {p}_definition_versions WHERE owner = ?");
        let found: Vec<(u64, u64)> = self.shared.query(&sql, (&owner,)).await?;
        let (version, floor) = found.first().copied().unwrap_or_default();
        let whole = newer_than == 0 || newer_than < floor || newer_than > version;
        let rows: Vec<Row> = match whole {
            true => {
                let all = format!(
                    "SELECT COALESCE(whole, name), body, CAST(ends_at - {AT_START} AS SIGNED) \
                     FROM {p}_definitions WHERE owner = ?"
                );
                self.shared.query(&all, (&owner,)).await?
            }
            false => {
                let some = format!(
                    "SELECT COALESCE(c.whole, c.name), d.body, \
                     CAST(d.ends_at - {AT_START} AS SIGNED) \
                     FROM {p}_definition_changes c LEFT JOIN {p}_definitions d \
                     ON d.owner = c.owner AND d.name = c.name \
                     WHERE c.owner = ? AND c.version > ?"
                );
                self.shared.query(&some, (&owner, newer_than)).await?
            }
        };
        let changed = rows.into_iter().map(definition);
        Ok(Definitions {
            newer_than,
            version,
            whole,
            changed: changed
                .filter(|one| !whole || one.value.is_some())
                .collect(),
        })
    }
}

impl Source for Defined {
    /// How often those who follow look whether there is news: within five seconds they know,
    /// if the server answers in half that.
    const LOOK: Duration = Duration::from_secs(2);

    /// Tries again what was lost to others, and what was cut off: it may be done twice.
    async fn write(&self, owner: &str, definition: &Definition) -> Result<bool, StoreError> {
        let mut backoff = Backoff::default();
        loop {
            match self.write_once(owner, definition).await {
                Ok(is_changed) => return Ok(is_changed),
                Err(trouble) => backoff.after(trouble).await?,
            }
        }
    }

    async fn versions(&self, owners: &[String]) -> Result<Vec<u64>, StoreError> {
        let sql = format!(
            "SELECT owner, version FROM {}_definition_versions WHERE owner IN ({})",
            self.shared.prefix,
            marks(owners.len())
        );
        let names: Vec<_> = owners
            .iter()
            .map(|one| names::name(one.as_bytes()))
            .collect();
        let found: Vec<(Vec<u8>, u64)> = self
            .shared
            .query(&sql, names.clone())
            .await
            .map_err(Trouble::told)?;
        let version = |name: &Vec<u8>| {
            let found = found.iter().find(|(owner, _)| owner == name);
            found.map_or(0, |(_, version)| *version)
        };
        Ok(names.iter().map(version).collect())
    }

    async fn changes(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let read = self.read_rows(owner, newer_than).await;
        read.map_err(Trouble::told)
    }

    fn deadline(&self) -> Duration {
        self.shared.driver.deadline()
    }

    /// The server tells nothing.
    fn hear(&self, _: Arc<Notify>) -> Option<Hearing> {
        None
    }

    fn following(&self) -> &Following {
        &self.following
    }
}

/// One change and its version, as one transaction. (Whoever has the owner's row goes
/// first: versions are committed in their order.)
///
/// A version is the server's clock in microseconds, and one more where that stands: it
/// grows also after a failover that has lost the last ones.
async fn write(
    conn: &mut Conn,
    p: &str,
    owner: &str,
    definition: &Definition,
) -> Result<bool, Trouble> {
    let (owner, name) = (names::name(owner.as_bytes()), names::name(&definition.key));
    let whole = names::whole(&definition.key);
    conn.query_drop("START TRANSACTION").await?;
    // What was there before the first has no version: so the floor is not 0.
    let raise = format!(
        "INSERT INTO {p}_definition_versions (owner, version, floor) VALUES (?, {NOW}, 1) \
         ON DUPLICATE KEY UPDATE version = GREATEST(version + 1, VALUES(version))"
    );
    conn.exec_drop(raise, (&owner,)).await?;
    let is_changed = match &definition.value {
        Some(value) => {
            put(conn, p, (&owner, &name, &whole), (value, definition.lasts)).await?;
            true
        }
        None => {
            let delete = format!("DELETE FROM {p}_definitions WHERE owner = ? AND name = ?");
            conn.exec_drop(delete, (&owner, &name)).await?;
            conn.affected_rows() > 0
        }
    };
    if !is_changed {
        conn.query_drop("ROLLBACK").await?;
        return Ok(false);
    }
    let note = format!(
        "REPLACE INTO {p}_definition_changes (owner, name, whole, version) \
         SELECT owner, ?, ?, version FROM {p}_definition_versions WHERE owner = ?"
    );
    conn.exec_drop(note, (&name, &whole, &owner)).await?;
    forget(conn, p, &owner).await?;
    conn.query_drop("COMMIT").await?;
    Ok(true)
}

async fn put(
    conn: &mut Conn,
    p: &str,
    (owner, name, whole): (&Vec<u8>, &Vec<u8>, &Option<Vec<u8>>),
    (value, lasts): (&Vec<u8>, Option<Duration>),
) -> Result<(), Trouble> {
    let lasts = lasts.map(|lasts| i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX >> 8));
    let put = format!(
        "REPLACE INTO {p}_definitions (owner, name, whole, body, ends_at) \
         VALUES (?, ?, ?, ?, {NOW} + ?)"
    );
    conn.exec_drop(put, (owner, name, whole, value, lasts))
        .await?;
    if lasts.is_some() {
        // Those that are over are over everywhere: nobody needs to be told.
        let sweep = format!("DELETE FROM {p}_definitions WHERE owner = ? AND ends_at <= {NOW}");
        conn.exec_drop(sweep, (owner,)).await?;
    }
    Ok(())
}

/// Forgets which keys were changed long ago.
async fn forget(conn: &mut Conn, p: &str, owner: &Vec<u8>) -> Result<(), Trouble> {
    let last = format!(
        "SELECT version FROM {p}_definition_changes WHERE owner = ? \
         ORDER BY version DESC LIMIT 1 OFFSET {MOST_CHANGES}"
    );
    let Some(floor) = conn.exec_first::<u64, _, _>(last, (owner,)).await? else {
        return Ok(());
    };
    let delete = format!("DELETE FROM {p}_definition_changes WHERE owner = ? AND version <= ?");
    conn.exec_drop(delete, (owner, floor)).await?;
    let note = format!("UPDATE {p}_definition_versions SET floor = ? WHERE owner = ?");
    conn.exec_drop(note, (floor, owner)).await?;
    Ok(())
}

/// One that is over is gone.
fn definition((key, value, left): Row) -> Definition {
    let lasts = left.map(|left| Duration::from_micros(u64::try_from(left).unwrap_or(0)));
    Definition {
        key,
        value: value.filter(|_| lasts != Some(Duration::ZERO)),
        lasts,
    }
}
