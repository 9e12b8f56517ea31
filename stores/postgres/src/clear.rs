//! The removal of sets and definitions by the beginning of their names, some of it in each
//! step: what a step has deleted stays deleted, and the next finds what is left.

use tidegate_store::{Cleared, StoreError};

use crate::connection::{Argument, Link};
use crate::error::garbled;

/// So many rows of each SQL table are deleted in one step.
const AT_ONCE: i64 = 1_000;

/// What belongs to a set, by its number, each with the rest of its primary key: rows are locked in that
/// order, by an index, as commands lock records of usage.
const OF_A_SET: [(&str, &str); 5] = [
    ("waiters", "root, turn"),
    ("leases", "root, id"),
    ("usage", "key, hour, name"),
    ("rows", "key"),
    ("revisions", "revision"),
];

/// What belongs to an owner, by its name.
const OF_AN_OWNER: [(&str, &str); 3] = [
    ("definition_events", "version"),
    ("definition_changes", "version"),
    ("definitions", "key"),
];

/// So often at most what is written while it is deleted is looked for.
const MOST_LATE: usize = 1_000;

/// What the name of a set begins with that is being deleted: who opens one of its name meanwhile
/// makes another.
const CLEARED: &str = "\u{1}cleared\u{1}";

/// One step, for names that begin with `prefix`: the first, or one of those that follow. Those sets
/// are deleted that were there at the first.
pub(crate) async fn clear(
    link: &Link,
    prefix: &str,
    is_first: bool,
) -> Result<Cleared, StoreError> {
    if is_first {
        let rename = "UPDATE tidegate.sets SET name = $2::text || name || ' ' || tab
            WHERE starts_with(name, $1) AND NOT starts_with(name, $2::text)";
        link.query(rename, &[&prefix, &CLEARED]).await?;
    }
    let set = "SELECT tab FROM tidegate.sets WHERE starts_with(name, $1) LIMIT 1";
    let renamed = format!("{CLEARED}{prefix}");
    if let Some(row) = link.query(set, &[&renamed]).await?.first() {
        let set: i32 = row.get(0);
        let last = "DELETE FROM tidegate.sets WHERE tab = $1";
        return part(link, ("tab", &OF_A_SET), &set, last).await;
    }
    let owner =
        "SELECT owner FROM tidegate.definition_versions WHERE starts_with(owner, $1) LIMIT 1";
    if let Some(row) = link.query(owner, &[&prefix]).await?.first() {
        let owner: String = row.get(0);
        let last = "DELETE FROM tidegate.definition_versions WHERE owner = $1";
        return part(link, ("owner", &OF_AN_OWNER), &owner, last).await;
    }
    Ok(Cleared::default())
}

/// Some of what belongs to `whose`; if that was all of it, what stands for it by `last`.
async fn part(
    link: &Link,
    whole: (&str, &[(&str, &str)]),
    whose: Argument<'_>,
    last: &str,
) -> Result<Cleared, StoreError> {
    let (mut removed, is_all) = delete(link, whole, whose).await?;
    if !is_all {
        return Ok(some(removed));
    }
    link.query(last, &[whose]).await?;
    removed += 1;
    // What was written since, under the number that is no one's now.
    for _ in 0..MOST_LATE {
        let (late, is_all) = delete(link, whole, whose).await?;
        removed += late;
        if is_all {
            break;
        }
    }
    Ok(some(removed))
}

/// Deletes some of what belongs to `whose`; how many rows, and whether that was all. (One that others
/// write at the moment is found, and not deleted.)
async fn delete(
    link: &Link,
    (column, tables): (&str, &[(&str, &str)]),
    whose: Argument<'_>,
) -> Result<(i64, bool), StoreError> {
    let (mut removed, mut is_all) = (0, true);
    for (table, order) in tables {
        let delete = format!(
            "WITH found AS MATERIALIZED (
                SELECT ctid FROM tidegate.{table} WHERE {column} = $1 ORDER BY {order} LIMIT $2
                FOR UPDATE),
            gone AS (DELETE FROM tidegate.{table}
                WHERE ctid = ANY(ARRAY(SELECT ctid FROM found)) RETURNING 1)
            SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM found)"
        );
        let rows = link.query(&delete, &[whose, &AT_ONCE]).await?;
        let counts = rows.first().map(|row| (row.get(0), row.get(1)));
        let (gone, found): (i64, i64) = counts.ok_or_else(|| garbled("no count"))?;
        removed += gone;
        is_all &= gone == found && found < AT_ONCE;
        if removed >= AT_ONCE {
            return Ok((removed, false));
        }
    }
    Ok((removed, is_all))
}

/// There may be more: the next step looks.
fn some(removed: i64) -> Cleared {
    Cleared {
        removed: removed.unsigned_abs(),
        next: Some(Vec::new()),
    }
}
