//! What is defined for an owner: never dropped with any state. Versions are the
//! database's own doing (`sql/definitions.sql`).

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tidegate_net::following::{Following, Hearing, Source};
use tidegate_net::key_order::{self, NamedKeys, Scan};
use tidegate_store::core::Timestamp;
use tidegate_store::definitions::{MOST_ANCESTORS, event_cursor};
use tidegate_store::{Change, Defined, Definition, Definitions, Event, Page, StoreError};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Row};

use crate::connection::{Argument, Link};

/// The definitions of a store. See the [module](self).
#[derive(Debug)]
pub(crate) struct DefinedRows {
    link: Arc<Link>,
    deadline: Duration,
    following: Following,
}

impl DefinedRows {
    /// What is under each of these keys, by one statement.
    pub(crate) async fn definitions_at(
        &self,
        owner: &str,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Definition>>, StoreError> {
        let sql = "SELECT coalesce(long_key, key), value, ends_at - tidegate.clock(), version
            FROM tidegate.definitions
            WHERE owner = $1 AND key IN (SELECT tidegate.short(k) FROM unnest($2::bytea[]) k)";
        let rows = self.link.query(sql, &[&owner, &keys]).await?;
        let found = rows.iter().map(definition);
        let found: Vec<_> = found.filter(|found| found.value.is_some()).collect();
        let under = |key: &Vec<u8>| found.iter().find(|found| found.key == *key).cloned();
        Ok(keys.iter().map(under).collect())
    }

    /// What is under a key, and its ancestors, in one trip.
    pub(crate) async fn with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> Result<Vec<Definition>, StoreError> {
        // What is no whole key is found out afterwards.
        let parent = "CASE WHEN length(value) >= $3 + 5 AND get_byte(value, $3) = 1
            THEN tidegate.short(substring(value FROM $3 + 6
                FOR get_byte(value, $3 + 1) + 256 * get_byte(value, $3 + 2))) END";
        let sql = format!(
            "WITH RECURSIVE found (whole, value, ends_at, version, above) AS (
                SELECT coalesce(long_key, key), value, ends_at, version, 0
                FROM tidegate.definitions WHERE owner = $1 AND key = tidegate.short($2)
                UNION ALL
                SELECT coalesce(d.long_key, d.key), d.value, d.ends_at, d.version, above + 1
                FROM (SELECT {parent} AS parent, above, ends_at FROM found) below
                JOIN tidegate.definitions d ON d.owner = $1 AND d.key = below.parent
                WHERE above < $4 AND (below.ends_at IS NULL OR below.ends_at > tidegate.clock())
            )
            SELECT whole, value, ends_at - tidegate.clock(), version FROM found ORDER BY above"
        );
        let (offset, most) = (i32::from(parent_offset), MOST_ANCESTORS as i32);
        let arguments: [Argument<'_>; 4] = [&owner, &key, &offset, &most];
        let rows = self.link.query(&sql, &arguments).await?;
        let found = rows.iter().map(definition);
        Ok(Definition::chain(key, parent_offset, found))
    }

    pub(crate) fn new(link: &Arc<Link>, deadline: Duration) -> Self {
        Self {
            link: Arc::clone(link),
            deadline,
            following: Following::default(),
        }
    }

    /// What has changed: of each key its version and `changed`, its value and what is left to it.
    /// Nothing yet where all that is kept is to be read.
    ///
    /// One statement: as of one instant the version is noted, and what is newer is all there.
    async fn since(
        &self,
        owner: &str,
        newer_than: u64,
        changed: &str,
    ) -> Result<Definitions, StoreError> {
        let sql = format!(
            "SELECT coalesce(c.long_key, c.key), {changed}, c.version,
                v.version, n.version IS NOT NULL, c.key IS NOT NULL
            FROM tidegate.definition_versions v
            LEFT JOIN tidegate.definition_changes n ON n.owner = v.owner AND n.version = $2
            LEFT JOIN LATERAL (
                SELECT DISTINCT ON (key) key, long_key, version FROM tidegate.definition_changes
                WHERE owner = v.owner AND version > n.version
                ORDER BY key, version DESC) c ON true
            LEFT JOIN tidegate.definitions d ON d.owner = v.owner AND d.key = c.key
            WHERE v.owner = $1"
        );
        let known = newer_than.cast_signed();
        let rows = self.link.query(&sql, &[&owner, &known]).await?;
        let found = rows.first().map(|row| (number(row, 4), row.get(5)));
        let (version, is_noted) = found.unwrap_or_default();
        let mut since = Definitions::since(newer_than, version, is_noted);
        let changed = rows.iter().filter(|row| !since.whole && row.get(6));
        since.changed = changed.map(definition).collect();
        Ok(since)
    }
}

/// Longer than any name.
const LONGER_THAN_ANY: usize = 257;

impl NamedKeys for DefinedRows {
    /// As `tidegate.short` has it.
    const HEAD: usize = 224;

