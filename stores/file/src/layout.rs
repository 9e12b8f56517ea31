//! The tables of the file.
//!
//! ```text
//! tidegate  "format"                 -> u32
//! tables    table u32                -> fence u64, latest i64, name
//! plans     (table u32, serial u32)  -> a plan, and when it came into force
//! rows      table u32, key           -> the serial of the plan that wrote it, states
//! leases    table u32, lease u128    -> a record
//! used      table u32, hour u32, limit's length u32, limit, key -> an amount u64, and for how many
//!           microseconds it is kept after the hour u64
//! defined   owner's length u32, owner, key -> a definition
//! owners    owner                    -> its version
//! events    owner's length u32, owner, version u64 -> an event
//! ```
//! A row of a key that has limits of its own says by which it was written.
//! Numbers in values are little-endian, in keys of rows and leases big-endian,
//! so that a table's are neighbours; in those of usage, too.

use redb::TableDefinition;
use tidegate_memory::journal::UsagePlace;
use tidegate_store::{Hour, OwnedKey};

/// The newest format that is read: with definitions, and keys with limits of
/// their own.
pub(crate) const FORMAT: u32 = 2;
/// The format of a file without, which older versions read.
pub(crate) const PLAIN_FORMAT: u32 = 1;

pub(crate) const META: TableDefinition<'_, &str, u32> = TableDefinition::new("tidegate");
pub(crate) const TABLES: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("tables");
pub(crate) const PLANS: TableDefinition<'_, (u32, u32), &[u8]> = TableDefinition::new("plans");
pub(crate) const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
pub(crate) const LEASES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("leases");
pub(crate) const USAGE: TableDefinition<'_, &[u8], (u64, u64)> = TableDefinition::new("used");
pub(crate) const DEFINED: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("defined");
pub(crate) const OWNERS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("owners");
pub(crate) const EVENTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("events");

/// The only entry of [`META`].
pub(crate) const FORMAT_KEY: &str = "format";

/// Writes the key of a row into `out`.
pub(crate) fn row_key(table: u32, key: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend(table.to_be_bytes());
    out.extend(key);
}

/// The key of a lease.
pub(crate) fn lease_key(table: u32, id: u128) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&table.to_be_bytes());
    key[4..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The key of a record of usage.
pub(crate) fn usage_key(table: u32, (key, limit, hour): &UsagePlace, out: &mut Vec<u8>) {
    out.clear();
    out.extend(table.to_be_bytes());
    out.extend(hour.number().to_be_bytes());
    out.extend((limit.len() as u32).to_be_bytes());
    out.extend(limit.as_bytes());
    out.extend(key.bytes());
}

/// Whose a record of usage is, by its key without the table.
pub(crate) fn usage_place(rest: &[u8]) -> Option<UsagePlace> {
    let (hour, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (limit, key) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let limit = std::str::from_utf8(limit).ok()?;
    let hour = Hour::new(u32::from_be_bytes(*hour));
    Some((OwnedKey::new(key), limit.into(), hour))
}

/// Where a definition of `owner`'s is kept, or, by its version, an event.
pub(crate) fn definition_key(owner: &str, key: &[u8]) -> Vec<u8> {
    let length = (owner.len() as u32).to_be_bytes();
    [&length, owner.as_bytes(), key].concat()
}

/// The table of a row's or lease's key, and the rest of it.
pub(crate) fn split(key: &[u8]) -> Option<(u32, &[u8])> {
    let (table, rest) = key.split_first_chunk()?;
    Some((u32::from_be_bytes(*table), rest))
}
