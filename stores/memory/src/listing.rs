//! Keys, leases and usage, a page at a time.
//!
//! A page goes through the shards in order; each is locked for a bounded number
//! of its rows. Where a page ends is a shard and a position in it: for keys a hash
//! (a row's index in the array changes, its hash does not), for leases an
//! expiry, for usage a record. Hashes are seeded at random, so a cursor is good for this table alone;
//! a mark made of the seed tells it from every other's.

use std::hash::BuildHasher;

use tidegate_store::core::Timestamp;
use tidegate_store::key::root_of;
use tidegate_store::ledger::Record;
use tidegate_store::{HeldLease, Hour, Hours, Listing, OwnedKey, Page, Select, StoreError, Usage};

use crate::hash::hash_of;
use crate::rows::{self, PackedRows, Rows};
use crate::shard::Shard;
use crate::side_table::SideTable;
use crate::table::MemoryTable;
use crate::usage::UsagePlace;

/// How many rows are looked at for one page, about.
const LOOKED_AT: usize = 8_192;
/// How many of one shard's at a time, about.
const AT_ONCE: usize = 512;

/// A position in a table: the shard, and where in it. Written in this order, after
/// the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PageCursor {
    shard: u16,
    at: i64,
    rank: u64,
}

/// How many bytes a cursor has, with its mark.
const CURSOR_BYTES: usize = 4 + 2 + 8 + 8;

impl PageCursor {
    const START: Self = Self::shard(0);

    const fn shard(shard: u16) -> Self {
        Self {
            shard,
            at: i64::MIN,
            rank: 0,
        }
    }

    fn write(self, mark: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CURSOR_BYTES);
        bytes.extend(mark.to_le_bytes());
        bytes.extend(self.shard.to_le_bytes());
        bytes.extend(self.at.to_le_bytes());
        bytes.extend(self.rank.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8], mark: u32) -> Option<Self> {
        let bytes: &[u8; CURSOR_BYTES] = bytes.try_into().ok()?;
        let (marked, rest) = bytes.split_first_chunk()?;
        let (shard, rest) = rest.split_first_chunk()?;
        let (at, rank) = rest.split_first_chunk()?;
        let cursor = Self {
            shard: u16::from_le_bytes(*shard),
            at: i64::from_le_bytes(*at),
            rank: u64::from_le_bytes(rank.try_into().ok()?),
        };
        (u32::from_le_bytes(*marked) == mark).then_some(cursor)
    }
}

impl MemoryTable {
    pub(crate) fn page_of_keys(&self, listing: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        if let Select::Key(key) = listing.select {
            return Ok(self.one_key(key, listing.now));
        }
        self.page(listing, |shard, cursor, page| {
            let most = listing.most - page.len();
            let (keys, next) = shard.keys_from(cursor.rank, most, listing);
            page.extend(keys);
            next.map(|rank| PageCursor { rank, ..cursor })
        })
    }

    pub(crate) fn page_of_leases(
        &self,
        listing: &Listing<'_>,
    ) -> Result<Page<HeldLease>, StoreError> {
        let leases = |shard: &Shard, cursor: PageCursor, page: &mut Vec<HeldLease>| {
            let after = (Timestamp::from_micros(cursor.at), cursor.rank);
            let most = listing.most - page.len();
            let (held, next) = shard
                .ledger
                .held_after(after, most, |id| self.hasher.hash_one(id));
            let held = held.into_iter().filter(|record| {
                listing.takes(record.owner.bytes()) && record.granted.expires_at > listing.now
            });
            page.extend(held.map(told));
            next.map(|(at, rank)| PageCursor {
                at: at.as_micros(),
                rank,
                ..cursor
            })
        };
        match listing.select {
            Select::Key(key) => self.page_of_one_shard(key, listing, leases),
            _ => self.page(listing, leases),
        }
    }