    async fn scan(&self, owner: &str, scan: Scan) -> Result<Vec<Definition>, StoreError> {
        let Scan {
            from,
            to,
            above: (above, is_on_it),
            below,
            by_key,
            most,
        } = scan;
        let behind = if is_on_it { ">=" } else { ">" };
        let order = match by_key {
            true => "coalesce(long_key, key)",
            false => "key",
        };
        let sql = format!(
            "SELECT coalesce(long_key, key), value, ends_at - tidegate.clock(), version
            FROM tidegate.definitions
            WHERE owner = $1 AND key >= $2 AND key < $3
            AND coalesce(long_key, key) {behind} $4
            AND ($5::bytea IS NULL OR coalesce(long_key, key) < $5)
            AND (ends_at IS NULL OR ends_at > tidegate.clock())
            ORDER BY {order} LIMIT $6"
        );
        // The index ends there: no name is so long.
        let to = to.unwrap_or_else(|| vec![u8::MAX; LONGER_THAN_ANY]);
        let most = most as i64;
        let arguments: [Argument<'_>; 6] = [&owner, &from, &to, &above, &below, &most];
        let rows = self.link.query(&sql, &arguments).await?;
        Ok(rows.iter().map(definition).collect())
    }
}

impl Source for DefinedRows {
    /// How often those who follow look whether there is news, if they are not told: within a
    /// second they know.
    const LOOK: Duration = Duration::from_millis(500);

