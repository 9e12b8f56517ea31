//! Keys, leases and usage, a page at a time.
//!
//! A page goes through the buckets in their order, and in each through its records in
//! theirs: rows by key, leases by when they are due, usage by key, hour and limit. It looks at a bounded number of them.
//! Where it ends are the table, the bucket and the key of the last.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tidegate_store::core::Timestamp;
use tidegate_store::key::{root_of, root_of_beginning};
use tidegate_store::optimistic::{Clock, KeptRow, ListedRow, PlanRevision, held_lease};
use tidegate_store::revisions::Revision;
use tidegate_store::{
    HeldLease, Hours, Listing, OwnedKey, Page, RootsOnPage, Select, StoreError, Usage,
};

use crate::decide::Inner;
use crate::error::Fault;
use crate::kept::{Lease, NOBODY, Used};
use crate::keys::{RootKeys, kind, parse, used_place};
use crate::layout::{shard, shard_at};
use crate::process::There;
use crate::registry;
use crate::root::{ROW_HEAD, Root, id_of, row_instants};
use crate::txn::Txn;

/// So many records are looked at for one page.
const LOOKED_AT: usize = 1_024;

/// Where a listing goes on.
struct Cursor {
    bucket: usize,
    /// Behind this key of it; from its beginning on if there is none.
    key: Option<Vec<u8>>,
}

/// All buckets of roots.
const BUCKETS: usize = shard::ROOTS * shard::BUCKETS;

/// What a listing says of one record.
enum Look<T> {
    Listed(T),
    Passed,
}

impl Inner {
    pub(crate) fn keys(&self, wanted: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        let own = self.revisions.settled();
        self.page(wanted, kind::ROW, |txn, record, rest, now| {
            let now = match self.shared.clock {
                Clock::Server => now,
                Clock::Caller => wanted.now,
            };
            if !wanted.takes(rest) {
                return Ok(Look::Passed);
            }
            let kept = txn.value(record)?;
            match self.forgotten_at(own.as_ref(), rest, &kept, now)? > now {
                true => Ok(Look::Listed(OwnedKey::new(rest))),
                false => Ok(Look::Passed),
            }
        })
    }

    /// From when on a kept row equals "never seen", by the limits of now.
    fn forgotten_at(
        &self,
        own: Option<&Revision<Arc<PlanRevision>>>,
        key: &[u8],
        kept: &[u8],
        now: Timestamp,
    ) -> Result<Timestamp, Fault> {
        let (forget_at, _) = row_instants(kept)?;
        let Some(own) = own else {
            return Ok(forget_at);
        };
        let kept = KeptRow {
            key,
            bytes: &kept[ROW_HEAD..],
            forget_at,
        };
        loop {
            match ListedRow::of(&kept, &own.known, &self.known.all(), now)? {
                ListedRow::ForgottenAt(at) => return Ok(at),
                ListedRow::Revisions(numbers) => {
                    let found = registry::fetch(&self.shared.steps, self.number, &numbers);
                    // Of one that nobody knows any more, nothing newer can be told.
                    let Ok(found) = found else {
                        return Ok(forget_at);
                    };
                    self.known.learn(found);
                }
            }
        }
    }

    pub(crate) fn leases(&self, wanted: &Listing<'_>) -> Result<Page<HeldLease>, StoreError> {
        let page = self.page(wanted, kind::DUE, |txn, record, _, now| {
            let (mut key, id) = (txn.key(record)?, id_of(&txn.value(record)?)?);
            // The lease stands in the same bucket, under the same root.
            let root = parse(&key).map_or(0, |parsed| parsed.root.len());
            key.truncate(8 + root);
            key.push(kind::LEASE);
            key.extend_from_slice(&id.to_be_bytes());
            let bucket = record_bucket(&key, txn.seed());
            let Some(lease) = txn.look_up(bucket, &key)? else {
                return Ok(Look::Passed);
            };
            let lease = Lease::decode(&lease)?;
            let now = match self.shared.clock {
                Clock::Server => now,
                Clock::Caller => wanted.now,
            };
            let held = held_lease(lease.record, now, wanted.now)?;
            let held = held.filter(|held| wanted.takes(held.key.bytes()));
            match held {
                Some(held) => Ok(Look::Listed((held, lease.process))),
                None => Ok(Look::Passed),
            }
        })?;
        // Whether holders are there is looked at without the lock.
        let (items, mut there) = (page.items.into_iter(), There::default());
        let held = items.filter(|(_, process)| *process == NOBODY || there.is(*process));
        Ok(Page {
            items: held.map(|(held, _)| held).collect(),
            next: page.next,
        })
    }

