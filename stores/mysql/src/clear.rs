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

/// One step, for names that begin with `prefix`.
pub(crate) async fn clear(shared: &Shared, prefix: &str) -> Result<Cleared, Trouble> {
    let (p, beginning) = (&shared.prefix, prefix.as_bytes());
    if beginning.len() > names::HEAD {
        // Of longer names of owners no more than that is kept.
        return Err(Trouble::Failed(StoreError::CannotClear));
    }
    let begins = (beginning.len(), beginning);
    let sql = format!("SELECT id FROM {p}_tables WHERE LEFT(name, ?) = ? LIMIT 1");
    if let Some(table) = shared.query::<u32>(&sql, begins).await?.first() {
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
    let (mut removed, p) = (0, &shared.prefix);
    for table in tables {
        let delete =
            format!("DELETE FROM {p}_{table} WHERE {column} = ? LIMIT {AT_ONCE} RETURNING 1");
        let gone: Vec<u8> = shared.query(&delete, (&whose,)).await?;
        removed += gone.len() as u64;
        if removed >= AT_ONCE {
            return Ok(some(removed));
        }
    }
    shared.tell(last, (&whose,)).await?;
    Ok(some(removed + 1))
}

/// There may be more: the next step looks.
const fn some(removed: u64) -> Cleared {
    Cleared {
        removed,
        next: Some(Vec::new()),
    }
}
