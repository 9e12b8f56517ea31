//! The removal of tables and definitions by the beginning of their names, some of it in each
//! step: what a step has deleted stays deleted, and the next finds what is left.

use mysql_async::Value;
use tidegate_store::{Cleared, StoreError};

use crate::error::Trouble;
use crate::names;
use crate::shared::Shared;

/// So many rows of each SQL table are deleted in one step.
const AT_ONCE: u64 = 1_000;

/// What belongs to a table, by its number.
const OF_A_TABLE: [&str; 5] = ["turns", "leases", "usage", "rows", "plans"];

/// What belongs to an owner, by its name.
const OF_AN_OWNER: [&str; 3] = ["definition_events", "definition_changes", "definitions"];

/// What the name of a table begins with that is being deleted: who opens one of its name meanwhile
/// makes another.
const CLEARED: &[u8] = b"\x01cleared\x01";

/// So much of its name follows, and its number: more has no room.
const KEPT: usize = 480;

/// One step, for names that begin with `prefix`: the first, or one of those that follow. Those
/// tables are deleted that were there at the first.
pub(crate) async fn clear(
    shared: &Shared,
    prefix: &str,
    is_first: bool,
) -> Result<Cleared, Trouble> {
    let (p, beginning) = (&shared.prefix, prefix.as_bytes());
    if beginning.len() > names::HEAD {
        // Of longer names of owners no more than that is kept.
        return Err(Trouble::Failed(StoreError::CannotClear));
    }
    let begins = (beginning.len(), beginning);
    if is_first {
        let rename = format!(
            "UPDATE {p}_tables SET name = CONCAT(?, LEFT(name, {KEPT}), ' ', id) \
             WHERE LEFT(name, ?) = ? AND LEFT(name, {}) <> ?",
            CLEARED.len()
        );
        let those = (CLEARED, beginning.len(), beginning, CLEARED);
        shared.tell(&rename, those).await?;
    }
    let sql = format!("SELECT id FROM {p}_tables WHERE LEFT(name, ?) = ? LIMIT 1");
    let renamed = [CLEARED, beginning].concat();
    let renamed = (renamed.len(), renamed);
    if let Some(table) = shared.query::<u32>(&sql, renamed).await?.first() {
        let last = format!("DELETE FROM {p}_tables WHERE id = ?");
        let whose = Value::from(*table);
        return part(shared, ("table_id", &OF_A_TABLE), whose, &last).await;
    }
    let sql = format!("SELECT owner FROM {p}_definition_versions WHERE LEFT(owner, ?) = ? LIMIT 1");
    if let Some(owner) = shared.query::<Vec<u8>>(&sql, begins).await?.pop() {
        let last = format!("DELETE FROM {p}_definition_versions WHERE owner = ?");
        let whose = Value::from(owner);
        return part(shared, ("owner", &OF_AN_OWNER), whose, &last).await;
    }
    Ok(Cleared::default())
}

/// Some of what belongs to `whose`; if that was all of it, what stands for it by `last`.
async fn part(
    shared: &Shared,
    (column, tables): (&str, &[&str]),
    whose: Value,
    last: &str,
) -> Result<Cleared, Trouble> {
    let removed = delete(shared, (column, tables), &whose).await?;
    if removed >= AT_ONCE {
        return Ok(some(removed));
    }
    shared.tell(last, (&whose,)).await?;
    // What was written since, under the number that is no one's now.
    let late = delete(shared, (column, tables), &whose).await?;
    Ok(some(removed + 1 + late))
}

/// Deletes some of what belongs to `whose`; how many rows. As many as that, and there may be more.
async fn delete(
    shared: &Shared,
    (column, tables): (&str, &[&str]),
    whose: &Value,
) -> Result<u64, Trouble> {
    let (mut removed, p) = (0, &shared.prefix);
    for table in tables {
        let delete =
            format!("DELETE FROM {p}_{table} WHERE {column} = ? LIMIT {AT_ONCE} RETURNING 1");
        let gone: Vec<u8> = shared.query(&delete, (whose,)).await?;
        removed += gone.len() as u64;
        if removed >= AT_ONCE {
            break;
        }
    }
    Ok(removed)
}

/// There may be more: the next step looks.
const fn some(removed: u64) -> Cleared {
    Cleared {
        removed,
        next: Some(Vec::new()),
    }
}
