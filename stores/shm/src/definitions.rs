//! What is defined for an owner: records of their own, never dropped with any state; its
//! version, and the keys of its last changes. In the registry's shard:
//!
//! ```text
//! V length of the owner u32, owner         version u64
//! D length of the owner u32, owner, key    ends at i64, version u64, value
//! U length of the owner u32, owner, until i64 (big-endian), key    nothing: it ends then
//! C length of the owner u32, owner, version u64 (big-endian)    key
//! N length of the owner u32, owner         how many changes are noted
//! ```
//! Events are in `events`.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_store::core::{Span, Timestamp};
use tidegate_store::definitions::{MOST_CHANGES, page_size};
use tidegate_store::{Change, Defined, Definition, Definitions, Event, Page, StoreError};

use crate::error::Fault;
use crate::events;
use crate::owner::{Owner, word};
use crate::registry::instant;
use crate::steps::Steps;
use crate::tree::Bytes;
use crate::txn::Txn;
use crate::wakeup;

/// So many that are over are deleted by one change.
const MOST_OVER: usize = 100;

impl Owner<'_> {
    /// Its version.
    fn version(&self, txn: &Txn<'_>) -> Result<u64, Fault> {
        self.number(txn, b'V')
    }

    /// The number that is kept of it under a kind.
    fn number(&self, txn: &Txn<'_>, kind: u8) -> Result<u64, Fault> {
        let kept = txn.look_up(self.bucket, &self.of(kind, &[]))?;
        kept.map_or(Ok(0), |bytes| word(&bytes, 0))
    }

    fn set_number(&self, txn: &mut Txn<'_>, kind: u8, number: u64) -> Result<(), Fault> {
        let kept = number.to_le_bytes();
        txn.put(self.bucket, &self.of(kind, &[]), &kept).map(drop)
    }

    /// What is kept under a key, if it is not over.
    fn kept(&self, txn: &Txn<'_>, key: &[u8]) -> Result<Option<Definition>, Fault> {
        let kept = txn.look_up(self.bucket, &self.of(b'D', key))?;
        let told = told(key.to_vec(), kept.map(Bytes::into_vec), txn.now())?;
        Ok(Some(told).filter(|told| told.value.is_some()))
    }

    fn change(&self, txn: &mut Txn<'_>, change: &Change) -> Result<Defined, Fault> {
        let definition = &change.definition;
        let there = self.kept(txn, &definition.key)?;
        let at = there.as_ref().map_or(0, |there| there.version);
        if change.expected.is_some_and(|expected| expected != at) {
            return Ok(Defined::Conflict(there));
        }
        if definition.value.is_none() && there.is_none() {
            return Ok(Defined::Done {
                changed: false,
                version: 0,
            });
        }
        let now = txn.now();
        let last = self.version(txn)?;
        // It grows also from one segment to the next.
        let version = (last + 1).max(now.as_micros().unsigned_abs());
        self.put(txn, definition, (version, now))?;
        self.note(txn, &definition.key, version)?;
        if definition.lasts.is_some() {
            self.end(txn, now)?;
        }
        if let Some(event) = &change.event {
            let event = Event {
                at: now,
                version,
                ..event.clone()
            };
            events::add(self, txn, &event)?;
        }
        Ok(Defined::Done {
            changed: true,
            version,
        })
    }

    fn put(
        &self,
        txn: &mut Txn<'_>,
        definition: &Definition,
        (version, now): (u64, Timestamp),
    ) -> Result<(), Fault> {
        self.take_out(txn, &definition.key)?;
        let Some(value) = &definition.value else {
            return Ok(());
        };
        let lasts = definition.lasts.map(Span::from);
        let ends = lasts.map_or(Timestamp::MAX, |lasts| now + lasts);
        let mut kept = ends.as_micros().to_le_bytes().to_vec();
        kept.extend(version.to_le_bytes());
        kept.extend(value);
        txn.put(self.bucket, &self.of(b'D', &definition.key), &kept)?;
        if lasts.is_some() {
            txn.put(self.bucket, &self.until(ends, &definition.key), &[])?;
        }
        Ok(())
    }

    /// Deletes what is under a key, over or not.
    fn take_out(&self, txn: &mut Txn<'_>, key: &[u8]) -> Result<(), Fault> {
        let place = self.of(b'D', key);
        let Some(kept) = txn.look_up(self.bucket, &place)? else {
            return Ok(());
        };
        let ends = instant(kept.get(..8).unwrap_or_default())?;
        txn.remove(self.bucket, &place)?;
        if ends != Timestamp::MAX {
            txn.remove(self.bucket, &self.until(ends, key))?;
        }
        Ok(())
    }

    fn until(&self, ends: Timestamp, key: &[u8]) -> Vec<u8> {
        let ends = ends.as_micros().cast_unsigned().to_be_bytes();
        self.of(b'U', &[&ends[..], key].concat())
    }

    /// Notes that a key was changed, in place of the oldest change of too many.
    fn note(&self, txn: &mut Txn<'_>, changed: &[u8], version: u64) -> Result<(), Fault> {
        let count = self.number(txn, b'N')?;
        match count < MOST_CHANGES as u64 {
            true => self.set_number(txn, b'N', count + 1)?,
            false => {
                let oldest = txn.seek(self.bucket, &self.of(b'C', &[]), false)?;
                let oldest = oldest.ok_or(Fault::Corrupt("a change is not noted"))?;
                let oldest = txn.key(oldest)?;
                txn.remove(self.bucket, &oldest)?;
            }
        }
        let place = self.of(b'C', &version.to_be_bytes());
        txn.put(self.bucket, &place, changed)?;
        self.set_number(txn, b'V', version)
    }

    /// Those that are over are over everywhere: nobody needs to be told.
    fn end(&self, txn: &mut Txn<'_>, now: Timestamp) -> Result<(), Fault> {
        let over = self.some(txn, b'U', (&[], false), MOST_OVER)?;
        for (place, _) in over {
            let (ends, key) = place.split_at_checked(8).unwrap_or_default();
            let ends = ends.try_into().map(i64::from_be_bytes).unwrap_or(i64::MAX);
            if Timestamp::from_micros(ends) > now {
                break;
            }
            self.take_out(txn, key)?;
        }
        Ok(())
    }

    fn since(
        &self,
        txn: &Txn<'_>,
        newer_than: u64,
        keys_alone: bool,
    ) -> Result<Definitions, Fault> {
        let noted = self.of(b'C', &newer_than.to_be_bytes());
        let is_noted = txn.look_up(self.bucket, &noted)?.is_some();
        let mut since = Definitions::since(newer_than, self.version(txn)?, is_noted);
        let now = txn.now();
        since.changed = match (since.whole, keys_alone) {
            (true, true) => Vec::new(),
            (true, false) => {
                let all = self.some(txn, b'D', (&[], false), usize::MAX)?;
                let all = all
                    .into_iter()
                    .map(|(key, kept)| told(key, Some(kept), now));
                let all: Vec<Definition> = all.collect::<Result<_, _>>()?;
                all.into_iter().filter(|one| one.value.is_some()).collect()
            }
            (false, _) => self.changed(txn, newer_than, keys_alone)?,
        };
        Ok(since)
    }

    fn changed(
        &self,
        txn: &Txn<'_>,
        newer_than: u64,
        keys_alone: bool,
    ) -> Result<Vec<Definition>, Fault> {
        let from = newer_than.to_be_bytes();
        let changes = self.some(txn, b'C', (&from, true), MOST_CHANGES)?;
        let newest: HashMap<_, _> = changes
            .into_iter()
            .map(|(version, key)| (key, version))
            .collect();
        let one = |(key, version): (Vec<u8>, Vec<u8>)| {
            let version = version.as_slice().try_into().map(u64::from_be_bytes);
            let version = version.map_err(|_| Fault::Corrupt("a version is none"))?;
            let kept = match keys_alone {
                true => None,
                false => self.kept(txn, &key)?,
            };
            Ok(kept.unwrap_or_else(|| Definition::none(key).at_version(version)))
        };
        newest.into_iter().map(one).collect()
    }

    fn page(
        &self,
        txn: &Txn<'_>,
        (prefix, after): (&[u8], Option<&[u8]>),
        most: usize,
    ) -> Result<Page<Definition>, Fault> {
        let from = match after {
            Some(after) if after >= prefix => (after, true),
            _ => (prefix, false),
        };
        let now = txn.now();
        let mut found = self.some(txn, b'D', from, most + 1)?;
        found.retain(|(key, _)| key.starts_with(prefix));
        let is_last = found.len() <= most;
        found.truncate(most);
        let next = found
            .last()
            .filter(|_| !is_last)
            .map(|(key, _)| key.clone());
        let items = found
            .into_iter()
            .map(|(key, kept)| told(key, Some(kept), now));
        let items: Vec<Definition> = items.collect::<Result<_, Fault>>()?;
        let items = items.into_iter().filter(|one| one.value.is_some());
        Ok(Page {
            items: items.collect(),
            next,
        })
    }
}

