//! What is defined for an owner: rows of their own, never dropped with any state.

use mysql_async::prelude::Queryable;
use tidegate_contract::Definition;

use crate::error::Trouble;
use crate::names;
use crate::table::Shared;

/// Keeps `value` under `key`, or nothing any more.
pub(crate) async fn change(
    shared: &Shared,
    owner: &str,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), Trouble> {
    let prefix = &shared.prefix;
    let (owner, name) = (names::name(owner.as_bytes()), names::name(key));
    let mut lent = shared.pool.lend().await?;
    match value {
        Some(value) => {
            let put = format!(
                "REPLACE INTO {prefix}_definitions (owner, name, whole, body) VALUES (?, ?, ?, ?)"
            );
            let row = (owner, name, names::whole(key), value);
            lent.conn.exec_drop(put, row).await?;
        }
        None => {
            let delete = format!("DELETE FROM {prefix}_definitions WHERE owner = ? AND name = ?");
            lent.conn.exec_drop(delete, (owner, name)).await?;
        }
    }
    lent.put_back();
    Ok(())
}

/// All of them.
pub(crate) async fn read(shared: &Shared, owner: &str) -> Result<Vec<Definition>, Trouble> {
    let ask = format!(
        "SELECT COALESCE(whole, name), body FROM {}_definitions WHERE owner = ?",
        shared.prefix
    );
    let mut lent = shared.pool.lend().await?;
    let found = lent
        .conn
        .exec(ask, (names::name(owner.as_bytes()),))
        .await?;
    lent.put_back();
    Ok(found)
}
