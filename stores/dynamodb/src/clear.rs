//! The removal of sets and definitions by the beginning of their names: the whole table is scanned,
//! and the items in such partitions are deleted, one by one.

use futures_util::future::try_join_all;
use tidegate_store::{Cleared, StoreError};
use tokio::time::Instant;

use crate::connection::Connection;
use crate::error::Trouble;
use crate::item::{at, read_at};
use crate::keys::{self, Key};

/// So many items are looked at by one request.
const LOOKED_AT: i32 = 1_024;

/// So many requests are made in one call.
const PAGES: u32 = 8;

/// So many items are deleted at once.
const AT_ONCE: usize = 16;

/// One call; it goes on where the scan had come to. A call makes its last request before half of
/// the deadline is over.
pub(crate) async fn clear(
    connection: &Connection,
    prefix: &str,
    after: Option<&[u8]>,
) -> Result<Cleared, Trouble> {
    if prefix.len() > keys::HEAD {
        // Of longer names no more than that is kept.
        return Err(Trouble::Failed(StoreError::CannotClear));
    }
    let late = Instant::now() + connection.deadline() / 2;
    let mut from = after.map(read_place).transpose()?;
    let mut removed = 0;
    for _ in 0..PAGES {
        let start = from.as_ref().map(at);
        let page = connection.scan(|scan| {
            scan.projection_expression("pk, sk")
                .limit(LOOKED_AT)
                .set_exclusive_start_key(start.clone())
        });
        let (found, _) = page.await?;
        let all = found.items.iter().map(read_at);
        let all = all.collect::<Result<Vec<Key>, _>>()?;
        let those = all
            .iter()
            .filter(|key| keys::begins(&key.partition, prefix.as_bytes()));
        let those: Vec<&Key> = those.collect();
        for some in those.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|key| connection.delete(key))).await?;
        }
        removed += those.len() as u64;
        from = found.next.as_ref().map(read_at).transpose()?;
        if from.is_none() || Instant::now() >= late {
            break;
        }
    }
    Ok(Cleared {
        removed,
        next: from.map(|key| place(&key)),
    })
}

/// Where the next call goes on.
fn place(key: &Key) -> Vec<u8> {
    let length = (key.partition.len() as u16).to_be_bytes();
    [&length, &key.partition[..], &key.sort].concat()
}

fn read_place(place: &[u8]) -> Result<Key, Trouble> {
    let read = || {
        let (length, rest) = place.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (partition, sort) = rest.split_at_checked(length)?;
        let is_key = !partition.is_empty() && !sort.is_empty();
        is_key.then(|| Key {
            partition: partition.to_vec(),
            sort: sort.to_vec(),
        })
    };
    read().ok_or(Trouble::Failed(StoreError::UnknownPage))
}
