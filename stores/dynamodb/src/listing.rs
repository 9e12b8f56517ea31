//! Keys, leases and usage, a page at a time.
//!
//! What is of one root is found by a query of its partition. What is of several is found by a
//! scan of the whole table, which is billed for all that it passes: for a person who looks, not
//! for a program that does so often. A page looks at a bounded number of items.
//!
//! Where a page ends is a key of a row, or a root with the position of a lease in the order in
//! which leases are due (an id is a secret, and in no page's end), or the key of an hour's usage
//! with the limit in it that was last.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_sdk_dynamodb::operation::scan::builders::ScanFluentBuilder;
use aws_sdk_dynamodb::types::Select as Selected;
use sha2::{Digest, Sha256};
use tidegate_net::ExpirySweep;
use tidegate_store::bytes::Reader;
use tidegate_store::core::Timestamp;
use tidegate_store::key::{root_of, root_of_beginning};
use tidegate_store::optimistic::{
    Clock, DueRange, KeptRow, ListedRow, OwnedKeyCommand, held_lease,
};
use tidegate_store::{HeldLease, Hours, Listing, OwnedKey, Page, Plan, Select, StoreError, Usage};

use crate::connection::Found;
use crate::error::{Trouble, garbled};
use crate::inner::Inner;
use crate::item::{
    Head, INDEX, Item, LeaseItem, RootItem, at, bytes, found_bytes, found_row, is_spent, number,
    read_at, read_bytes, read_number, used,
};
use crate::keys::{self, Key, LEASE, ROW, USAGE};
use crate::trips::{RootPlace, Writes};

/// So many items are looked at for one page.
const LOOKED_AT: i32 = 1_024;

/// How many items are looked at by one request after the other, for a page of so many: few at
/// first, since the next ones are near as a rule.
fn looks(wanted: usize) -> impl Iterator<Item = i32> {
    let first = wanted.clamp(16, LOOKED_AT as usize) as i32;
    let looks = std::iter::successors(Some(first), |looked| Some(looked * 2));
    let mut left = LOOKED_AT;
    looks.map_while(move |most| {
        let most = most.min(left);
        left -= most;
        (most > 0).then_some(most)
    })
}

impl Inner {
    pub(crate) async fn keys(
        self: &Arc<Self>,
        wanted: &Listing<'_>,
    ) -> Result<Page<OwnedKey>, Trouble> {
        let now = self.now_for(wanted.now);
        let after = wanted.after.map(|after| self.read_key(after)).transpose()?;
        if let Select::Key(key) = wanted.select {
            return self.one_key(key, after.is_some(), now).await;
        }
        let only = self.only_root(wanted.select).await?;
        let (mut from, mut page) = (after.as_ref().map(at), Page::empty());
        // So that a small page looks at little.
        for most in looks(wanted.most) {
            let start = from.take();
            let found = match &only {
                Some(place) => self.items_of(place, &[ROW], start, most).await?,
                None => self.scan_rows(start, most).await?,
            };
            for item in &found.items {
                if page.items.len() == wanted.most {
                    return Ok(page);
                }
                let key = self.key_of(item)?;
                page.next = Some(self.write_key(&read_at(item)?));
                if wanted.takes(&key) && self.is_listed(&key, item, now).await? {
                    page.items.push(OwnedKey::new(&key));
                }
            }
            if page.items.len() == wanted.most {
                return Ok(page);
            }
            let next = found.next.as_ref().map(read_at).transpose()?;
            page.next = next.map(|next| self.write_key(&public(next, ROW)));
            from = found.next;
            if from.is_none() {
                break;
            }
        }
        Ok(page)
    }

    /// Items of one root whose sort keys begin so.
    async fn items_of(
        &self,
        place: &RootPlace,
        beginning: &[u8],
        from: Option<Item>,
        most: i32,
    ) -> Result<Found, Trouble> {
        let page = self.shared.connection.query(&place.partition, |query| {
            query
                .key_condition_expression("pk = :p AND begins_with(sk, :k)")
                .expression_attribute_values(":k", bytes(beginning))
                .limit(most)
                .set_exclusive_start_key(from.clone())
        });
        page.await
    }

