//! What is defined for an owner: never dropped with any state.

use tidegate_contract::{Definition, StoreError};

use crate::link::Link;

/// All of an owner's.
pub(crate) async fn read(link: &Link, owner: &str) -> Result<Vec<Definition>, StoreError> {
    let statement = "SELECT coalesce(long_key, key), value FROM tidegate.definitions
        WHERE owner = $1";
    let rows = link.ask(statement, &[&owner]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Keeps `value` under `key`, or nothing any more.
pub(crate) async fn write(
    link: &Link,
    owner: &str,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), StoreError> {
    let keep = "INSERT INTO tidegate.definitions (owner, key, long_key, value)
        VALUES ($1, tidegate.short($2), CASE WHEN length($2) > 255 THEN $2 END, $3)
        ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value";
    let remove = "DELETE FROM tidegate.definitions WHERE owner = $1 AND key = tidegate.short($2)";
    match value {
        Some(value) => link.ask(keep, &[&owner, &key, &value]).await?,
        None => link.ask(remove, &[&owner, &key]).await?,
    };
    Ok(())
}
