//! The removal of sets and definitions by the beginning of their names, some of it in each
//! step: what a step has deleted stays deleted, and the next finds what is left.

use tidegate_store::{Cleared, StoreError};

use crate::connection::{Argument, Link};

/// So many rows of each SQL table are deleted in one step.
const AT_ONCE: i64 = 1_000;

/// What belongs to a set, by its number, and in which order its rows are locked: records of usage as
/// commands lock them, all else in any.
const OF_A_SET: [(&str, &str); 5] = [
    ("waiters", "ctid"),
    ("leases", "ctid"),
    ("usage", "key, hour, name"),
    ("rows", "ctid"),
    ("revisions", "ctid"),
];

/// What belongs to an owner, by its name.
const OF_AN_OWNER: [(&str, &str); 3] = [
    ("definition_events", "ctid"),
    ("definition_changes", "ctid"),
    ("definitions", "ctid"),
];

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
    (column, tables): (&str, &[(&str, &str)]),
    whose: Argument<'_>,
    last: &str,
) -> Result<Cleared, StoreError> {
    let removed = delete(link, (column, tables), whose).await?;
    if removed >= AT_ONCE {
        return Ok(some(removed));
    }
    link.query(last, &[whose]).await?;
    // What was written since, under the number that is no one's now.
    let late = delete(link, (column, tables), whose).await?;
    Ok(some(removed + 1 + late))
}

/// Deletes some of what belongs to `whose`; how many rows. As many as that, and there may be more.
async fn delete(
    link: &Link,
    (column, tables): (&str, &[(&str, &str)]),
    whose: Argument<'_>,
) -> Result<i64, StoreError> {
    let mut removed = 0;
    for (table, order) in tables {
        let delete = format!(
            "WITH gone AS (DELETE FROM tidegate.{table} WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM tidegate.{table} WHERE {column} = $1 ORDER BY {order} LIMIT $2
                FOR UPDATE)) RETURNING 1)
            SELECT count(*) FROM gone"
        );
        let rows = link.query(&delete, &[whose, &AT_ONCE]).await?;
        removed += rows.first().map_or(0, |row| row.get::<_, i64>(0));
        if removed >= AT_ONCE {
            break;
        }
    }
    Ok(removed)
}

/// There may be more: the next step looks.
fn some(removed: i64) -> Cleared {
    Cleared {
        removed: removed.unsigned_abs(),
        next: Some(Vec::new()),
    }
}
