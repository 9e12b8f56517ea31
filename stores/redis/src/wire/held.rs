//! Some of a root's leases: what is asked of `lua/held.lua`, and its answer.

use std::sync::Arc;

use redis::Value;
use tidegate_store::core::Timestamp;
use tidegate_store::{HeldLease, OwnedKey, StoreError};

use super::reply::Reader;
use super::{instant, timestamp};
use crate::error::garbled;

/// A piece of a root's leases.
pub(crate) struct Held {
    pub(crate) leases: Vec<HeldLease>,
    /// Where it ends: until when due, and the number.
    pub(crate) last: (i64, i64),
    pub(crate) has_more: bool,
}

/// Some `most` of them after a place; as of `now`, or the server's now.
pub(crate) fn query(
    after: Option<(i64, i64)>,
    most: usize,
    now: Option<Timestamp>,
) -> [Arc<[u8]>; 4] {
    let (due, number) = match after {
        Some((due, number)) => (due.to_string(), number),
        None => ("-inf".to_owned(), 0),
    };
    let now = now.map(|now| instant(now).to_string());
    let text = |text: String| text.into_bytes().into();
    [
        text(due),
        text(number.to_string()),
        text(most.to_string()),
        text(now.unwrap_or_default()),
    ]
}

/// Reads the answer to a question of `asked_at`.
pub(crate) fn read(answer: Value, asked_at: Timestamp) -> Result<Held, StoreError> {
    let (mut reader, has_more) = Reader::told(answer, asked_at)?;
    let due = reader.bytes()?;
    let due = str::from_utf8(&due).ok().and_then(|due| due.parse().ok());
    let number = reader.int()?;
    let leases = reader.rest(|reader| lease(reader.list()?))?;
    Ok(Held {
        leases,
        // Nothing was looked at: there is nothing after it either.
        last: (due.unwrap_or(i64::MAX), number),
        has_more: has_more != 0,
    })
}

fn lease(mut reader: Reader) -> Result<HeldLease, StoreError> {
    let key = OwnedKey::new(&reader.bytes()?);
    let id = reader.bytes()?.try_into().map_err(|_| garbled("no id"))?;
    let (expires_at, fence) = (reader.instant()?, reader.amount()?);
    let granted_at = timestamp(reader.int()?);
    let taken = reader.rest(|reader| Ok((reader.amount()? as u32, reader.amount()?)))?;
    Ok(HeldLease {
        key,
        id: u128::from_be_bytes(id),
        granted_at,
        expires_at,
        fence,
        taken: taken.into_iter().collect(),
    })
}