    /// Whether a row is more than "never seen", by the limits of now.
    async fn is_listed(
        self: &Arc<Self>,
        key: &[u8],
        item: &Item,
        now: Timestamp,
    ) -> Result<bool, Trouble> {
        let Some((record, forget_at)) = found_row(item)? else {
            return Ok(false);
        };
        if is_spent(item, now)? {
            return Ok(false);
        }
        let own = self.revision().await?;
        let kept = KeptRow {
            key,
            bytes: record,
            forget_at,
        };
        loop {
            match ListedRow::of(&kept, &own, &self.revisions.all(), now)? {
                ListedRow::ForgottenAt(at) => return Ok(at > now),
                ListedRow::Revisions(numbers) => match self.learn(&numbers).await {
                    Ok(()) => {}
                    // Of one that nobody knows any more, nothing newer can be told.
                    Err(Trouble::Failed(_)) => return Ok(kept.forget_at > now),
                    Err(trouble) => return Err(trouble),
                },
            }
        }
    }

    async fn one_key(
        self: &Arc<Self>,
        key: &[u8],
        is_after: bool,
        now: Timestamp,
    ) -> Result<Page<OwnedKey>, Trouble> {
        let mut page = Page::empty();
        let place = self.place_of(key).await?;
        let found = self.shared.connection.get(&place.row(key)).await?;
        if let Some(item) = found.filter(|_| !is_after)
            && self.is_listed(key, &item, now).await?
        {
            page.items.push(OwnedKey::new(key));
        }
        Ok(page)
    }

    pub(crate) async fn held_leases(
        &self,
        wanted: &Listing<'_>,
    ) -> Result<Page<HeldLease>, Trouble> {
        let now = self.now_for(wanted.now);
        let mut spot = match wanted.after {
            Some(after) => Some(self.read_spot(after)?),
            None => None,
        };
        let only = match wanted.select {
            Select::Key(key) => Some(self.place_of(key).await?),
            select => self.only_root(select).await?,
        };
        let mut page = Page::empty();
        for _ in 0..LOOKED_AT {
            let mut next = match (&spot, &only) {
                (Some(within), _) if !within.is_over => within.clone(),
                (None, Some(only)) => Spot::begin(only.partition.clone()),
                (Some(_), Some(_)) => {
                    page.next = None;
                    return Ok(page);
                }
                (beyond, None) => match self.next_root(beyond.as_ref()).await? {
                    Some(spot) => spot,
                    None => {
                        page.next = None;
                        return Ok(page);
                    }
                },
            };
            if next.is_over {
                // As many as one page looks at had no lease.
                page.next = Some(self.write_spot(&next));
                return Ok(page);
            }
            let left = wanted.most - page.items.len();
            let found = self.leases_of(&next, left).await?;
            next.is_over = found.len() < left;
            for lease in found {
                next.position = keys::due(lease.due.as_micros(), lease.sequence);
                let held = held_lease(&lease.body, now, wanted.now).map_err(StoreError::from)?;
                let held = held.filter(|held| wanted.takes(held.key.bytes()));
                page.items.extend(held);
            }
            page.next = Some(self.write_spot(&next));
            spot = Some(next);
            if page.items.len() >= wanted.most {
                return Ok(page);
            }
        }
        Ok(page)
    }

    /// A page of usage, once what has expired under the roots that were passed has given back what
    /// it does.
    pub(crate) async fn usage(
        self: &Arc<Self>,
        wanted: &Listing<'_>,
        hours: Hours,
    ) -> Result<Page<Usage>, Trouble> {
        let revision = self.revision().await?;
        let (sweep, mut looked_at, mut has_time) =
            (ExpirySweep::new(self, wanted.now), BTreeSet::new(), true);
        loop {
            let mut due = BTreeSet::new();
            let page = self.kept_usage(wanted, (hours, &revision.plan), &mut due);
            let page = page.await?;
            let new: Vec<_> = due.difference(&looked_at).cloned().collect();
            if new.is_empty() || !has_time {
                return Ok(page);
            }
            has_time = sweep.end(&new).await;
            looked_at.extend(new);
        }
    }

