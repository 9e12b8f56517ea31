//! The removal of tables and definitions by the beginning of their names: the server's keys are
//! walked by `SCAN`, and those that are called so are unlinked.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::future::try_join_all;
use tidegate_store::{Cleared, StoreError};
use tokio::time::sleep;

use crate::keys::Names;
use crate::link::Link;

/// So many of the server's keys are looked at in one step of the scan, about.
const AT_ONCE: usize = 512;

/// The same for one call.
const LOOKED_AT: usize = 8_192;

/// The cursor of a walk that begins.
const BEGINNING: &[u8] = b"0";

/// What a place begins with, by whether the walk has found anything.
const FOUND: u8 = b'+';
const FOUND_NOTHING: u8 = b'-';

/// One call, for names that begin so; it goes on where the walk had come to. What a walk has passed
/// may come back (by a failover, or a slot that moves to a server that was walked): the last walk
/// is one that finds nothing. A call goes on for half of the deadline: the other is for its last
/// step.
pub(crate) async fn clear(
    link: &Link,
    names: &Names,
    after: Option<&[u8]>,
) -> Result<Cleared, StoreError> {
    let pattern = names.everything();
    let mut walk = Walk::from(after)?;
    let (mut removed, mut late) = (0, pin!(sleep(link.deadline() / 2)));
    for _ in 0..LOOKED_AT / AT_ONCE {
        let found = walk.step(link, &pattern).await?;
        removed += found.len() as u64;
        // One at a time: a cluster has each elsewhere.
        let gone = found.iter().map(|key| async move {
            let mut unlink = redis::cmd("UNLINK");
            link.query(unlink.arg(&key[..])).await
        });
        try_join_all(gone).await?;
        if walk.is_last() {
            return Ok(Cleared {
                removed,
                next: None,
            });
        }
        if poll_fn(|context| Poll::Ready(late.as_mut().poll(context).is_ready())).await {
            break;
        }
    }
    Ok(Cleared {
        removed,
        next: Some(walk.place()),
    })
}

/// A walk through the server's keys.
struct Walk {
    has_found: bool,
    /// Where it is; `None`: at its end.
    cursor: Option<Vec<u8>>,
}

impl Walk {
    /// One that begins, or goes on from a [place](Self::place).
    fn from(after: Option<&[u8]>) -> Result<Self, StoreError> {
        let (has_found, cursor) = match after {
            None => return Ok(Self::beginning()),
            Some([FOUND, cursor @ ..]) => (true, cursor),
            Some([FOUND_NOTHING, cursor @ ..]) => (false, cursor),
            Some(_) => return Err(StoreError::UnknownPage),
        };
        Ok(Self {
            has_found,
            cursor: Some(cursor.to_vec()),
        })
    }

    fn beginning() -> Self {
        Self {
            has_found: false,
            cursor: Some(BEGINNING.to_vec()),
        }
    }

    /// The keys of its next step. At its end another begins, if it has found any.
    async fn step(&mut self, link: &Link, pattern: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let cursor = self.cursor.as_deref().unwrap_or(BEGINNING);
        let (next, found) = link.scan(cursor, pattern, AT_ONCE).await?;
        self.has_found |= !found.is_empty();
        self.cursor = next;
        if self.cursor.is_none() && self.has_found {
            *self = Self::beginning();
        }
        Ok(found)
    }

    /// Whether it is at its end, and has found nothing.
    const fn is_last(&self) -> bool {
        self.cursor.is_none()
    }

    /// Where the next call goes on.
    fn place(&self) -> Vec<u8> {
        let cursor = self.cursor.as_deref().unwrap_or(BEGINNING);
        let found = match self.has_found {
            true => FOUND,
            false => FOUND_NOTHING,
        };
        [&[found], cursor].concat()
    }
}