    pub(crate) fn page_of_usage(
        &self,
        listing: &Listing<'_>,
        hours: Hours,
    ) -> Result<Page<Usage>, StoreError> {
        let mark = self.mark();
        let after = listing.after.map(|after| read_place(after, mark));
        let after = after.transpose()?;
        let (only, mut shard, mut place) = match (listing.select, after) {
            (Select::Key(key), after) => {
                let root = root_of(key, self.last_plan().levels());
                let shard = Self::shard_number(hash_of(&self.hasher, root));
                (true, shard, after.and_then(|(_, place)| place))
            }
            (_, Some((shard, place))) => (false, usize::from(shard), place),
            (_, None) => (false, 0, None),
        };
        let mut page = Page::empty();
        for _ in 0..LOOKED_AT / AT_ONCE {
            let Some(at) = self.shards.get(shard) else {
                return Ok(page);
            };
            let asked = (listing, hours);
            let mut locked = at.0.lock();
            locked.end_expired(listing.now, &self.capacity);
            let usage = &locked.usage;
            place = usage.page(place.as_ref(), asked, AT_ONCE, &mut page.items);
            match place {
                None if only => return Ok(page),
                None => shard += 1,
                Some(_) => {}
            }
            if page.items.len() >= listing.most {
                break;
            }
        }
        if shard < self.shards.len() {
            page.next = Some(write_place(shard as u16, place.as_ref(), mark));
        }
        Ok(page)
    }

    /// The key, if its state matters.
    fn one_key(&self, key: &[u8], now: Timestamp) -> Page<OwnedKey> {
        let mut page = Page::empty();
        let root = root_of(key, self.last_plan().levels());
        let shard = self.shard(hash_of(&self.hasher, root)).lock();
        let found = shard.rows.find(hash_of(&self.hasher, key), key);
        if found.is_some_and(|at| shard.matters_at(at, now)) {
            page.items.push(OwnedKey::new(key));
        }
        page
    }

    /// A page of what `list` finds in the shards, one after the other. It answers
    /// where it goes on in the same one, if it does.
    fn page<T>(
        &self,
        listing: &Listing<'_>,
        list: impl Fn(&Shard, PageCursor, &mut Vec<T>) -> Option<PageCursor>,
    ) -> Result<Page<T>, StoreError> {
        let mut cursor = self.cursor(listing)?;
        let mut page = Page::empty();
        for _ in 0..LOOKED_AT / AT_ONCE {
            let Some(shard) = self.shards.get(usize::from(cursor.shard)) else {
                return Ok(page);
            };
            let next = list(&shard.0.lock(), cursor, &mut page.items);
            cursor = next.unwrap_or(PageCursor::shard(cursor.shard + 1));
            if page.items.len() >= listing.most {
                break;
            }
        }
        if usize::from(cursor.shard) < self.shards.len() {
            page.next = Some(cursor.write(self.mark()));
        }
        Ok(page)
    }

    /// The same for the shard of one key.
    fn page_of_one_shard<T>(
        &self,
        key: &[u8],
        listing: &Listing<'_>,
        list: impl Fn(&Shard, PageCursor, &mut Vec<T>) -> Option<PageCursor>,
    ) -> Result<Page<T>, StoreError> {
        let cursor = self.cursor(listing)?;
        let mut page = Page::empty();
        let root = root_of(key, self.last_plan().levels());
        let shard = self.shard(hash_of(&self.hasher, root)).lock();
        let next = list(&shard, cursor, &mut page.items);
        page.next = next.map(|cursor| cursor.write(self.mark()));
        Ok(page)
    }

    fn cursor(&self, listing: &Listing<'_>) -> Result<PageCursor, StoreError> {
        let Some(after) = listing.after else {
            return Ok(PageCursor::START);
        };
        PageCursor::read(after, self.mark()).ok_or(StoreError::UnknownPage)
    }

    /// What no other table's hashes have.
    fn mark(&self) -> u32 {
        self.hasher.hash_one("mark") as u32
    }
}

/// A position in a table's usage: the mark, the shard, and behind which record in it, if any:
/// `hour u32, limit's length u32, limit, key`.
fn write_place(shard: u16, place: Option<&UsagePlace>, mark: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(mark.to_le_bytes());
    bytes.extend(shard.to_le_bytes());
    if let Some((key, limit, hour)) = place {
        bytes.extend(hour.number().to_le_bytes());
        bytes.extend((limit.len() as u32).to_le_bytes());
        bytes.extend(limit.as_bytes());
        bytes.extend(key.bytes());
    }
    bytes
}

