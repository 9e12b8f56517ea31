//! What is defined for an owner: rows of their own, never dropped with any state; its
//! version, and which keys its last changes changed. A change is in `change`.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::following::{Following, Hearing, Source};
use tidegate_net::key_order::{self, NamedKeys, Scan};
use tidegate_store::core::Timestamp;
use tidegate_store::definitions::{MOST_ANCESTORS, event_cursor};
use tidegate_store::{Change, Defined, Definition, Definitions, Event, Page, StoreError};
use tokio::sync::Notify;

use crate::backoff::Backoff;
use crate::change::{self, lasting};
use crate::error::Trouble;
use crate::names;
use crate::shared::Shared;
use crate::sql::{AT_START, marks};

/// The definitions of a store. See the [module](self).
#[derive(Debug)]
pub(crate) struct DefinedRows {
    shared: Arc<Shared>,
    following: Following,
}

/// A key, its value, what is left to it, and its version.
type Row = (Vec<u8>, Option<Vec<u8>>, Option<i64>, u64);

/// A row, of which the key may be missing; the owner's version, and whether the one that was
/// known is noted.
type ChangedRow = (
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Option<i64>,
    Option<u64>,
    u64,
    bool,
);

/// A version, the subject, the body, when it was, what is left to it, and how many are kept.
type EventRow = (u64, Vec<u8>, Vec<u8>, i64, i64, u32);

