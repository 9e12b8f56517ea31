//! Items: their attributes, and what is read from them.
//!
//! | attribute | of | holds |
//! |---|---|---|
//! | `pk`, `sk` | all | where it is ([`keys`]) |
//! | `b` | rows, leases, revisions, definitions, events | the record, in bytes; of a root's row behind its [head](Head) |
//! | `ttl` | what is spent some day | from when on DynamoDB may delete it, in seconds since 1970 |
//! | `f` | rows that have a record | from when on it equals "never seen", in microseconds since 1970 |
//! | `n` | rows, usage, definitions | the whole key, of a row or its usage where `sk` has a hash |
//! | `n` | events | whom it is about |
//! | `v` | definitions' versions, the layout's | the version, which every change raises |
//! | `t` | events | when, in microseconds since 1970 |
//! | `d` | roots' rows | no lease of the root is due before |
//! | `due` | leases, definitions, events | the position in the index `due` |
//! | `a` | leases | the hash of the idempotency key |
//! | `id` | idempotency keys | the lease |
//! | `u` | waiters | without a heartbeat until then, the place is nobody's |
//! | `r` | waiters | the rows that it waits for |
//! | `u:LIMIT` | usage | how much of the limit of this name |
//! | `e` | usage, definitions, events | when it ends |
//! | `k` | definitions' versions | how many events of the owner have not gone |
//! | `m` | events | how many are kept with it |
//!
//! In layout 1 a root's row had its head in attributes: `v`, a number; `w`; `t`; `q`, there if requests
//! may wait. It is read so, and written as above by the next change.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValuesOnConditionCheckFailure as OnFailure, Update,
};
use tidegate_store::StoreError;
use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::UsageWrite;
use tidegate_store::usage::{MOST_USED, UsageSum};

use crate::error::{Trouble, garbled};
use crate::keys::{self, Key};

/// An item as DynamoDB has it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// The index of what is due, or was changed, in order.
pub(crate) const INDEX: &str = "due";

/// What the attribute of a limit begins with.
const USED: &str = "u:";

/// DynamoDB takes 400 KB.
const LARGEST: usize = 400 * 1_024;

pub(crate) fn bytes(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

pub(crate) fn number(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// The key as attributes.
pub(crate) fn at(key: &Key) -> Item {
    let partition = ("pk".to_owned(), bytes(key.partition.clone()));
    let sort = ("sk".to_owned(), bytes(key.sort.clone()));
    [partition, sort].into_iter().collect()
}

/// Where an item is, of what has it.
pub(crate) fn read_at(item: &Item) -> Result<Key, Trouble> {
    Ok(Key {
        partition: read_bytes(item, "pk")?.into(),
        sort: read_bytes(item, "sk")?.into(),
    })
}

/// The item at `key` of these attributes.
pub(crate) fn item<const N: usize>(
    key: &Key,
    attributes: [(&str, Option<AttributeValue>); N],
) -> Item {
    let mut item = at(key);
    for (name, value) in attributes {
        if let Some(value) = value {
            item.insert(name.to_owned(), value);
        }
    }
    item
}

pub(crate) fn read_bytes<'i>(item: &'i Item, name: &'static str) -> Result<&'i [u8], Trouble> {
    found_bytes(item, name).ok_or_else(|| garbled(name))
}

pub(crate) fn found_bytes<'i>(item: &'i Item, name: &str) -> Option<&'i [u8]> {
    let value = item.get(name)?.as_b().ok()?;
    Some(value.as_ref())
}

pub(crate) fn read_number<T: std::str::FromStr>(
    item: &Item,
    name: &'static str,
) -> Result<T, Trouble> {
    found_number(item, name)?.ok_or_else(|| garbled(name))
}

pub(crate) fn found_number<T: std::str::FromStr>(
    item: &Item,
    name: &'static str,
) -> Result<Option<T>, Trouble> {
    let Some(value) = item.get(name) else {
        return Ok(None);
    };
    let number = value.as_n().ok().and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| garbled(name))
}

/// The second in which, at the earliest, what is spent at `at` is spent; none if it never is.
pub(crate) fn ends(at: Timestamp) -> Option<i64> {
    let micros = at.as_micros();
    (at != Timestamp::MAX).then(|| micros.div_euclid(1_000_000).saturating_add(1).max(1))
}