fn read_place(bytes: &[u8], mark: u32) -> Result<(u16, Option<UsagePlace>), StoreError> {
    let read = || {
        let (marked, rest) = bytes.split_first_chunk()?;
        let (shard, rest) = rest.split_first_chunk()?;
        let shard = u16::from_le_bytes(*shard);
        if u32::from_le_bytes(*marked) != mark {
            return None;
        }
        if rest.is_empty() {
            return Some((shard, None));
        }
        let (hour, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (limit, key) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let limit = std::str::from_utf8(limit).ok()?;
        let hour = Hour::new(u32::from_le_bytes(*hour));
        Some((shard, Some((OwnedKey::new(key), limit.into(), hour))))
    };
    read().ok_or(StoreError::UnknownPage)
}

impl Shard {
    /// Some keys whose state matters, from a hash on, and where to go on.
    fn keys_from(
        &self,
        from: u64,
        most: usize,
        listing: &Listing<'_>,
    ) -> (Vec<OwnedKey>, Option<u64>) {
        let (found, mut next) = self.scan(from, most.min(AT_ONCE));
        let mut keys = Vec::new();
        for (hash, at) in found {
            let Some(key) = self.key_at(at) else { continue };
            if !listing.takes(key.bytes()) || !self.matters_at(at, listing.now) {
                continue;
            }
            if keys.len() == most {
                next = Some(hash);
                break;
            }
            keys.push(key.clone());
        }
        (keys, next)
    }

    fn scan(&self, from: u64, rows: usize) -> (Vec<(u64, usize)>, Option<u64>) {
        let hash = |key: &[u8]| hash_of(&self.hasher, key);
        match &self.rows {
            Rows::Packed(packed_rows) => packed_rows.slab.scan(from, rows, hash),
            Rows::General(slab) => slab.scan(from, rows, hash),
        }
    }

    fn key_at(&self, at: usize) -> Option<&OwnedKey> {
        match &self.rows {
            Rows::Packed(packed_rows) => packed_rows.slab.slot(at).map(|slot| &slot.key),
            Rows::General(slab) => slab.slot(at).map(|slot| &slot.key),
        }
    }

    /// Whether the row at `at` is more than "never seen". Nothing is changed.
    fn matters_at(&self, at: usize, now: Timestamp) -> bool {
        let when = match &self.rows {
            Rows::Packed(packed_rows) => self
                .aside_until(packed_rows, at)
                .or_else(|| self.forget_at(at, now)),
            Rows::General(_) => self.forget_at(at, now),
        };
        when.is_some_and(|when| !rows::is_past(when, now))
    }

    /// From when the row at `at` equals "never seen", if it is kept aside.
    fn aside_until(&self, packed_rows: &PackedRows, at: usize) -> Option<Timestamp> {
        let packed = packed_rows.slab.slot(at)?.value;
        if !SideTable::is_mark(packed) {
            return None;
        }
        let side_row = packed_rows.side_table.get(packed)?;
        match (&side_row.state, &side_row.bucket) {
            (Some(state), _) => {
                let rule = side_row.own.as_ref().unwrap_or(&self.plan.limits()[0].rule);
                Some(rule.forget_at(state))
            }
            (None, Some(bucket)) => Some(bucket.forget_at()),
            (None, None) => Some(Timestamp::MIN),
        }
    }
}

impl Rows {
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        match self {
            Self::Packed(packed_rows) => packed_rows.slab.find(hash, key),
            Self::General(slab) => slab.find(hash, key),
        }
    }
}

fn told(record: &Record<OwnedKey>) -> HeldLease {
    let shares = record.shares.iter();
    HeldLease {
        key: record.owner.clone(),
        id: record.granted.id,
        granted_at: record.granted.granted_at,
        expires_at: record.granted.expires_at,
        fence: record.granted.fence,
        taken: shares.map(|share| (share.uid, share.amount)).collect(),
    }
}
