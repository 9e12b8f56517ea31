//! The removal of sets and definitions by the beginning of their names, some of it in each
//! step: what a step has deleted stays deleted, and the next finds what is left.

use tidegate_store::{Cleared, StoreError};

use crate::connection::{Argument, Link};

/// So many rows of each SQL table are deleted in one step.
const AT_ONCE: i64 = 1_000;

/// What belongs to a set, by its number.
const OF_A_SET: [&str; 5] = ["waiters", "leases", "usage", "rows", "revisions"];

/// What belongs to an owner, by its name.
const OF_AN_OWNER: [&str; 3] = ["definition_events", "definition_changes", "definitions"];

/// One step, for names that begin with `prefix`.
pub(crate) async fn clear(link: &Link, prefix: &str) -> Result<Cleared, StoreError> {
    let set = "SELECT tab FROM tidegate.sets WHERE starts_with(name, $1) LIMIT 1";
    if let Some(row) = link.query(set, &[&prefix]).await?.first() {
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
    (column, tables): (&str, &[&str]),
    whose: Argument<'_>,
    last: &str,
) -> Result<Cleared, StoreError> {
    let mut removed = 0;
    for table in tables {
        let delete = format!(
            "WITH gone AS (DELETE FROM tidegate.{table} WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM tidegate.{table} WHERE {column} = $1 LIMIT $2)) RETURNING 1)
            SELECT count(*) FROM gone"
        );
        let rows = link.query(&delete, &[whose, &AT_ONCE]).await?;
        removed += rows.first().map_or(0, |row| row.get::<_, i64>(0));
        if removed >= AT_ONCE {
            return Ok(some(removed));
        }
    }
    link.query(last, &[whose]).await?;
    Ok(some(removed + 1))
}

/// There may be more: the next step looks.
fn some(removed: i64) -> Cleared {
    Cleared {
        removed: removed.unsigned_abs(),
        next: Some(Vec::new()),
    }
}