/// Whether what DynamoDB may delete by now is still there: it is as if it were not.
pub(crate) fn is_spent(item: &Item, now: Timestamp) -> Result<bool, Trouble> {
    let ends: Option<i64> = found_number(item, "ttl")?;
    Ok(ends.is_some_and(|ends| ends <= now.as_micros().div_euclid(1_000_000)))
}

/// That DynamoDB takes an item.
pub(crate) fn check_size(item: &Item) -> Result<(), Trouble> {
    let size = |value: &AttributeValue| match value {
        AttributeValue::B(blob) => blob.as_ref().len(),
        AttributeValue::Bs(blobs) => blobs.iter().map(|blob| blob.as_ref().len()).sum(),
        // A number has 21 bytes at most.
        _ => 21,
    };
    let size: usize = item
        .iter()
        .map(|(name, value)| name.len() + size(value))
        .sum();
    match size <= LARGEST {
        true => Ok(()),
        false => Err(too_large(format!(
            "an item of {size} bytes; DynamoDB takes {LARGEST}"
        ))),
    }
}

pub(crate) fn too_large(what: String) -> Trouble {
    Trouble::Failed(StoreError::Full(what))
}

/// The version of a root's row, which every change of anything of the root raises; by how the row
/// says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    /// At the beginning of its bytes.
    Leading(u64),
    /// In layout 1: as a number of its own.
    Own(u64),
}

impl Version {
    /// A random one, which no earlier row had.
    fn fresh() -> Self {
        Self::Leading(rand::random::<u64>() >> 1)
    }

    pub(crate) const fn number(self) -> u64 {
        match self {
            Self::Leading(number) | Self::Own(number) => number,
        }
    }

    /// The version after it.
    pub(crate) const fn next(self) -> Self {
        Self::Leading(self.number() + 1)
    }

    /// The condition that a row has it, and its value `:v`.
    pub(crate) fn condition(self) -> (&'static str, AttributeValue) {
        match self {
            Self::Leading(version) => ("begins_with(b, :v)", bytes(version.to_be_bytes())),
            Self::Own(version) => ("v = :v", number(version)),
        }
    }
}

/// What a root's row says of the root. Its bytes: version (8), writer (16), instant (8), 1 if requests
/// may wait and else 0 (1); of numbers the highest byte first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) version: Version,
    /// Drawn for each write: who wrote it last.
    pub(crate) writer: u128,
    /// When, by the writer's clock.
    pub(crate) written_at: Timestamp,
    /// Whether requests may wait at the root.
    pub(crate) has_waiters: bool,
}

/// So many bytes a head has.
const HEAD: usize = 33;

impl Head {
    /// It, and the record behind it.
    fn and(&self, record: &[u8]) -> Vec<u8> {
        let mut all = Vec::with_capacity(HEAD + record.len());
        all.extend(self.version.number().to_be_bytes());
        all.extend(self.writer.to_be_bytes());
        all.extend(self.written_at.as_micros().to_be_bytes());
        all.push(u8::from(self.has_waiters));
        all.extend(record);
        all
    }

    fn read(item: &Item) -> Result<Self, Trouble> {
        match item.contains_key("v") {
            true => Self::of_layout_1(item),
            false => Self::leading(read_bytes(item, "b")?).ok_or_else(|| garbled("b")),
        }
    }

    /// That with which these bytes begin.
    fn leading(all: &[u8]) -> Option<Self> {
        let (version, rest) = all.split_first_chunk()?;
        let (writer, rest) = rest.split_first_chunk()?;
        let (written_at, rest) = rest.split_first_chunk()?;
        Some(Self {
            version: Version::Leading(u64::from_be_bytes(*version)),
            writer: u128::from_be_bytes(*writer),
            written_at: Timestamp::from_micros(i64::from_be_bytes(*written_at)),
            has_waiters: *rest.first()? == 1,
        })
    }