/// A definition as it is now. One that is over is gone.
fn told(key: Vec<u8>, kept: Option<Vec<u8>>, now: Timestamp) -> Result<Definition, Fault> {
    let none = |key| Ok(Definition::none(key));
    let Some(mut kept) = kept else {
        return none(key);
    };
    if kept.len() < 16 {
        return Err(Fault::Corrupt("a definition is too short"));
    }
    let value = kept.split_off(16);
    let definition = Definition::new(key, value).at_version(word(&kept, 8)?);
    match instant(&kept[..8])? {
        Timestamp::MAX => Ok(definition),
        ends if ends <= now => none(definition.key),
        ends => {
            let lasts: Duration = ends.since(now).as_duration();
            Ok(definition.lasting(lasts))
        }
    }
}

impl Steps {
    /// What has changed of an owner's since a version.
    pub(crate) fn defined(
        &self,
        owner: &str,
        newer_than: u64,
        keys_alone: bool,
    ) -> Result<Definitions, StoreError> {
        let owner = Owner::new(&self.segment, owner);
        self.register(|txn| owner.since(txn, newer_than, keys_alone))
    }

    /// What is defined under a key.
    pub(crate) fn definition(
        &self,
        owner: &str,
        key: &[u8],
    ) -> Result<Option<Definition>, StoreError> {
        let owner = Owner::new(&self.segment, owner);
        self.register(|txn| owner.kept(txn, key))
    }

    /// What is defined under a key, and its ancestors' definitions.
    pub(crate) fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> Result<Vec<Definition>, StoreError> {
        let owner = Owner::new(&self.segment, owner);
        self.register(|txn| {
            Definition::with_ancestors(key, parent_offset, |key| owner.kept(txn, key))
        })
    }

    /// Definitions in the order of their keys.
    pub(crate) fn definitions_page(
        &self,
        owner: &str,
        place: (&[u8], Option<&[u8]>),
        most: usize,
    ) -> Result<Page<Definition>, StoreError> {
        let owner = Owner::new(&self.segment, owner);
        self.register(|txn| owner.page(txn, place, page_size(most)))
    }

    /// Makes a change. Those who follow in other processes are told before it is done, and
    /// find it done: so nobody is forgotten, wherever this is killed.
    pub(crate) fn change(&self, owner: &str, change: &Change) -> Result<Defined, StoreError> {
        let owner = Owner::new(&self.segment, owner);
        self.register(|txn| {
            let made = owner.change(txn, change)?;
            if made.is_changed() {
                wakeup::wake_followers(&self.segment);
            }
            Ok(made)
        })
    }
}