    async fn change(&self, owner: &str, change: &Change) -> Result<Defined, StoreError> {
        let sql = "SELECT o_made, o_version, o_value, o_left
            FROM tidegate.change_definition($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let Change {
            definition: Definition {
                key, value, lasts, ..
            },
            expected,
            event,
        } = change;
        let event = event.as_ref();
        let lasts = lasts.map(micros);
        let expected = expected.map(|expected| i64::try_from(expected).unwrap_or(i64::MAX));
        let (subject, body) = (event.map(|one| &one.subject), event.map(|one| &one.body));
        let keeps = event.map(|one| micros(one.lasts));
        let most = event.map(|one| one.bound().cast_signed());
        let row = self
            .link
            .query(
                sql,
                &[
                    &owner, &key, &value, &lasts, &expected, &subject, &body, &keeps, &most,
                ],
            )
            .await?;
        let row = row.first().ok_or(StoreError::Mismatch)?;
        Ok(match row.get::<_, Option<bool>>(0) {
            Some(true) => Defined::Done {
                changed: true,
                version: number(row, 1),
            },
            None => Defined::Done {
                changed: false,
                version: 0,
            },
            Some(false) => Defined::Conflict(row.get::<_, Option<Vec<u8>>>(2).map(|value| {
                let left: Option<i64> = row.get(3);
                let version = number(row, 1);
                Definition {
                    lasts: left.map(lasting),
                    ..Definition::new(key.as_slice(), value).at_version(version)
                }
            })),
        })
    }

    async fn one(&self, owner: &str, key: &[u8]) -> Result<Option<Definition>, StoreError> {
        let sql = "SELECT coalesce(long_key, key), value, ends_at - tidegate.clock(), version
            FROM tidegate.definitions WHERE owner = $1 AND key = tidegate.short($2)";
        let rows = self.link.query(sql, &[&owner, &key]).await?;
        let found = rows.first().map(definition);
        Ok(found.filter(|found| found.value.is_some()))
    }

    async fn page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<Definition>, StoreError> {
        key_order::page(self, owner, (prefix, after), most).await
    }

    async fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: u64,
        most: usize,
    ) -> Result<Page<Event>, StoreError> {
        let all = "SELECT version, coalesce(long_subject, subject), body, at,
                ends_at - tidegate.clock(), most
            FROM tidegate.definition_events
            WHERE owner = $1 AND version > $2 ORDER BY version LIMIT $3";
        let some = "SELECT version, coalesce(long_subject, subject), body, at,
                ends_at - tidegate.clock(), most
            FROM tidegate.definition_events
            WHERE owner = $1 AND subject = tidegate.short($4) AND version > $2
            ORDER BY version LIMIT $3";
        let (after, wanted) = (after.cast_signed(), most as i64 + 1);
        let rows = match subject {
            None => self.link.query(all, &[&owner, &after, &wanted]).await?,
            Some(subject) => {
                let arguments: [Argument<'_>; 4] = [&owner, &after, &wanted, &subject];
                self.link.query(some, &arguments).await?
            }
        };
        let next = rows.get(most - 1).filter(|_| rows.len() > most);
        let next = next.map(|last| event_cursor(number(last, 0)));
        let items = rows.iter().take(most).map(event);
        Ok(Page {
            items: items.filter(|event| !event.lasts.is_zero()).collect(),
            next,
        })
    }

    async fn versions(&self, owners: &[String]) -> Result<Vec<u64>, StoreError> {
        let sql = "SELECT coalesce(v.version, 0) FROM unnest($1::text[]) WITH ORDINALITY AS o
            (owner, place) LEFT JOIN tidegate.definition_versions v ON v.owner = o.owner
            ORDER BY o.place";
        let rows = self.link.query(sql, &[&owners]).await?;
        Ok(rows.iter().map(|row| number(row, 0)).collect())
    }

    async fn changes(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let changed = "d.value, d.ends_at - tidegate.clock()";
        let mut since = self.since(owner, newer_than, changed).await?;
        if since.whole {
            let all = "SELECT coalesce(long_key, key), value, ends_at - tidegate.clock(), version
                FROM tidegate.definitions WHERE owner = $1";
            let rows = self.link.query(all, &[&owner]).await?;
            let kept = rows.iter().map(definition);
            since.changed = kept.filter(|one| one.value.is_some()).collect();
        }
        Ok(since)
    }

    async fn changed_keys(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let changed = "NULL::bytea, NULL::bigint";
        self.since(owner, newer_than, changed).await
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

/// A row's key, value, what is left to it, if it does not last for good, and its version; one
/// that is over is gone.
fn definition(row: &Row) -> Definition {
    let left: Option<i64> = row.get(2);
    let lasts = left.map(lasting);
    let value: Option<Vec<u8>> = row.get(1);
    Definition {
        key: row.get(0),
        value: value.filter(|_| lasts != Some(Duration::ZERO)),
        lasts,
        version: number(row, 3),
    }
}

/// A row's version, subject, body, instant, what is left to it, and how many are kept.
fn event(row: &Row) -> Event {
    Event {
        version: number(row, 0),
        subject: row.get(1),
        body: row.get(2),
        at: Timestamp::from_micros(row.get(3)),
        lasts: lasting(row.get(4)),
        most: u32::try_from(row.get::<_, i64>(5)).unwrap_or(u32::MAX),
    }
}

fn lasting(left: i64) -> Duration {
    Duration::from_micros(u64::try_from(left).unwrap_or(0))
}

/// So long, if that can be added to an instant.
fn micros(lasts: Duration) -> i64 {
    i64::try_from(lasts.as_micros()).map_or(i64::MAX >> 8, |lasts| lasts.min(i64::MAX >> 8))
}

fn number(row: &Row, column: usize) -> u64 {
    let number: Option<i64> = row.get(column);
    number
        .and_then(|number| u64::try_from(number).ok())
        .unwrap_or(0)
}
