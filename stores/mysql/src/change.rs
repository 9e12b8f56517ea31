//! One change of a definition, its version and its event, as one transaction. (Whoever has
//! the owner's row goes first: versions are committed in their order.)
//!
//! A version is the server's clock in microseconds, and one more where that stands: it
//! grows also after a failover that has lost the last ones.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tidegate_store::definitions::{MOST_CHANGES, MOST_DROPPED};
use tidegate_store::{Change, Defined, Definition, Event};

use crate::error::{Trouble, garbled};
use crate::names;
use crate::sql::NOW;

/// What is made of a change.
struct Making<'a> {
    conn: &'a mut Conn,
    /// What the names of all SQL tables begin with.
    p: &'a str,
    owner: Vec<u8>,
    key: &'a [u8],
    name: Vec<u8>,
}

/// What the owner has: its version, and how many events there are; the clock; and what is
/// under the key.
type There = (u64, u64, i64, Option<u64>, Option<Vec<u8>>, Option<i64>);

/// Makes a change, or finds what is there in its place.
pub(crate) async fn make(
    conn: &mut Conn,
    p: &str,
    owner: &str,
    change: &Change,
) -> Result<Defined, Trouble> {
    let definition = &change.definition;
    let mut making = Making {
        conn,
        p,
        owner: names::name(owner.as_bytes()),
        key: &definition.key,
        name: names::name(&definition.key),
    };
    making.conn.query_drop("START TRANSACTION").await?;
    let (version, events, now, at, value, left) = making.begin().await?;
    let there = at.zip(value).filter(|_| left.is_none_or(|left| left > 0));
    let at = there.as_ref().map_or(0, |there| there.0);
    let instead = if change.expected.is_some_and(|expected| expected != at) {
        Some(Defined::Conflict(there.map(|(at, value)| Definition {
            lasts: left.map(lasting),
            ..Definition::new(making.key, value).at_version(at)
        })))
    } else if definition.value.is_none() && there.is_none() {
        Some(Defined::Done {
            changed: false,
            version: 0,
        })
    } else {
        None
    };
    if let Some(instead) = instead {
        making.conn.query_drop("ROLLBACK").await?;
        return Ok(instead);
    }
    making.put(definition, version, now).await?;
    making.note(version).await?;
    if let Some(event) = &change.event {
        making.tell(event, (version, now), events).await?;
    }
    let committed = making.conn.query_drop("COMMIT").await;
    match committed.map_err(Trouble::from) {
        // It may have been done: it is not tried again where that would be another.
        Err(Trouble::Broken(words)) if !change.is_repeatable() => Err(Trouble::Failed(
            tidegate_store::StoreError::Unavailable(words),
        )),
        committed => committed.map(|()| Defined::Done {
            changed: true,
            version,
        }),
    }
}

