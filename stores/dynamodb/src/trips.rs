//! A load and a write, as the loop wants them.
//!
//! **A load** reads what is wanted of a root as of one instant: one item, or several in one
//! transaction. What comes later (leases that are due, a lease that an idempotency key leads to)
//! is compared with the root's version: by the write, or where nothing is written by one more
//! look at it.
//!
//! **A write** is of one item on the root's version, or of several in one transaction that is
//! known by a token: one that is asked for again, since no answer came, is done once.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    CancellationReason, Delete, Put, ReturnValuesOnConditionCheckFailure as OnFailure,
    TransactWriteItem,
};
use tidegate_store::StoreError;
use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::{DueRange, LoadRequest, StoredLease};

use crate::backoff::Backoff;
use crate::connection::{Asked, Connection, Transacted, is_unmet, unbuilt};
use crate::error::{Trouble, garbled};
use crate::item::{
    INDEX, Item, LeaseItem, RootItem, UsedMore, Version, at, bytes, check_size, found_bytes,
    found_row, is_spent, number, too_large,
};
use crate::keys::{self, Key};
use crate::sight::{Sight, hash_of};

/// DynamoDB takes so many items in one transaction.
pub(crate) const MOST_ITEMS: usize = 100;

/// So many leases of a root are ended in one step; more do not fit into a transaction.
const MOST_LEASES: usize = MOST_ITEMS;

/// Where everything of a root is.
#[derive(Debug)]
pub(crate) struct RootPlace {
    pub(crate) partition: Vec<u8>,
    pub(crate) root: Box<[u8]>,
}

impl RootPlace {
    pub(crate) fn new(set: &str, root: &[u8]) -> Self {
        Self {
            partition: keys::root(set, root),
            root: root.into(),
        }
    }

    pub(crate) fn at(&self, sort: Vec<u8>) -> Key {
        Key {
            partition: self.partition.clone(),
            sort,
        }
    }

    /// Where the root's row is.
    pub(crate) fn own(&self) -> Key {
        self.at(keys::root_row())
    }

    /// Where the row of `key` is.
    pub(crate) fn row(&self, key: &[u8]) -> Key {
        match *key == *self.root {
            true => self.own(),
            false => self.at(keys::row(key)),
        }
    }
}

/// What was read of a root as of one instant, and the lease that its idempotency key leads to.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) sight: Sight,
    pub(crate) leads_to: Option<u128>,
}

impl Connection {
    /// Reads what is wanted, the root's row first.
    pub(crate) async fn load(
        &self,
        place: &RootPlace,
        wanted: &LoadRequest,
        now: impl Fn() -> Timestamp,
    ) -> Result<Loaded, Trouble> {
        let rows = wanted.rows.iter().map(|key| place.row(key));
        let leases = wanted.ids.iter().map(|&id| place.at(keys::lease(id)));
        let asked = hash_of(wanted).map(|hash| place.at(keys::idempotency(&hash)));
        let wanted_keys: Vec<Key> = rows.chain(leases).chain(asked).collect();
        let found = self.get_all(&wanted_keys).await?;
        let now = now();
        let mut found = found.into_iter();
        let mut next = || found.next().flatten();
        let mut sight = Sight::of(next().as_ref().map(RootItem::read).transpose()?);
        for key in &wanted.rows[1..] {
            sight.rows.insert(key.clone(), row(next(), now)?);
        }
        for &id in &wanted.ids {
            sight.leases.insert(id, lease(next(), now)?);
        }
        let leads_to = match wanted.idempotency_key {
            Some(_) => next()
                .map(|item| leads_to(&item, now))
                .transpose()?
                .flatten(),
            None => None,
        };
        Ok(Loaded { sight, leads_to })
    }

    /// Reads more: rows, leases.
    pub(crate) async fn load_more(
        &self,
        place: &RootPlace,
        wanted: &[Key],
    ) -> Result<Vec<Option<Item>>, Trouble> {
        debug_assert!(wanted.iter().all(|key| key.partition == place.partition));
        match wanted.is_empty() {
            true => Ok(Vec::new()),
            false => self.get_all(wanted).await,
        }
    }

