//! Some of what was used under a root: what is asked of `lua/used.lua`, and its answer.

use std::sync::Arc;

use redis::Value;
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::{Hour, Hours, OwnedKey, StoreError, Usage};

use super::instant;
use crate::error::garbled;

/// Some `most` records of these hours behind a place, if it is any; as of `now`, or the
/// server's now.
pub(crate) fn query(
    after: &[u8],
    hours: Hours,
    most: usize,
    keep: Option<Span>,
    now: Option<Timestamp>,
) -> [Arc<[u8]>; 5] {
    let edge = |kind: &[u8], hour: Hour| [kind, &hour.number().to_be_bytes()].concat();
    let from = match after.is_empty() {
        true => edge(b"[", hours.from),
        false => [b"(", after].concat(),
    };
    let keep = keep.map(|keep| keep.as_micros().min(1 << 53).to_string());
    let now = now.map(|now| instant(now).to_string());
    [
        from.into(),
        edge(b"(", hours.to).into(),
        most.to_string().into_bytes().into(),
        keep.unwrap_or_default().into_bytes().into(),
        now.unwrap_or_default().into_bytes().into(),
    ]
}

/// Some of what was used under a root.
pub(crate) struct Used {
    /// The place behind which there may be more, if any.
    pub(crate) more: Option<Vec<u8>>,
    /// A lease of the root is due, and what it gives back may not be noted yet.
    pub(crate) is_due: bool,
    /// What was found.
    pub(crate) records: Vec<Usage>,
}

pub(crate) fn read(answer: Value) -> Result<Used, StoreError> {
    let Value::Array(values) = answer else {
        return Err(garbled("no usage"));
    };
    let mut values = values.into_iter();
    let more = match values.next() {
        Some(Value::BulkString(field)) => Some(field),
        _ => None,
    };
    let is_due = matches!(values.next(), Some(Value::Int(1)));
    let mut records = Vec::new();
    while let (Some(Value::BulkString(field)), Some(amount)) = (values.next(), values.next()) {
        // What was evicted or dropped meanwhile is none.
        if let Value::BulkString(amount) = amount {
            let record = record(&field, &amount);
            records.push(record.ok_or_else(|| garbled("no record of usage"))?);
        }
    }
    Ok(Used {
        more,
        is_due,
        records,
    })
}

fn record(field: &[u8], amount: &[u8]) -> Option<Usage> {
    let (hour, rest) = field.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (key, limit) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some(Usage {
        key: OwnedKey::new(key),
        limit: str::from_utf8(limit).ok()?.into(),
        hour: Hour::new(u32::from_be_bytes(*hour)),
        amount: str::from_utf8(amount).ok()?.parse().ok()?,
    })
}