    fn of_layout_1(item: &Item) -> Result<Self, Trouble> {
        let writer = read_bytes(item, "w")?.try_into();
        Ok(Self {
            version: Version::Own(read_number(item, "v")?),
            writer: u128::from_be_bytes(writer.map_err(|_| garbled("w"))?),
            written_at: Timestamp::from_micros(read_number(item, "t")?),
            has_waiters: item.contains_key("q"),
        })
    }
}

/// A row's record, and from when on it equals "never seen"; none where only somebody waits.
pub(crate) fn found_row(item: &Item) -> Result<Option<(&[u8], Timestamp)>, Trouble> {
    let (all, forget_at) = (found_bytes(item, "b"), found_number(item, "f")?);
    let Some((all, forget_at)) = all.zip(forget_at) else {
        return Ok(None);
    };
    let has_head = read_bytes(item, "sk")? == keys::root_row() && !item.contains_key("v");
    let record = all.get(if has_head { HEAD } else { 0 }..);
    let record = record.ok_or_else(|| garbled("b"))?;
    Ok(Some((record, Timestamp::from_micros(forget_at))))
}

/// A root's row, which everything of the root hangs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RootItem {
    pub(crate) head: Head,
    /// The row's record; there is none where only somebody waits.
    pub(crate) body: Option<Vec<u8>>,
    /// From when on the row equals "never seen".
    pub(crate) forget_at: Timestamp,
    /// No lease of the root is due before; none: it has no lease.
    pub(crate) due: Option<Timestamp>,
    /// From when on nothing of the root is needed any more, in seconds since 1970.
    pub(crate) ends: Option<i64>,
}

impl RootItem {
    /// One of which nothing was ever seen.
    pub(crate) fn fresh() -> Self {
        Self {
            head: Head {
                version: Version::fresh(),
                writer: 0,
                written_at: Timestamp::MIN,
                has_waiters: false,
            },
            body: None,
            forget_at: Timestamp::MIN,
            due: None,
            ends: Some(0),
        }
    }

    pub(crate) fn read(item: &Item) -> Result<Self, Trouble> {
        let row = found_row(item)?;
        let due: Option<i64> = found_number(item, "d")?;
        Ok(Self {
            head: Head::read(item)?,
            body: row.map(|(record, _)| record.into()),
            forget_at: row.map_or(Timestamp::MIN, |(_, forget_at)| forget_at),
            due: due.map(Timestamp::from_micros),
            ends: found_number(item, "ttl")?,
        })
    }

    /// It without what is spent at `now`.
    pub(crate) fn without_spent(mut self, now: Timestamp) -> Self {
        let second = now.as_micros().div_euclid(1_000_000);
        if self.ends.is_some_and(|ends| ends <= second) {
            self.body = None;
            self.due = None;
        }
        self
    }

    pub(crate) fn item(&self, key: &Key, root: &[u8]) -> Item {
        let record = self.body.as_deref();
        let forget_at = record.map(|_| self.forget_at.as_micros());
        item(
            key,
            [
                ("b", Some(bytes(self.head.and(record.unwrap_or_default())))),
                ("f", forget_at.map(number)),
                ("n", keys::whole(root).map(bytes)),
                ("d", self.due.map(|due| number(due.as_micros()))),
                ("ttl", self.ends.map(number)),
            ],
        )
    }
}

/// What was used more, or less, of a row in an hour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UsedMore {
    pub(crate) key: Key,
    /// The whole key, where the item's does not say it.
    pub(crate) whole: Option<Vec<u8>>,
    /// From when on it is listed no more, in microseconds since 1970.
    pub(crate) over_at: i64,
    /// From when on it may be deleted, in seconds since 1970.
    pub(crate) ends: Option<i64>,
    /// By the names of limits.
    pub(crate) sums: Vec<(Arc<str>, UsageSum)>,
}

impl UsedMore {
    /// What is written of the records of one hour of a row.
    pub(crate) fn of(key: Key, records: &[UsageWrite]) -> Option<Self> {
        let first = records.first()?;
        let sum = |record: &UsageWrite| (Arc::clone(&record.limit), record.sum);
        Some(Self {
            key,
            whole: keys::whole(&first.key).map(Into::into),
            over_at: first.over_at.as_micros(),
            ends: ends(first.keep_until),
            sums: records.iter().map(sum).collect(),
        })
    }