    /// The leases that are due next, in their order.
    pub(crate) async fn due(
        &self,
        place: &RootPlace,
        range: DueRange,
        now: Timestamp,
    ) -> Result<Vec<LeaseItem>, Trouble> {
        let after = range
            .after
            .map(|(at, sequence)| keys::due(at.as_micros(), sequence));
        let (mut all, mut next) = (Vec::new(), None);
        loop {
            let from = next.take();
            let most = range.most - all.len();
            let page = self.query(&place.partition, |query| {
                let query = query.index_name(INDEX).limit(most as i32);
                let query = query.set_exclusive_start_key(from.clone());
                match &after {
                    Some(after) => query
                        .key_condition_expression("pk = :p AND due > :a")
                        .expression_attribute_values(":a", bytes(after.clone())),
                    None => query.key_condition_expression("pk = :p"),
                }
            });
            let page = page.await?;
            for item in page.items {
                all.extend(lease(Some(item), now)?);
            }
            next = page.next;
            if next.is_none() || all.len() >= range.most {
                return Ok(all);
            }
        }
    }

    /// All leases of a root, if they are few enough to be ended in one step.
    pub(crate) async fn all_leases(
        &self,
        place: &RootPlace,
        now: Timestamp,
    ) -> Result<Vec<LeaseItem>, Trouble> {
        let all = self.query_all(&place.partition, MOST_LEASES + 1, |query| {
            query
                .key_condition_expression("pk = :p AND begins_with(sk, :l)")
                .expression_attribute_values(":l", bytes([keys::LEASE]))
        });
        let all = all.await?.into_iter();
        let all: Result<Vec<_>, _> = all.map(|item| lease(Some(item), now)).collect();
        Ok(all?.into_iter().flatten().collect())
    }
}

/// The row of an item, if it is there.
pub(crate) fn row(item: Option<Item>, now: Timestamp) -> Result<Option<Vec<u8>>, Trouble> {
    match item {
        Some(item) if !is_spent(&item, now)? => match found_row(&item)? {
            Some((record, _)) => Ok(Some(record.into())),
            None => Err(garbled("b")),
        },
        _ => Ok(None),
    }
}

/// The lease of an item, if it is there.
pub(crate) fn lease(item: Option<Item>, now: Timestamp) -> Result<Option<LeaseItem>, Trouble> {
    match item {
        Some(item) if !is_spent(&item, now)? => LeaseItem::read(&item).map(Some),
        _ => Ok(None),
    }
}

fn leads_to(item: &Item, now: Timestamp) -> Result<Option<u128>, Trouble> {
    if is_spent(item, now)? {
        return Ok(None);
    }
    let id = found_bytes(item, "id").and_then(|id| id.try_into().ok());
    id.map(u128::from_be_bytes)
        .map(Some)
        .ok_or_else(|| garbled("id"))
}

/// A lease as the loop reads it.
pub(crate) fn stored(lease: &LeaseItem) -> StoredLease {
    StoredLease {
        sequence: lease.sequence,
        bytes: lease.body.clone(),
    }
}

/// What is to be written beside the root's row, which is compared with its version.
#[derive(Debug)]
pub(crate) struct Writes {
    pub(crate) place: RootPlace,
    /// The version that the root's row has; none if it is not there.
    pub(crate) version: Option<Version>,
    pub(crate) root: RootItem,
    pub(crate) others: Vec<Write>,
}

