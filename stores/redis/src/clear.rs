//! The removal of tables and definitions by the beginning of their names: the server's keys are
//! walked by `SCAN`, and those that are called so are unlinked.

use futures_util::future::try_join_all;
use tidegate_store::{Cleared, StoreError};

use crate::keys::Names;
use crate::link::Link;

/// So many of the server's keys are looked at in one step of the scan, about.
const AT_ONCE: usize = 512;

/// The same for one call.
const LOOKED_AT: usize = 8_192;

/// One call, for names that begin so; it goes on where the scan had come to.
pub(crate) async fn clear(
    link: &Link,
    names: &Names,
    after: Option<&[u8]>,
) -> Result<Cleared, StoreError> {
    let pattern = names.everything();
    let mut cursor = after.unwrap_or(b"0").to_vec();
    let mut removed = 0;
    for _ in 0..LOOKED_AT / AT_ONCE {
        let (next, found) = link.scan(&cursor, &pattern, AT_ONCE).await?;
        removed += found.len() as u64;
        // One at a time: a cluster has each elsewhere.
        let gone = found.iter().map(|key| async move {
            let mut unlink = redis::cmd("UNLINK");
            link.query(unlink.arg(&key[..])).await
        });
        try_join_all(gone).await?;
        match next {
            Some(next) => cursor = next,
            None => {
                return Ok(Cleared {
                    removed,
                    next: None,
                });
            }
        }
    }
    Ok(Cleared {
        removed,
        next: Some(cursor),
    })
}