    /// Ends the leases under a root that have expired. A row may say that some are due that have ended
    /// since: then it is corrected, and not looked at again until the next is.
    pub(crate) async fn end_expired(
        self: Arc<Self>,
        root: &[u8],
        now: Timestamp,
    ) -> Result<(), Trouble> {
        let (connection, at) = (&self.shared.connection, self.now_for(now));
        let place = RootPlace::new(&self.set, root);
        let Some(row) = connection.get(&place.own()).await? else {
            return Ok(());
        };
        let row = RootItem::read(&row)?;
        let first = DueRange {
            after: None,
            most: 1,
        };
        let next = connection.due(&place, first, at).await?;
        let due = next.first().map(|lease| lease.due);
        if due.is_some_and(|due| due <= at) {
            let revision = self.revision().await?;
            if let Some(look) = revision.look(root, now) {
                let look = OwnedKeyCommand::of(&look);
                self.try_until_told(look, None).await?;
            }
        } else if row.due.is_some_and(|due| due <= at) {
            let head = Head {
                version: row.head.version.next(),
                writer: rand::random(),
                ..row.head
            };
            let mut writes = Writes {
                place,
                version: Some(row.head.version),
                root: RootItem { head, due, ..row },
                others: Vec::new(),
            };
            // Whoever wrote first has said itself what is due.
            connection.write(&mut writes).await?;
        }
        Ok(())
    }

    /// A page of usage as it is kept, and the roots that were passed whose leases are due.
    async fn kept_usage(
        &self,
        wanted: &Listing<'_>,
        (hours, plan): (Hours, &Plan),
        due: &mut BTreeSet<OwnedKey>,
    ) -> Result<Page<Usage>, Trouble> {
        let which = (wanted, hours, plan);
        let (only, beginning) = match wanted.select {
            Select::Key(key) => (Some(self.place_of(key).await?), keys::used_by(key)),
            select => (self.only_root(select).await?, vec![USAGE]),
        };
        let now = self.now_for(wanted.now);
        let after = wanted
            .after
            .map(|after| self.read_used(after))
            .transpose()?;
        // Its row is before where the page begins.
        let first = match (&only, &after) {
            (Some(place), _) => Some(place.own()),
            (None, Some(spot)) => Some(spot.key.of_root()),
            (None, None) => None,
        };
        // A page may have ended among what is of another set.
        let first = first.filter(|first| first.partition.starts_with(&keys::roots(&self.set)));
        let low = root_of_beginning(wanted.select.beginning(), wanted.levels).0;
        if let Some(first) = first
            && let Some(row) = self.shared.connection.get(&first).await?
        {
            due.extend(self.root_that_is_due(&row, now)?);
        }
        let (mut from, mut page) = (None, Page::empty());
        if let Some(UsedSpot { key, limit }) = after {
            let is_of = |only: &RootPlace| {
                key.partition == only.partition && key.sort.starts_with(&beginning)
            };
            if !only.as_ref().is_none_or(is_of) {
                return Err(StoreError::UnknownPage.into());
            }
            if let Some(limit) = limit
                && let Some(item) = self.shared.connection.get(&key).await?
                && !self.list_used(&item, &limit, which, &mut page)?
            {
                return Ok(page);
            }
            from = Some(at(&key));
        }
        for most in looks(wanted.most) {
            let start = from.take();
            let found = match &only {
                Some(place) => self.items_of(place, &beginning, start, most).await?,
                None => self.scan_usage(now, start, most).await?,
            };
            for item in &found.items {
                if read_bytes(item, "sk")? == keys::root_row() {
                    let root = self.root_that_is_due(item, now)?;
                    due.extend(root.filter(|root| root.bytes().starts_with(low)));
                } else if !self.list_used(item, "", which, &mut page)? {
                    return Ok(page);
                }
            }
            let next = found.next.as_ref().map(read_at).transpose()?;
            page.next = next.map(|next| self.write_used(public(next, USAGE), None));
            from = found.next;
            if from.is_none() {
                break;
            }
        }
        Ok(page)
    }