    /// Lowers each refund to what `item` holds.
    pub(crate) fn clamp_refunds(&mut self, item: &Item) -> Result<(), Trouble> {
        for (limit, sum) in &mut self.sums {
            let used = item.get(&format!("{USED}{limit}"));
            sum.less = sum.less.min(used.map_or(Ok(0), read_amount)?);
        }
        self.sums.retain(|(_, sum)| !sum.is_nothing());
        Ok(())
    }

    /// The change of an item that need not be there, on the condition that it holds what is given back.
    pub(crate) fn update(&self) -> UpdateBuilder {
        let mut sets = vec!["e = :e"];
        let mut update = Update::builder()
            .set_key(Some(at(&self.key)))
            .expression_attribute_values(":e", number(self.over_at));
        if let Some(ends) = self.ends {
            sets.push("#ttl = :ttl");
            update = update
                .expression_attribute_names("#ttl", "ttl")
                .expression_attribute_values(":ttl", number(ends));
        }
        if let Some(whole) = &self.whole {
            sets.push("n = :n");
            update = update.expression_attribute_values(":n", bytes(whole.clone()));
        }
        let (mut adds, mut conditions) = (Vec::new(), Vec::new());
        for (at, (limit, sum)) in self.sums.iter().enumerate() {
            let amount = i128::from(sum.more) - i128::from(sum.less);
            adds.push(format!("#u{at} :u{at}"));
            update = update
                .expression_attribute_names(format!("#u{at}"), format!("{USED}{limit}"))
                .expression_attribute_values(format!(":u{at}"), number(amount));
            if sum.less > 0 {
                conditions.push(format!("#u{at} >= :c{at}"));
                let least = number(sum.less);
                update = update.expression_attribute_values(format!(":c{at}"), least);
            }
        }
        if !conditions.is_empty() {
            update = update
                .condition_expression(conditions.join(" AND "))
                .return_values_on_condition_check_failure(OnFailure::AllOld);
        }
        let (sets, adds) = (sets.join(", "), adds.join(", "));
        update.update_expression(format!("SET {sets} ADD {adds}"))
    }
}

/// How much an item says that was used of each limit, in the order of their names.
pub(crate) fn used(item: &Item) -> Result<Vec<(&str, u64)>, Trouble> {
    let mut all = Vec::new();
    for (name, value) in item {
        if let Some(limit) = name.strip_prefix(USED) {
            all.push((limit, read_amount(value)?));
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// What was used, as an attribute says it, up to what is counted of one limit.
fn read_amount(value: &AttributeValue) -> Result<u64, Trouble> {
    let amount = value.as_n().ok().and_then(|number| number.parse().ok());
    let amount: i128 = amount.ok_or_else(|| garbled("u"))?;
    Ok(amount.clamp(0, i128::from(MOST_USED)) as u64)
}

/// A lease as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LeaseItem {
    pub(crate) id: u128,
    pub(crate) due: Timestamp,
    pub(crate) sequence: u64,
    pub(crate) body: Vec<u8>,
    /// The hash of the idempotency key it was made under.
    pub(crate) asked: Option<Vec<u8>>,
}

impl LeaseItem {
    pub(crate) fn read(item: &Item) -> Result<Self, Trouble> {
        let id = read_bytes(item, "sk")?.strip_prefix(&[keys::LEASE]);
        let id = id.and_then(|id| id.try_into().ok());
        let (due, sequence) =
            keys::read_due(read_bytes(item, "due")?).ok_or_else(|| garbled("due"))?;
        Ok(Self {
            id: u128::from_be_bytes(id.ok_or_else(|| garbled("sk"))?),
            due: Timestamp::from_micros(due),
            sequence,
            body: read_bytes(item, "b")?.into(),
            asked: found_bytes(item, "a").map(Into::into),
        })
    }

    pub(crate) fn item(&self, key: &Key, ends: Option<i64>) -> Item {
        let due = keys::due(self.due.as_micros(), self.sequence);
        item(
            key,
            [
                ("b", Some(bytes(self.body.clone()))),
                ("due", Some(bytes(due))),
                ("a", self.asked.clone().map(bytes)),
                ("ttl", ends.map(number)),
            ],
        )
    }
}