impl DefinedRows {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            following: Following::default(),
        }
    }

    async fn change_once(&self, owner: &str, change: &Change) -> Result<Defined, Trouble> {
        let mut lent = self.shared.pool.lend().await?;
        let made = change::make(&mut lent.conn, &self.shared.prefix, owner, change).await;
        match &made {
            Ok(_) => lent.put_back(),
            Err(trouble) => {
                self.shared.pool.forget_if_gone(trouble);
                lent.roll_back().await;
            }
        }
        made
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
    ) -> Result<Definitions, Trouble> {
        let (p, owner) = (&self.shared.prefix, names::name(owner.as_bytes()));
        let sql = format!(
            "SELECT COALESCE(c.whole, c.name), {changed}, c.version, v.version, \
             n.version IS NOT NULL FROM {p}_definition_versions v \
             LEFT JOIN {p}_definition_changes n ON n.owner = v.owner AND n.version = ? \
             LEFT JOIN (SELECT owner, name, MAX(whole) AS whole, MAX(version) AS version \
             FROM {p}_definition_changes WHERE owner = ? AND version > ? GROUP BY owner, name) c \
             ON c.owner = v.owner AND n.version IS NOT NULL \
             LEFT JOIN {p}_definitions d ON d.owner = v.owner AND d.name = c.name \
             WHERE v.owner = ?"
        );
        let known = (newer_than, &owner, newer_than, &owner);
        let rows: Vec<ChangedRow> = self.shared.query(&sql, known).await?;
        let found = rows.first().map(|row| (row.4, row.5));
        let (version, is_noted) = found.unwrap_or_default();
        let mut since = Definitions::since(newer_than, version, is_noted);
        if !since.whole {
            let changed = rows
                .into_iter()
                .filter_map(|(key, value, left, version, ..)| {
                    Some(definition((key?, value, left, version?)))
                });
            since.changed = changed.collect();
        }
        Ok(since)
    }

    async fn read_changes(&self, owner: &str, newer_than: u64) -> Result<Definitions, Trouble> {
        let changed = format!("d.body, CAST(d.ends_at - {AT_START} AS SIGNED)");
        let mut since = self.since(owner, newer_than, &changed).await?;
        if since.whole {
            let all = format!(
                "SELECT COALESCE(whole, name), body, CAST(ends_at - {AT_START} AS SIGNED), \
                 version FROM {}_definitions WHERE owner = ?",
                self.shared.prefix
            );
            let owner = names::name(owner.as_bytes());
            let rows: Vec<Row> = self.shared.query(&all, (owner,)).await?;
            let kept = rows.into_iter().map(definition);
            since.changed = kept.filter(|one| one.value.is_some()).collect();
        }
        Ok(since)
    }

    /// What is under each of these keys, by one statement.
    pub(crate) async fn definitions_at(
        &self,
        owner: &str,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Definition>>, StoreError> {
        let read = self.read_at(owner, keys).await;
        read.map_err(Trouble::told)
    }

    /// What is under a key, and its ancestors, in one trip.
    pub(crate) async fn with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> Result<Vec<Definition>, StoreError> {
        let read = self.read_with_ancestors(owner, key, parent_offset).await;
        read.map_err(Trouble::told)
    }

    async fn read_at(
        &self,
        owner: &str,
        keys: &[impl AsRef<[u8]> + Sync],
    ) -> Result<Vec<Option<Definition>>, Trouble> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT COALESCE(whole, name), body, CAST(ends_at - {AT_START} AS SIGNED), version \
             FROM {}_definitions WHERE owner = ? AND name IN ({})",
            self.shared.prefix,
            marks(keys.len())
        );
        let owner = [names::name(owner.as_bytes())].into_iter();
        let names = keys.iter().map(|key| names::name(key.as_ref()));
        let names: Vec<_> = owner.chain(names).collect();
        let found: Vec<Row> = self.shared.query(&sql, names).await?;
        let found = found.into_iter().map(definition);
        let found: Vec<_> = found.filter(|found| found.value.is_some()).collect();
        let under = |key: &[u8]| found.iter().find(|found| found.key == key).cloned();
        Ok(keys.iter().map(|key| under(key.as_ref())).collect())
    }

    /// One statement: a definition, joined with its parent, and so on.
    async fn read_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> Result<Vec<Definition>, Trouble> {
        let (table, owner) = (
            format!("{}_definitions", self.shared.prefix),
            names::name(owner.as_bytes()),
        );
        let row = |level: usize| {
            let left = format!("CAST(d{level}.ends_at - {AT_START} AS SIGNED)");
            format!(
                "COALESCE(d{level}.whole, d{level}.name), d{level}.body, {left}, d{level}.version"
            )
        };
        let mut columns = row(0);
        let mut tables = format!("{table} d0");
        for level in 1..=MOST_ANCESTORS {
            columns += &format!(", {}", row(level));
            let parent = names::parent_name(&format!("d{}.body", level - 1), parent_offset);
            tables += &format!(
                " LEFT JOIN {table} d{level} ON d{level}.owner = ? AND d{level}.name = {parent}"
            );
        }
        let sql = format!("SELECT {columns} FROM {tables} WHERE d0.owner = ? AND d0.name = ?");
        let owners = (0..=MOST_ANCESTORS).map(|_| owner.clone());
        let arguments: Vec<_> = owners.chain([names::name(key)]).collect();
        let rows: Vec<mysql_async::Row> = self.shared.query(&sql, arguments).await?;
        let Some(row) = rows.first() else {
            return Ok(Vec::new());
        };
        let at = |level: usize| {
            let at = 4 * level;
            let (key, version) = (
                row.get::<Option<_>, _>(at)??,
                row.get::<Option<_>, _>(at + 3)??,
            );
            Some(definition((
                key,
                row.get(at + 1)?,
                row.get(at + 2)?,
                version,
            )))
        };
        let found = (0..=MOST_ANCESTORS).map_while(at);
        Ok(Definition::chain(key, parent_offset, found))
    }

    async fn read_one(&self, owner: &str, key: &[u8]) -> Result<Option<Definition>, Trouble> {
        Ok(self.read_at(owner, &[key]).await?.pop().flatten())
    }

    async fn read_scan(&self, owner: &str, scan: Scan) -> Result<Vec<Definition>, Trouble> {
        let (behind, order) = (
            if scan.above.1 { ">=" } else { ">" },
            match scan.by_key {
                true => "COALESCE(whole, name)",
                false => "name",
            },
        );
        let sql = format!(
            "SELECT COALESCE(whole, name), body, CAST(ends_at - {AT_START} AS SIGNED), version \
             FROM {}_definitions WHERE owner = ? AND name >= ? AND name < ? \
             AND COALESCE(whole, name) {behind} ? AND COALESCE(whole, name) < ? \
             AND (ends_at IS NULL OR ends_at > {AT_START}) ORDER BY {order} LIMIT ?",
            self.shared.prefix
        );
        // No key and no name is so long: before this is everything.
        let last = || vec![u8::MAX; LONGER_THAN_ANY];
        let owner = names::name(owner.as_bytes());
        let (to, below) = (
            scan.to.unwrap_or_else(last),
            scan.below.unwrap_or_else(last),
        );
        let most = scan.most as u64;
        let bounds = (owner, scan.from, to, scan.above.0, below, most);
        let rows: Vec<Row> = self.shared.query(&sql, bounds).await?;
        Ok(rows.into_iter().map(definition).collect())
    }

    async fn read_events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: u64,
        most: usize,
    ) -> Result<Page<Event>, Trouble> {
        let about = if subject.is_some() {
            "AND subject = ?"
        } else {
            "AND ? = ''"
        };
        let sql = format!(
            "SELECT version, COALESCE(whole, subject), body, at, \
             CAST(ends_at - {AT_START} AS SIGNED), most FROM {}_definition_events \
             WHERE owner = ? AND version > ? {about} ORDER BY version LIMIT ?",
            self.shared.prefix
        );
        let owner = names::name(owner.as_bytes());
        let subject = subject.map(names::name).unwrap_or_default();
        let bounds = (owner, after, subject, most as u64 + 1);
        let rows: Vec<EventRow> = self.shared.query(&sql, bounds).await?;
        let next = rows.get(most - 1).filter(|_| rows.len() > most);
        let next = next.map(|last| event_cursor(last.0));
        let items = rows.into_iter().take(most).map(event);
        Ok(Page {
            items: items.filter(|event| !event.lasts.is_zero()).collect(),
            next,
        })
    }
}

