//! What was used of each row and limit, hour by hour: the records of one shard.
//!
//! Each row has its records side by side, so that an hour more costs a few bytes and not the
//! key again. What is over is dropped a little at a time by whoever notes something, and is
//! told to nobody before. How many records a table has is [bounded](crate::Bounds); a take or a
//! debit that would need one more is refused then, and what has been granted is counted all
//! the same.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidegate_store::core::{Amount, Span, Timestamp};
use tidegate_store::{Hour, Hours, KeyPath, Listing, OwnedKey, Plan, Usage, UsageChange, usage};

use crate::capacity::Capacity;

/// So many hours that are over are dropped by one change at most.
const DROPPED_AT_ONCE: usize = 32;

/// A record: of which row, of which limit, in which hour.
pub type UsagePlace = (OwnedKey, Arc<str>, Hour);

/// The records of one row: of each limit, those of its hours.
type RowUsage = BTreeMap<Arc<str>, BTreeMap<Hour, u64>>;

/// The records of one shard.
#[derive(Debug, Default)]
pub(crate) struct UsageBook {
    rows: BTreeMap<Box<[u8]>, RowUsage>,
    /// For how long records are kept, by the last plan that counts.
    keep: Span,
    /// The row that was looked at last for what is over.
    hand: Box<[u8]>,
    /// Which have changed, if a journal wants to know.
    changed: Option<HashSet<UsagePlace, RandomState>>,
}

