//! The removal of what nobody asks for any more, in the background.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::StoreError;

use crate::error::garbled;
use crate::link::Link;
use crate::table::Shared;

/// So many rows are looked after by one statement.
const AT_ONCE: i32 = 1_000;

/// Prunes every now and then, for as long as the store's thread runs.
pub(crate) fn start(shared: &Shared, every: Duration) {
    let link = Arc::clone(&shared.link);
    let Some(handle) = shared.driver.handle() else {
        return;
    };
    handle.spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            // What fails now is tried the next time.
            while some(&link).await.is_ok_and(|rows| rows >= AT_ONCE as usize) {}
        }
    });
}

/// One statement's worth; how many rows it looked after.
pub(crate) async fn some(link: &Link) -> Result<usize, StoreError> {
    let prune = "SELECT greatest(tidegate.prune($1), tidegate.prune_waiters($1))";
    let rows = link.ask(prune, &[&AT_ONCE]).await?;
    let row = rows.first().ok_or_else(|| garbled("no count"))?;
    Ok(usize::try_from(row.get::<_, i32>(0)).unwrap_or(0))
}