    /// A page of usage, once what has expired under its roots has given back what it does.
    pub(crate) fn usage(
        &self,
        wanted: &Listing<'_>,
        hours: Hours,
    ) -> Result<Page<Usage>, StoreError> {
        let mut roots = RootsOnPage::default();
        loop {
            let page = self.kept_usage(wanted, hours)?;
            let new = roots.new_on(&page, wanted.levels);
            if new.is_empty() {
                return Ok(page);
            }
            let revision = self.revision()?;
            for root in new {
                let look = revision.known.look(root.bytes(), wanted.now);
                // One that cannot be looked at, now or ever, keeps no other from being listed.
                let _ = look.map(|look| self.execute(&look));
            }
        }
    }

    fn kept_usage(&self, wanted: &Listing<'_>, hours: Hours) -> Result<Page<Usage>, StoreError> {
        let plan = self.revisions.newest_plan();
        self.page(wanted, kind::USAGE, |txn, record, rest, now| {
            let place = used_place(rest);
            let (key, hour, limit) = place.ok_or(Fault::Corrupt("usage is of no row"))?;
            if !hours.has(hour) || !wanted.takes(key) {
                return Ok(Look::Passed);
            }
            let used = Used::decode(&txn.value(record)?)?;
            let now = match self.shared.clock {
                Clock::Server => now,
                Clock::Caller => wanted.now,
            };
            let plan_says = plan
                .as_ref()
                .is_some_and(|plan| plan.usage_is_over(hour, now));
            let is_over = used.over_at <= now || plan_says;
            match used.amount > 0 && !is_over {
                true => Ok(Look::Listed(Usage {
                    key: OwnedKey::new(key),
                    limit: limit.into(),
                    hour,
                    amount: used.amount,
                })),
                false => Ok(Look::Passed),
            }
        })
    }

    /// How many keys matter now.
    pub(crate) fn count(&self) -> Result<usize, StoreError> {
        let mut count = 0;
        let mut cursor = Cursor {
            bucket: 0,
            key: None,
        };
        let all = Listing {
            select: Select::All,
            after: None,
            most: usize::MAX,
            now: Timestamp::MIN,
            levels: 1,
        };
        let own = self.revisions.settled();
        loop {
            let mut looked = 0;
            let end = self.look(
                &mut cursor,
                &all,
                kind::ROW,
                &mut looked,
                |txn, record, rest, now| {
                    // By the caller's clock nothing is forgotten by itself.
                    let (now, least) = match self.shared.clock {
                        Clock::Server => (now, now),
                        Clock::Caller => (Timestamp::MAX, Timestamp::MIN),
                    };
                    let kept = txn.value(record)?;
                    let at = self.forgotten_at(own.as_ref(), rest, &kept, now)?;
                    count += usize::from(at > least);
                    Ok(true)
                },
            )?;
            if end {
                return Ok(count);
            }
        }
    }

