//! What is defined for an owner: rows of their own, never dropped with any state.

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
    match value {
        Some(value) => {
            let put = format!(
                "REPLACE INTO {prefix}_definitions (owner, name, whole, body) VALUES (?, ?, ?, ?)"
            );
            let row = (owner, name, names::whole(key), value);
            shared.tell(&put, row).await
        }
        None => {
            let delete = format!("DELETE FROM {prefix}_definitions WHERE owner = ? AND name = ?");
            shared.tell(&delete, (owner, name)).await
        }
    }
}

/// All of them.
pub(crate) async fn read(shared: &Shared, owner: &str) -> Result<Vec<Definition>, Trouble> {
    let ask = format!(
        "SELECT COALESCE(whole, name), body FROM {}_definitions WHERE owner = ?",
        shared.prefix
    );
    shared.ask(&ask, (names::name(owner.as_bytes()),)).await
}