/// What becomes of one item.
#[derive(Debug)]
pub(crate) enum Write {
    Put(Item),
    /// Only where none is that is not spent by this second.
    PutNew(Item, i64),
    Use(UsedMore),
    Delete(Key),
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Written {
    Done,
    /// Another wrote the root first: this is its row by now.
    Beaten(Option<RootItem>),
    /// An item that was taken to be new is there.
    NotNew,
}

/// The root's row is still not there.
const NONE: &str = "attribute_not_exists(pk)";
/// What is taken to be new is.
const NEW: &str = "attribute_not_exists(pk) OR #ttl <= :now";

impl Connection {
    /// Writes all or nothing. A write whose answer was lost is asked for again as it is until
    /// it is known what has become of it.
    pub(crate) async fn write(&self, writes: &mut Writes) -> Result<Written, Trouble> {
        if writes.others.len() >= MOST_ITEMS {
            return Err(too_large(format!(
                "{} items would change in one step, and DynamoDB changes {MOST_ITEMS}; settle \
                 or cancel leases of this root first",
                writes.others.len() + 1
            )));
        }
        let root = writes.root_item();
        check_size(&root)?;
        for write in &writes.others {
            if let Write::Put(item) | Write::PutNew(item, _) = write {
                check_size(item)?;
            }
        }
        match writes.others.is_empty() {
            true => self.write_root(writes, root).await,
            false => self.write_several(writes).await,
        }
    }

    async fn write_root(&self, writes: &Writes, root: Item) -> Result<Written, Trouble> {
        let (mut backoff, mut is_unsure) = (self.backoff(), false);
        loop {
            let put = self.client.put_item().table_name(&self.table);
            let put = put.set_item(Some(root.clone()));
            let put = match writes.version.map(Version::condition) {
                Some((same, version)) => put
                    .condition_expression(same)
                    .expression_attribute_values(":v", version),
                None => put.condition_expression(NONE),
            };
            let put = put.return_values_on_condition_check_failure(OnFailure::AllOld);
            let asked = match self.ask(put.send()).await {
                Ok(_) => return Ok(Written::Done),
                Err(asked) => asked,
            };
            let trouble = match unmet(asked) {
                Ok(item) => {
                    let found = item.as_ref().map(RootItem::read).transpose()?;
                    return beaten(found, writes, is_unsure);
                }
                Err(trouble) => trouble,
            };
            is_unsure |= matches!(trouble, Trouble::Broken(_));
            self.once_more(&mut backoff, trouble, is_unsure).await?;
        }
    }

    async fn write_several(&self, writes: &mut Writes) -> Result<Written, Trouble> {
        let mut items = self.items(writes)?;
        let (mut backoff, mut is_unsure) = (self.backoff(), false);
        loop {
            let trouble = match self.transact(&items, writes.root.head.writer).await {
                Ok(Transacted::Done) => return Ok(Written::Done),
                Ok(Transacted::Unmet(reasons)) => {
                    let mut reasons = reasons.into_iter();
                    if let Some(root) = reasons.next().filter(is_unmet) {
                        let item = root.item.filter(|item| !item.is_empty());
                        let found = item.as_ref().map(RootItem::read).transpose()?;
                        return beaten(found, writes, is_unsure);
                    }
                    if !writes.clamp_refunds(reasons)? {
                        return Ok(Written::NotNew);
                    }
                    // The transaction before was not done; this is another. Its conditions hold, unless
                    // another has written the root since.
                    writes.root.head.writer = rand::random();
                    (items, is_unsure) = (self.items(writes)?, false);
                    continue;
                }
                Err(trouble) => trouble,
            };
            is_unsure |= matches!(trouble, Trouble::Broken(_));
            self.once_more(&mut backoff, trouble, is_unsure).await?;
        }
    }

    /// Waits to ask for the same once more. What was lost to others for certain is decided
    /// anew.
    pub(crate) async fn once_more(
        &self,
        backoff: &mut Backoff,
        trouble: Trouble,
        is_unsure: bool,
    ) -> Result<(), Trouble> {
        if let (Trouble::Lost(_), false) = (&trouble, is_unsure) {
            return Err(trouble);
        }
        backoff.after(trouble).await.map_err(|error| {
            Trouble::Failed(match (error, is_unsure) {
                (StoreError::Unavailable(words) | StoreError::Busy(words), true) => {
                    may_have_been(&words)
                }
                (error, _) => error,
            })
        })
    }