impl Making<'_> {
    /// Raises the owner's version, and finds what is there.
    async fn begin(&mut self) -> Result<There, Trouble> {
        let p = self.p;
        let raise = format!(
            "INSERT INTO {p}_definition_versions (owner, version, events) \
             VALUES (?, {NOW}, 0) \
             ON DUPLICATE KEY UPDATE version = GREATEST(version + 1, VALUES(version))"
        );
        self.conn.exec_drop(raise, (&self.owner,)).await?;
        let there = format!(
            "SELECT v.version, v.events, n.now, d.version, d.body, \
             CAST(d.ends_at - n.now AS SIGNED) \
             FROM (SELECT {NOW} AS now) n JOIN {p}_definition_versions v \
             LEFT JOIN {p}_definitions d ON d.owner = v.owner AND d.name = ? WHERE v.owner = ?"
        );
        let found = self.conn.exec_first(there, (&self.name, &self.owner));
        found.await?.ok_or_else(|| garbled("no version"))
    }

    async fn put(
        &mut self,
        definition: &Definition,
        version: u64,
        now: i64,
    ) -> Result<(), Trouble> {
        let p = self.p;
        let Some(value) = &definition.value else {
            let delete = format!("DELETE FROM {p}_definitions WHERE owner = ? AND name = ?");
            let place = (&self.owner, &self.name);
            return Ok(self.conn.exec_drop(delete, place).await?);
        };
        let ends = definition
            .lasts
            .map(|lasts| now.saturating_add(micros(lasts)));
        if ends.is_some() {
            // Those that are over are over everywhere: nobody needs to be told.
            let sweep = format!(
                "DELETE FROM {p}_definitions WHERE owner = ? AND ends_at <= ? \
                 ORDER BY ends_at LIMIT {MOST_DROPPED}"
            );
            self.conn.exec_drop(sweep, (&self.owner, now)).await?;
        }
        let put = format!(
            "REPLACE INTO {p}_definitions (owner, name, whole, body, version, ends_at) \
             VALUES (?, ?, ?, ?, ?, ?)"
        );
        let whole = names::whole(self.key);
        let row = (&self.owner, &self.name, whole, value, version, ends);
        Ok(self.conn.exec_drop(put, row).await?)
    }

    /// Notes that the key was changed, and forgets the oldest of too many changes.
    async fn note(&mut self, version: u64) -> Result<(), Trouble> {
        let p = self.p;
        let note = format!(
            "INSERT INTO {p}_definition_changes (owner, name, whole, version) \
             VALUES (?, ?, ?, ?)"
        );
        let row = (&self.owner, &self.name, names::whole(self.key), version);
        self.conn.exec_drop(note, row).await?;
        let last = format!(
            "SELECT version FROM {p}_definition_changes WHERE owner = ? \
             ORDER BY version DESC LIMIT 1 OFFSET {MOST_CHANGES}"
        );
        let last = self.conn.exec_first::<u64, _, _>(last, (&self.owner,));
        let Some(last) = last.await? else {
            return Ok(());
        };
        let delete = format!("DELETE FROM {p}_definition_changes WHERE owner = ? AND version <= ?");
        Ok(self.conn.exec_drop(delete, (&self.owner, last)).await?)
    }

    /// Keeps an event. Those that are over go, and the oldest of too many.
    async fn tell(
        &mut self,
        event: &Event,
        (version, now): (u64, i64),
        events: u64,
    ) -> Result<(), Trouble> {
        let p = self.p;
        let over = format!(
            "DELETE FROM {p}_definition_events WHERE owner = ? AND ends_at <= ? \
             ORDER BY ends_at LIMIT {MOST_DROPPED}"
        );
        self.conn.exec_drop(over, (&self.owner, now)).await?;
        let mut left = events.saturating_sub(self.conn.affected_rows());
        let surplus = (left + 1)
            .saturating_sub(event.bound())
            .min(MOST_DROPPED as u64);
        if surplus > 0 {
            let oldest = format!(
                "DELETE FROM {p}_definition_events WHERE owner = ? ORDER BY version LIMIT {surplus}"
            );
            self.conn.exec_drop(oldest, (&self.owner,)).await?;
            left = left.saturating_sub(self.conn.affected_rows());
        }
        let keep = format!(
            "INSERT INTO {p}_definition_events \
             (owner, version, subject, whole, body, at, ends_at, most) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        );
        let (subject, whole) = (names::name(&event.subject), names::whole(&event.subject));
        let ends = now.saturating_add(micros(event.lasts));
        let row = (
            &self.owner,
            version,
            subject,
            whole,
            &event.body,
            now,
            ends,
            event.bound(),
        );
        self.conn.exec_drop(keep, row).await?;
        let count = format!("UPDATE {p}_definition_versions SET events = ? WHERE owner = ?");
        Ok(self.conn.exec_drop(count, (left + 1, &self.owner)).await?)
    }
}

/// What is left.
pub(crate) fn lasting(left: i64) -> Duration {
    Duration::from_micros(u64::try_from(left).unwrap_or(0))
}

/// So long, if that can be added to an instant.
fn micros(lasts: Duration) -> i64 {
    i64::try_from(lasts.as_micros()).map_or(i64::MAX >> 8, |lasts| lasts.min(i64::MAX >> 8))
}