impl UsageBook {
    /// From here on, notes what changes.
    pub(crate) fn note_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// What has changed since the last time.
    pub(crate) fn take_changed(&mut self) -> HashSet<UsagePlace, RandomState> {
        self.changed
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Notes again what was taken.
    pub(crate) fn note_again(&mut self, places: HashSet<UsagePlace, RandomState>) {
        if let Some(changed) = &mut self.changed {
            changed.extend(places);
        }
    }

    /// How much is noted there.
    pub(crate) fn at(&self, key: &[u8], limit: &str, hour: Hour) -> Option<u64> {
        self.rows.get(key)?.get(limit)?.get(&hour).copied()
    }

    /// From here on records are kept for so long; where none is made any more, for as long as
    /// before.
    pub(crate) fn keep_for(&mut self, keep: Option<Span>) {
        self.keep = keep.unwrap_or(self.keep);
    }

    /// For how long records are kept.
    pub(crate) const fn keep(&self) -> Span {
        self.keep
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Puts a record back as a journal has it, which was to be kept for so long. If the plan
    /// says something else, it is to be written again.
    pub(crate) fn restore(
        &mut self,
        (record, kept): (Usage, Span),
        plan_says: Option<Span>,
        capacity: &Capacity,
    ) {
        match (plan_says, &mut self.changed) {
            (None, _) => self.keep = self.keep.max(kept),
            (Some(keep), Some(changed)) if keep != kept => {
                changed.insert((record.key.clone(), Arc::clone(&record.limit), record.hour));
            }
            _ => {}
        }
        let row = self.rows.entry(record.key.bytes().into()).or_default();
        let hours = row.entry(record.limit).or_default();
        if hours.insert(record.hour, record.amount).is_none() {
            capacity.reserve_usage(1);
        }
    }

    /// How many records a charge of these amounts at `now` needs that are not there.
    pub(crate) fn missing(
        &self,
        (plan, path): (&Plan, &KeyPath<'_>),
        amounts: &[Amount],
        now: Timestamp,
    ) -> usize {
        let asked = plan.limits().iter().zip(amounts);
        let missing = asked.filter(|(limit, amount)| {
            **amount > 0
                && limit.level < path.depth()
                && !limit.rule.is_held()
                && self
                    .at(&path.row(limit.level), &limit.name, Hour::of(now))
                    .is_none()
        });
        missing.count()
    }

    /// Adds what a command, or the expiry of a lease, has changed of the rows of `path`.
    pub(crate) fn add(
        &mut self,
        path: &KeyPath<'_>,
        changes: impl Iterator<Item = UsageChange>,
        now: Timestamp,
        capacity: &Capacity,
    ) {
        let oldest = Hour::oldest(now, self.keep);
        for change in changes {
            // What is over is not noted again.
            if change.hour >= oldest {
                let key = path.row(change.level);
                self.change(&key, &change, capacity);
            }
        }
        self.glance(now, capacity);
    }

    fn change(&mut self, key: &[u8], change: &UsageChange, capacity: &Capacity) {
        if !self.rows.contains_key(key) {
            self.rows.insert(key.into(), RowUsage::new());
        }
        let row = self.rows.get_mut(key).expect("it was just looked for");
        if !row.contains_key(&change.limit) {
            row.insert(Arc::clone(&change.limit), BTreeMap::new());
        }
        let hours = row.get_mut(&change.limit).expect("as well");
        match hours.entry(change.hour) {
            Entry::Occupied(mut used) => {
                *used.get_mut() = usage::changed(*used.get(), change.amount);
            }
            Entry::Vacant(place) => {
                place.insert(usage::changed(0, change.amount));
                capacity.reserve_usage(1);
            }
        }
        if let Some(changed) = &mut self.changed {
            let limit = Arc::clone(&change.limit);
            changed.insert((OwnedKey::new(key), limit, change.hour));
        }
    }

    /// Looks at the next row, and drops some of what is over there.
    pub(crate) fn glance(&mut self, now: Timestamp, capacity: &Capacity) {
        let oldest = Hour::oldest(now, self.keep);
        let after = (Excluded(&*self.hand), Unbounded);
        let Some((key, _)) = self.rows.range::<[u8], _>(after).next() else {
            self.hand = Box::default();
            return;
        };
        self.hand.clone_from(key);
        let key = self.hand.clone();
        self.drop_over(&key, oldest, DROPPED_AT_ONCE, capacity);
    }

    /// Drops all that is over at `now`; whether there was anything.
    pub(crate) fn sweep(&mut self, now: Timestamp, capacity: &Capacity) -> bool {
        let oldest = Hour::oldest(now, self.keep);
        let keys: Vec<Box<[u8]>> = self.rows.keys().cloned().collect();
        let dropped = keys
            .iter()
            .map(|key| self.drop_over(key, oldest, usize::MAX, capacity));
        dropped.sum::<usize>() > 0
    }

    fn drop_over(&mut self, key: &[u8], oldest: Hour, most: usize, capacity: &Capacity) -> usize {
        let Some(row) = self.rows.get_mut(key) else {
            return 0;
        };
        let mut dropped = 0;
        let changed = &mut self.changed;
        row.retain(|limit, hours| {
            while dropped < most
                && let Some(first) = hours.first_entry()
                && *first.key() < oldest
            {
                if let Some(changed) = changed {
                    changed.insert((OwnedKey::new(key), Arc::clone(limit), *first.key()));
                }
                first.remove();
                dropped += 1;
            }
            !hours.is_empty()
        });
        if row.is_empty() {
            self.rows.remove(key);
        }
        capacity.give_usage_back(dropped);
        dropped
    }

    /// Adds to `page` the records of `hours` that are not over at `now`, of rows that `listing`
    /// takes, in the order of their keys, limits and hours, from behind a record on, until it
    /// is full. It looks at so many rows and records at most; answers where to go on.
    pub(crate) fn page(
        &self,
        after: Option<&UsagePlace>,
        (listing, hours): (&Listing<'_>, Hours),
        mut looks: usize,
        page: &mut Vec<Usage>,
    ) -> Option<UsagePlace> {
        let oldest = Hour::oldest(listing.now, self.keep);
        let beginning = listing.select.beginning();
        let begin = after.map_or(beginning, |(key, ..)| key.bytes());
        for (key, row) in self.rows.range::<[u8], _>((Included(begin), Unbounded)) {
            if !key.starts_with(beginning) {
                return None;
            }
            let after = after.filter(|(of, ..)| of.is(key));
            let limits = row.iter().filter(|_| listing.takes(key));
            let limits = limits.filter(|(limit, _)| after.is_none_or(|(_, of, _)| of <= limit));
            for (limit, used) in limits {
                let after = after.filter(|(_, of, _)| of == limit);
                let behind = after.map_or(Hour::default(), |(.., hour)| hour.next());
                let from = behind.max(oldest).max(hours.from);
                for (&hour, &amount) in used.range(from..hours.to.max(from)) {
                    let place = (OwnedKey::new(key), Arc::clone(limit), hour);
                    looks = looks.saturating_sub(1);
                    if amount > 0 {
                        page.push(told(&place, amount));
                    }
                    if looks == 0 || page.len() >= listing.most {
                        return Some(place);
                    }
                }
            }
            looks = looks.saturating_sub(1);
            if looks == 0 {
                return Some(behind_row(key));
            }
        }
        None
    }
}

fn told((key, limit, hour): &UsagePlace, amount: u64) -> Usage {
    Usage {
        key: key.clone(),
        limit: Arc::clone(limit),
        hour: *hour,
        amount,
    }
}

/// The first place behind all records of a row: no limit is called nothing.
fn behind_row(key: &[u8]) -> UsagePlace {
    let next = [key, &[0]].concat();
    (OwnedKey::new(&next), "".into(), Hour::default())
}