    fn items(&self, writes: &Writes) -> Result<Vec<TransactWriteItem>, Trouble> {
        let root = Some(writes.root_item());
        let put = Put::builder().table_name(&self.table).set_item(root);
        let put = match writes.version.map(Version::condition) {
            Some((same, version)) => put
                .condition_expression(same)
                .expression_attribute_values(":v", version),
            None => put.condition_expression(NONE),
        };
        let put = put.return_values_on_condition_check_failure(OnFailure::AllOld);
        let put = put.build().map_err(unbuilt)?;
        let mut items = vec![TransactWriteItem::builder().put(put).build()];
        for write in &writes.others {
            items.push(self.write_item(write)?);
        }
        Ok(items)
    }

    fn write_item(&self, write: &Write) -> Result<TransactWriteItem, Trouble> {
        let put = |item: &Item| {
            let put = Put::builder().table_name(&self.table);
            put.set_item(Some(item.clone()))
        };
        let builder = TransactWriteItem::builder();
        Ok(match write {
            Write::Put(item) => builder.put(put(item).build().map_err(unbuilt)?),
            Write::PutNew(item, second) => {
                let put = put(item)
                    .condition_expression(NEW)
                    .expression_attribute_names("#ttl", "ttl")
                    .expression_attribute_values(":now", number(second));
                builder.put(put.build().map_err(unbuilt)?)
            }
            Write::Use(used) => {
                let update = used.update().table_name(&self.table);
                builder.update(update.build().map_err(unbuilt)?)
            }
            Write::Delete(key) => {
                let delete = Delete::builder().table_name(&self.table);
                let delete = delete.set_key(Some(at(key)));
                builder.delete(delete.build().map_err(unbuilt)?)
            }
        }
        .build())
    }
}

impl Writes {
    fn root_item(&self) -> Item {
        self.root.item(&self.place.own(), &self.place.root)
    }

    /// Lowers each refund of usage to what the record holds. `false` if another condition failed: trying
    /// again would not help.
    fn clamp_refunds(
        &mut self,
        reasons: impl Iterator<Item = CancellationReason>,
    ) -> Result<bool, Trouble> {
        for (write, reason) in self.others.iter_mut().zip(reasons) {
            match (is_unmet(&reason), write) {
                (true, Write::Use(used)) => used.clamp_refunds(&reason.item.unwrap_or_default())?,
                (true, _) => return Ok(false),
                (false, _) => {}
            }
        }
        let changes = |write: &Write| !matches!(write, Write::Use(used) if used.sums.is_empty());
        self.others.retain(changes);
        Ok(true)
    }
}

/// The item that a condition was not met by, or another trouble.
fn unmet<R: std::fmt::Debug>(asked: Asked<PutItemError, R>) -> Result<Option<Item>, Trouble> {
    let error = match asked {
        Asked::Error(error) => *error,
        Asked::Trouble(trouble) => return Err(trouble),
    };
    match error {
        aws_sdk_dynamodb::error::SdkError::ServiceError(service) => match service.into_err() {
            PutItemError::ConditionalCheckFailedException(failed) => {
                Ok(failed.item.filter(|item| !item.is_empty()))
            }
            other => {
                use aws_sdk_dynamodb::error::ProvideErrorMetadata;
                Err(Trouble::of_code(
                    other.code().unwrap_or_default(),
                    other.message().unwrap_or_default(),
                ))
            }
        },
        error => Err(Trouble::of(&error)),
    }
}

/// The root's row is not as it was read: another was first, or a try of this same write whose
/// answer was lost. Of one item nobody knows which, where others have written since; a
/// transaction that was done is not refused by its own token.
fn beaten(found: Option<RootItem>, writes: &Writes, is_unsure: bool) -> Result<Written, Trouble> {
    let is_ours = |root: &RootItem| root.head.writer == writes.root.head.writer;
    match (&found, is_unsure && writes.others.is_empty()) {
        (Some(root), _) if is_ours(root) => Ok(Written::Done),
        (_, true) => Err(Trouble::Failed(may_have_been(
            "no answer came, and others have written since",
        ))),
        (_, false) => Ok(Written::Beaten(found)),
    }
}

fn may_have_been(words: &str) -> StoreError {
    StoreError::Unavailable(format!("{words}; the command may have been executed"))
}