    /// The root of a row, if leases of it may have expired.
    fn root_that_is_due(&self, row: &Item, now: Timestamp) -> Result<Option<OwnedKey>, Trouble> {
        let due = RootItem::read(row)?.without_spent(now).due;
        match due.is_some_and(|due| due <= now) {
            true => Ok(Some(OwnedKey::new(&self.key_of(row)?))),
            false => Ok(None),
        }
    }

    /// Lists what an item says of limits behind one; `false`: the page is full, and says where it
    /// has ended.
    fn list_used(
        &self,
        item: &Item,
        behind: &str,
        (wanted, hours, plan): (&Listing<'_>, Hours, &Plan),
        page: &mut Page<Usage>,
    ) -> Result<bool, Trouble> {
        let at = read_at(item)?;
        let (name, hour) = keys::read_used(&at.sort).ok_or_else(|| garbled("sk"))?;
        let key = found_bytes(item, "n").unwrap_or(name);
        let (now, over_at): (_, i64) = (self.now_for(wanted.now), read_number(item, "e")?);
        let is_over = over_at <= now.as_micros() || plan.usage_is_over(hour, now);
        if is_over || !hours.has(hour) || !wanted.takes(key) {
            return Ok(true);
        }
        for (limit, amount) in used(item)? {
            if limit <= behind || amount == 0 {
                continue;
            }
            page.items.push(Usage {
                key: OwnedKey::new(key),
                limit: limit.into(),
                hour,
                amount,
            });
            if page.items.len() == wanted.most {
                page.next = Some(self.write_used(at.clone(), Some(limit)));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many keys there are: the table is looked through.
    pub(crate) async fn count_rows(&self) -> Result<usize, Trouble> {
        let least = match self.shared.options.clock {
            Clock::Server => self.shared.clock.now().as_micros(),
            Clock::Caller => i64::MIN,
        };
        let (mut count, mut next) = (0, None);
        loop {
            let from = next.take();
            let page = self.shared.connection.scan(|scan| {
                self.of_this_set(scan)
                    .filter_expression("begins_with(pk, :r) AND begins_with(sk, :k) AND f > :now AND attribute_exists(b)")
                    .expression_attribute_values(":k", bytes([ROW]))
                    .expression_attribute_values(":now", number(least))
                    .set_exclusive_start_key(from.clone())
                    .select(Selected::Count)
            });
            let (found, counted) = page.await?;
            count += counted;
            next = found.next;
            if next.is_none() {
                return Ok(count);
            }
        }
    }

    fn of_this_set(&self, scan: ScanFluentBuilder) -> ScanFluentBuilder {
        scan.expression_attribute_values(":r", bytes(keys::roots(&self.set)))
    }

    /// Rows of the set, of whatever root.
    async fn scan_rows(&self, from: Option<Item>, most: i32) -> Result<Found, Trouble> {
        let page = self.shared.connection.scan(|scan| {
            self.of_this_set(scan)
                .filter_expression("begins_with(pk, :r) AND begins_with(sk, :k)")
                .expression_attribute_values(":k", bytes([ROW]))
                .set_exclusive_start_key(from.clone())
                .limit(most)
        });
        Ok(page.await?.0)
    }

    /// What was used in the set, of whatever root, and the rows of roots whose leases are due,
    /// which are passed in any case: before what their keys have used.
    async fn scan_usage(
        &self,
        now: Timestamp,
        from: Option<Item>,
        most: i32,
    ) -> Result<Found, Trouble> {
        let page = self.shared.connection.scan(|scan| {
            self.of_this_set(scan)
                .filter_expression(
                    "begins_with(pk, :r) AND (begins_with(sk, :u) OR (sk = :k AND d <= :now))",
                )
                .expression_attribute_values(":u", bytes([USAGE]))
                .expression_attribute_values(":k", bytes(keys::root_row()))
                .expression_attribute_values(":now", number(now.as_micros()))
                .set_exclusive_start_key(from.clone())
                .limit(most)
        });
        Ok(page.await?.0)
    }

    /// The next root that may have leases, or where it is to be looked for.
    async fn next_root(&self, after: Option<&Spot>) -> Result<Option<Spot>, Trouble> {
        // Behind everything of that root.
        let mut from = after.map(|spot| {
            at(&Key {
                partition: spot.partition.clone(),
                sort: vec![u8::MAX],
            })
        });
        for most in looks(1).chain([LOOKED_AT; 4]) {
            let start = from.take();
            let page = self.shared.connection.scan(|scan| {
                self.of_this_set(scan)
                    .filter_expression("begins_with(pk, :r) AND sk = :k AND attribute_exists(d)")
                    .expression_attribute_values(":k", bytes(keys::root_row()))
                    .set_exclusive_start_key(start.clone())
                    .limit(most)
            });
            let (found, _) = page.await?;
            if let Some(item) = found.items.first() {
                return Ok(Some(Spot::begin(read_bytes(item, "pk")?.into())));
            }
            match found.next {
                None => return Ok(None),
                next => from = next,
            }
        }
        let Some(Key { partition, sort }) = from.as_ref().map(read_at).transpose()? else {
            return Ok(None);
        };
        // Before its row: that root was not looked at yet.
        let may_have = sort < keys::root_row() && partition.starts_with(&keys::roots(&self.set));
        Ok(Some(Spot {
            is_over: !may_have,
            ..Spot::begin(partition)
        }))
    }

    /// The next leases of a root.
    async fn leases_of(&self, spot: &Spot, most: usize) -> Result<Vec<LeaseItem>, Trouble> {
        let found = self.shared.connection.query(&spot.partition, |query| {
            let query = query.index_name(INDEX).limit(most.min(1_024) as i32);
            match spot.position.is_empty() {
                true => query.key_condition_expression("pk = :p"),
                false => query
                    .key_condition_expression("pk = :p AND due > :a")
                    .expression_attribute_values(":a", bytes(spot.position.clone())),
            }
        });
        let leases = found.await?.items;
        let is_lease =
            |item: &&Item| found_bytes(item, "sk").is_some_and(|sort| sort.first() == Some(&LEASE));
        leases
            .iter()
            .filter(is_lease)
            .map(LeaseItem::read)
            .collect()
    }

    /// The only root that is meant, if there is only one.
    async fn only_root(&self, select: Select<'_>) -> Result<Option<RootPlace>, Trouble> {
        let levels = self.levels()?;
        let Select::Prefix(prefix) = select else {
            return Ok(None);
        };
        let (root, is_whole) = root_of_beginning(prefix, levels);
        Ok(is_whole.then(|| RootPlace::new(&self.set, root)))
    }

    /// Where everything of a key's root is.
    async fn place_of(&self, key: &[u8]) -> Result<RootPlace, Trouble> {
        let root = root_of(key, self.levels()?);
        Ok(RootPlace::new(&self.set, root))
    }

    fn levels(&self) -> Result<usize, Trouble> {
        let plan = self.changes.newest_plan();
        let none = || StoreError::Unavailable("the table has no limits yet".to_owned());
        Ok(plan.ok_or_else(none)?.levels())
    }

    /// The key that a row is of.
    fn key_of(&self, item: &Item) -> Result<Vec<u8>, Trouble> {
        if let Some(whole) = found_bytes(item, "n") {
            return Ok(whole.into());
        }
        let Key { partition, sort } = read_at(item)?;
        let prefix = keys::roots(&self.set).len();
        Ok(match sort.len() {
            1 => partition.get(prefix..).unwrap_or_default().into(),
            _ => sort[1..].into(),
        })
    }

    /// The end of a page of this set: a scan may end it at any item.
    fn write_key(&self, key: &Key) -> Vec<u8> {
        [self.mark().as_slice(), &write_key(key)].concat()
    }

    fn write_spot(&self, spot: &Spot) -> Vec<u8> {
        [self.mark().as_slice(), &spot.write()].concat()
    }

    fn read_key(&self, place: &[u8]) -> Result<Key, Trouble> {
        let rest = place.strip_prefix(&self.mark());
        let key = rest.and_then(read_key);
        Ok(key.ok_or(StoreError::UnknownPage)?)
    }

    fn write_used(&self, key: Key, limit: Option<&str>) -> Vec<u8> {
        let spot = UsedSpot {
            key,
            limit: limit.map(Into::into),
        };
        [self.mark().as_slice(), &spot.write()].concat()
    }

    fn read_used(&self, place: &[u8]) -> Result<UsedSpot, Trouble> {
        let rest = place.strip_prefix(&self.mark());
        let spot = rest.and_then(UsedSpot::read);
        Ok(spot.ok_or(StoreError::UnknownPage)?)
    }

    fn read_spot(&self, place: &[u8]) -> Result<Spot, Trouble> {
        let rest = place.strip_prefix(&self.mark());
        Ok(Spot::read(rest.ok_or(StoreError::UnknownPage)?)?)
    }

    /// What the ends of the pages of this set begin with.
    fn mark(&self) -> [u8; 8] {
        let hash = Sha256::digest(self.set.as_bytes());
        let mut mark = [0; 8];
        mark.copy_from_slice(&hash[..8]);
        mark
    }

    /// The instant that rows are compared with: what the store's clock says, or the caller's.
    fn now_for(&self, asked: Timestamp) -> Timestamp {
        match self.shared.options.clock {
            Clock::Server => self.shared.clock.now(),
            Clock::Caller => asked,
        }
    }
}

/// A place in a scan for items of a kind that tells no id: one of them, or behind all that is of
/// the root, or before all of them.
fn public(key: Key, kind: u8) -> Key {
    let sort = match key.sort.first() {
        Some(&of) if of > kind => vec![u8::MAX],
        Some(&of) if of == kind => key.sort,
        _ => vec![kind - 1],
    };
    Key { sort, ..key }
}

fn write_key(key: &Key) -> Vec<u8> {
    let mut place = (key.partition.len() as u16).to_le_bytes().to_vec();
    place.extend(&key.partition);
    place.extend(&key.sort);
    place
}

fn read_key(place: &[u8]) -> Option<Key> {
    let (length, rest) = place.split_at_checked(2)?;
    let length = u16::from_le_bytes(length.try_into().ok()?);
    let (partition, sort) = rest.split_at_checked(usize::from(length))?;
    let key = Key {
        partition: partition.into(),
        sort: sort.into(),
    };
    (!sort.is_empty()).then_some(key)
}

/// A place among what was used.
struct UsedSpot {
    key: Key,
    /// Behind this limit of the item; none: behind the item.
    limit: Option<String>,
}

impl UsedSpot {
    fn write(&self) -> Vec<u8> {
        // No limit is called nothing.
        let limit = self.limit.as_deref().unwrap_or_default();
        let mut place = (limit.len() as u32).to_le_bytes().to_vec();
        place.extend(limit.as_bytes());
        place.extend(write_key(&self.key));
        place
    }

    fn read(place: &[u8]) -> Option<Self> {
        let (length, rest) = place.split_first_chunk::<4>()?;
        let (limit, key) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let limit = str::from_utf8(limit).ok()?;
        Some(Self {
            key: read_key(key)?,
            limit: (!limit.is_empty()).then(|| limit.into()),
        })
    }
}

/// A place among leases.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Spot {
    partition: Vec<u8>,
    /// Nothing of this root is left.
    is_over: bool,
    /// Behind this; empty: from its first on.
    position: Vec<u8>,
}

impl Spot {
    const fn begin(partition: Vec<u8>) -> Self {
        Self {
            partition,
            is_over: false,
            position: Vec::new(),
        }
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.is_over), self.position.len() as u8];
        bytes.extend(&self.position);
        bytes.extend(&self.partition);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        let mut reader = Reader::new(bytes);
        let unknown = |_| StoreError::UnknownPage;
        let (is_over, length) = (
            reader.u8().map_err(unknown)? == 1,
            usize::from(reader.u8().map_err(unknown)?),
        );
        let rest = reader.rest();
        let (position, partition) = rest
            .split_at_checked(length)
            .filter(|(position, partition)| {
                !partition.is_empty() && (position.is_empty() || keys::read_due(position).is_some())
            })
            .ok_or(StoreError::UnknownPage)?;
        Ok(Self {
            partition: partition.into(),
            is_over,
            position: position.into(),
        })
    }
}
