//! What is defined for an owner: never dropped with any state. Versions are the
//! database's own doing (`sql/definitions.sql`).

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tidegate_net::following::{Following, Hearing, Source};
use tidegate_store::{Definition, Definitions, StoreError};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Row};

use crate::connection::Link;

/// The definitions of a store. See the [module](self).
#[derive(Debug)]
pub(crate) struct Defined {
    link: Arc<Link>,
    deadline: Duration,
    following: Following,
}

impl Defined {
    pub(crate) fn new(link: &Arc<Link>, deadline: Duration) -> Self {
        Self {
            link: Arc::clone(link),
            deadline,
            following: Following::default(),
        }
    }
}

impl Source for Defined {
    /// How often those who follow look whether there is news, if they are not told: within a
    /// second they know.
    const LOOK: Duration = Duration::from_millis(500);

    async fn write(&self, owner: &str, definition: &Definition) -> Result<bool, StoreError> {
        let keep = "INSERT INTO tidegate.definitions (owner, key, long_key, value, ends_at)
            VALUES ($1, tidegate.short($2), CASE WHEN length($2) > 255 THEN $2 END, $3,
                tidegate.clock() + $4)
            ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value,
                ends_at = excluded.ends_at
            RETURNING true";
        let remove =
            "DELETE FROM tidegate.definitions WHERE owner = $1 AND key = tidegate.short($2)
            RETURNING true";
        // Those that others have locked are left to them.
        let sweep = "DELETE FROM tidegate.definitions d USING (
                SELECT owner, key FROM tidegate.definitions
                WHERE owner = $1 AND ends_at <= tidegate.clock() FOR UPDATE SKIP LOCKED) AS over
            WHERE d.owner = over.owner AND d.key = over.key";
        let Definition { key, value, lasts } = definition;
        let lasts = lasts.map(|lasts| i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX >> 8));
        let changed = match value {
            Some(value) => {
                self.link
                    .query(keep, &[&owner, &key, &value, &lasts])
                    .await?
            }
            None => self.link.query(remove, &[&owner, &key]).await?,
        };
        if lasts.is_some() {
            self.link.query(sweep, &[&owner]).await?;
        }
        Ok(!changed.is_empty())
    }

    async fn versions(&self, owners: &[String]) -> Result<Vec<u64>, StoreError> {
        let sql = "SELECT coalesce(v.version, 0) FROM unnest($1::text[]) WITH ORDINALITY AS o
            (owner, place) LEFT JOIN tidegate.definition_versions v ON v.owner = o.owner
            ORDER BY o.place";
        let rows = self.link.query(sql, &[&owners]).await?;
        Ok(rows.iter().map(|row| number(row, 0)).collect())
    }

    async fn changes(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let marks = "SELECT version, floor FROM tidegate.definition_versions WHERE owner = $1";
        let all = "SELECT coalesce(long_key, key), value, ends_at - tidegate.clock()
            FROM tidegate.definitions WHERE owner = $1";
        let some = "SELECT coalesce(c.long_key, c.key), d.value, d.ends_at - tidegate.clock()
            FROM tidegate.definition_changes c
            LEFT JOIN tidegate.definitions d ON d.owner = c.owner AND d.key = c.key
            WHERE c.owner = $1 AND c.version > $2";
        let marks = self.link.query(marks, &[&owner]).await?;
        let marks = marks.first().map(|row| (number(row, 0), number(row, 1)));
        let (version, floor) = marks.unwrap_or_default();
        let whole = newer_than == 0 || newer_than < floor || newer_than > version;
        let rows = match whole {
            true => self.link.query(all, &[&owner]).await?,
            false => {
                self.link
                    .query(some, &[&owner, &(newer_than.cast_signed())])
                    .await?
            }
        };
        let changed = rows.iter().map(definition);
        Ok(Definitions {
            newer_than,
            version,
            whole,
            changed: changed
                .filter(|one| !whole || one.value.is_some())
                .collect(),
        })
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn hear(&self, bell: Arc<Notify>) -> Option<Hearing> {
        Some(Box::pin(hear(Arc::clone(&self.link), self.deadline, bell)))
    }

    fn following(&self) -> &Following {
        &self.following
    }
}

/// Rings for every notification, until the connection is lost.
async fn hear(link: Arc<Link>, deadline: Duration, bell: Arc<Notify>) {
    let Ok(Ok((client, mut connection))) = timeout(deadline, link.connect()).await else {
        return;
    };
    let rings = async {
        while let Some(Ok(said)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = said {
                bell.notify_one();
            }
        }
    };
    let listens = async {
        let listening = client.batch_execute("LISTEN tidegate_defined");
        if let Ok(Ok(())) = timeout(deadline, listening).await {
            // What was published before was not received.
            bell.notify_one();
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = rings => {}
        () = listens => {}
    }
}

/// A row's key, value and what is left to it, if it does not last for good; one that is
/// over is gone.
fn definition(row: &Row) -> Definition {
    let left: Option<i64> = row.get(2);
    let lasts = left.map(|left| Duration::from_micros(u64::try_from(left).unwrap_or(0)));
    let value: Option<Vec<u8>> = row.get(1);
    Definition {
        key: row.get(0),
        value: value.filter(|_| lasts != Some(Duration::ZERO)),
        lasts,
    }
}

fn number(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}