    fn page<T>(
        &self,
        wanted: &Listing<'_>,
        kind: u8,
        mut see: impl FnMut(&Txn<'_>, crate::tree::Record, &[u8], Timestamp) -> Result<Look<T>, Fault>,
    ) -> Result<Page<T>, StoreError> {
        let mut cursor = match wanted.after {
            Some(after) => self.cursor(after)?,
            None => Cursor {
                bucket: self.first_bucket(&wanted.select),
                key: None,
            },
        };
        let (mut page, mut looked) = (Page::empty(), 0);
        let is_end = self.look(
            &mut cursor,
            wanted,
            kind,
            &mut looked,
            |txn, record, rest, now| {
                if let Look::Listed(item) = see(txn, record, rest, now)? {
                    page.items.push(item);
                }
                Ok(page.items.len() < wanted.most.max(1))
            },
        )?;
        if !is_end {
            page.next = Some(self.after(&cursor));
        }
        Ok(page)
    }

    /// Looks at records of a kind from a place on, until `see` has seen enough or it was
    /// many; `true`: there are no more.
    fn look(
        &self,
        cursor: &mut Cursor,
        wanted: &Listing<'_>,
        kind: u8,
        looked: &mut usize,
        mut see: impl FnMut(&Txn<'_>, crate::tree::Record, &[u8], Timestamp) -> Result<bool, Fault>,
    ) -> Result<bool, StoreError> {
        let last = match self.only_root(&wanted.select) {
            Some(keys) => number_of(&keys),
            None => BUCKETS - 1,
        };
        let told = |fault: Fault| fault.told(|| self.shared.steps.full());
        while cursor.bucket <= last {
            // Buckets of one shard stand together.
            let of = cursor.bucket / shard::BUCKETS;
            if kind == kind::DUE {
                let end = last.min((of + 1) * shard::BUCKETS - 1);
                self.settle(of, cursor.bucket..=end)?;
            }
            let txn = self.shared.steps.begin(of)?;
            let now = txn.now();
            while cursor.bucket <= last && cursor.bucket / shard::BUCKETS == of {
                let goes_on = self.look_at_bucket(&txn, cursor, kind, looked, |record, rest| {
                    see(&txn, record, rest, now)
                });
                if !goes_on.map_err(told)? {
                    return Ok(false);
                }
                cursor.bucket += 1;
                cursor.key = None;
            }
        }
        Ok(true)
    }

    /// Gives the leases in place of some buckets of a shard records of their own: those of a root in a
    /// step, which finds room for so many in a full segment.
    fn settle(&self, of: usize, buckets: RangeInclusive<usize>) -> Result<(), StoreError> {
        let steps = &self.shared.steps;
        for bucket in buckets.map(|bucket| bucket % shard::BUCKETS) {
            let head = shard_at(of) + shard::BUCKETS_AT + bucket;
            if steps.segment.mapping().get(head) == 0 {
                continue;
            }
            let mut from = Some(self.number.to_be_bytes().to_vec());
            while let Some(behind) = from {
                from = steps.step(of, |txn| self.settle_root(txn, bucket, &behind))?;
            }
        }
        Ok(())
    }

    /// Gives the leases in place of the next root of a bucket records of their own; behind which key the
    /// others are, if there was one.
    fn settle_root(
        &self,
        txn: &mut Txn<'_>,
        bucket: usize,
        behind: &[u8],
    ) -> Result<Option<Vec<u8>>, Fault> {
        let (table, seed) = (self.number.to_be_bytes(), txn.seed());
        let (mut from, mut is_behind) = (behind.to_vec(), true);
        while let Some(record) = txn.seek(bucket, &from, is_behind)? {
            from = txn.key(record)?.into_vec();
            let parsed = parse(&from).filter(|_| from.starts_with(&table));
            let Some(parsed) = parsed else {
                return Ok(None);
            };
            is_behind = parsed.kind >= kind::IN_PLACE;
            let is_in_place = parsed.kind == kind::IN_PLACE;
            if is_in_place {
                let keys = RootKeys::new(seed, self.number, parsed.root);
                Root::load(txn, &keys)?;
            }
            from.truncate(8 + parsed.root.len());
            // A record of an earlier kind may go on with any byte.
            from.push(match is_behind {
                true => kind::LAST,
                false => kind::IN_PLACE,
            });
            if is_in_place {
                return Ok(Some(from));
            }
        }
        Ok(None)
    }

    /// As [`look`](Self::look), in one bucket; `false`: it has seen enough.
    fn look_at_bucket(
        &self,
        txn: &Txn<'_>,
        cursor: &mut Cursor,
        wanted: u8,
        looked: &mut usize,
        mut see: impl FnMut(crate::tree::Record, &[u8]) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        let (bucket, table) = (cursor.bucket % shard::BUCKETS, self.number.to_be_bytes());
        let mut is_behind = cursor.key.is_some();
        let mut from = cursor.key.take().unwrap_or_else(|| table.to_vec());
        while let Some(record) = txn.seek(bucket, &from, is_behind)? {
            from = txn.key(record)?.into_vec();
            is_behind = true;
            if !from.starts_with(&table) {
                break;
            }
            let Some(parsed) = parse(&from) else {
                return Err(Fault::Corrupt("a key is too short"));
            };
            if parsed.kind != wanted {
                // A record of an earlier kind may go on with any byte: what is wanted is looked for by
                // where it begins.
                is_behind = parsed.kind > wanted;
                from.truncate(8 + parsed.root.len());
                from.push(match is_behind {
                    true => kind::LAST,
                    false => wanted,
                });
                continue;
            }
            *looked += 1;
            let goes_on = see(record, parsed.rest)?;
            if !goes_on || *looked >= LOOKED_AT {
                cursor.key = Some(from);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The only root whose records are wanted, if there is only one.
    fn only_root(&self, select: &Select<'_>) -> Option<RootKeys> {
        let levels = self.revisions.newest_plan()?.levels();
        let root = match *select {
            Select::Key(key) => root_of(key, levels),
            Select::Prefix(prefix) => match root_of_beginning(prefix, levels) {
                (root, true) => root,
                (_, false) => return None,
            },
            Select::All => return None,
        };
        Some(RootKeys::new(
            self.shared.steps.segment.seed(),
            self.number,
            root,
        ))
    }

    fn first_bucket(&self, select: &Select<'_>) -> usize {
        self.only_root(select).map_or(0, |keys| number_of(&keys))
    }

    /// The end of a page.
    fn after(&self, cursor: &Cursor) -> Vec<u8> {
        let mut after = self.number.to_be_bytes().to_vec();
        after.extend((cursor.bucket as u32).to_be_bytes());
        after.extend(cursor.key.as_deref().unwrap_or_default());
        after
    }

    fn cursor(&self, after: &[u8]) -> Result<Cursor, StoreError> {
        let rest = after.strip_prefix(&self.number.to_be_bytes());
        let parted = rest.and_then(|rest| rest.split_first_chunk::<4>());
        let (bucket, key) = parted.ok_or(StoreError::UnknownPage)?;
        let bucket = u32::from_be_bytes(*bucket) as usize;
        if bucket >= BUCKETS {
            return Err(StoreError::UnknownPage);
        }
        Ok(Cursor {
            bucket,
            key: (!key.is_empty()).then(|| key.to_vec()),
        })
    }
}

/// The number of a root's bucket among those of all shards.
const fn number_of(keys: &RootKeys) -> usize {
    keys.shard * shard::BUCKETS + keys.bucket
}

/// In which bucket of its shard a record of a root is.
fn record_bucket(key: &[u8], seed: u64) -> usize {
    let parsed = parse(key);
    let table = key
        .first_chunk::<4>()
        .map_or(0, |table| u32::from_be_bytes(*table));
    RootKeys::new(seed, table, parsed.map_or(&[][..], |parsed| parsed.root)).bucket
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate::{DecisionError, Limit, LimitSet, PageOf, Request};

    use super::*;
    use crate::keys::Spot;
    use crate::layout::SMALLEST;
    use crate::options::Options;
    use crate::store::ShmStore;

    const FOREVER: Duration = Duration::from_secs(400 * 86_400);

    /// Those of all roots of a bucket were given records in one step, for which a full segment has no
    /// room.
    #[test]
    fn leases_in_place_of_one_bucket_are_listed_in_a_full_segment() {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let options = Options {
            dir: dir.path().to_owned(),
            size: SMALLEST,
            ..Options::default()
        };
        let store = Arc::new(ShmStore::open("t", options).expect("a segment"));
        let set = |name: &str, limit: Limit| {
            let set = LimitSet::builder().name(name).limit(limit);
            set.store(Arc::clone(&store) as _).build().expect("sound")
        };
        let slots = set("slots", Limit::concurrency("slot", 9).ttl(FOREVER));
        let budget = set("budget", Limit::budget("calls", 2, FOREVER));
        let steps = &store.0.shared.steps;
        let (table, _) = registry::find(steps, "slots", false)
            .expect("an answer")
            .expect("it is open");
        let spot = |key: &str| Spot::new(steps.segment.seed(), table, key.as_bytes());
        let first = spot("0");
        let keys = (0..).map(|number: u32| number.to_string());
        let alike = keys.filter(|key| spot(key) == first);
        let keys: Vec<String> = alike.take(7).collect();
        let take = |key: &str| {
            let taken = slots.try_acquire(key, Request::default()).wait();
            taken.expect("an answer").granted().expect("it is free")
        };
        let mut held = Vec::new();
        for key in &keys {
            take(key).cancel().wait().expect("held");
            held.extend([take(key), take(key)]);
        }
        let (mut number, mut full) = (0, 0);
        while full < 2_000 {
            match budget.check(format!("key {number}").as_str(), 1).wait() {
                Ok(_) => {}
                Err(DecisionError::Store(StoreError::Full(_))) => full += 1,
                Err(other) => panic!("{other:?}"),
            }
            number += 1;
        }
        let all = PageOf {
            select: Select::All,
            after: None,
            most: 100,
        };
        let page = slots
            .list_leases(all)
            .wait()
            .expect("there is room for one root");
        assert_eq!(page.items.len(), held.len());
    }
}