/// Longer than any key.
const LONGER_THAN_ANY: usize = tidegate_store::key::MAX_KEY_BYTES + 1;

impl NamedKeys for DefinedRows {
    const HEAD: usize = names::HEAD;

    async fn scan(&self, owner: &str, scan: Scan) -> Result<Vec<Definition>, StoreError> {
        self.read_scan(owner, scan).await.map_err(Trouble::told)
    }
}

impl Source for DefinedRows {
    /// How often those who follow look whether there is news: within five seconds they know,
    /// if the server answers in half that.
    const LOOK: Duration = Duration::from_secs(2);

    /// Tries again what was lost to others, and what was cut off; but not what may have been
    /// done then and is not to be done twice.
    async fn change(&self, owner: &str, change: &Change) -> Result<Defined, StoreError> {
        let mut backoff = Backoff::default();
        loop {
            match self.change_once(owner, change).await {
                Ok(made) => return Ok(made),
                Err(trouble) => backoff.after(trouble).await?,
            }
        }
    }

    async fn one(&self, owner: &str, key: &[u8]) -> Result<Option<Definition>, StoreError> {
        self.read_one(owner, key).await.map_err(Trouble::told)
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
        let read = self.read_events(owner, subject, after, most).await;
        read.map_err(Trouble::told)
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
        let read = self.read_changes(owner, newer_than).await;
        read.map_err(Trouble::told)
    }

    async fn changed_keys(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let keys = self.since(owner, newer_than, "NULL, NULL").await;
        keys.map_err(Trouble::told)
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

/// One that is over is gone.
fn definition((key, value, left, version): Row) -> Definition {
    let lasts = left.map(lasting);
    Definition {
        key,
        value: value.filter(|_| lasts != Some(Duration::ZERO)),
        lasts,
        version,
    }
}

fn event((version, subject, body, at, left, most): EventRow) -> Event {
    Event {
        subject,
        body,
        at: Timestamp::from_micros(at),
        lasts: lasting(left),
        most,
        version,
    }
}
