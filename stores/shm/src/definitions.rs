//! What is defined for an owner: records of their own, never dropped with any state; its
//! version, and the keys that were changed last. In the registry's shard:
//!
//! ```text
//! V length of the owner u32, owner         version u64, floor u64
//! D length of the owner u32, owner, key    ends at i64, value
//! C length of the owner u32, owner, version u64 (big-endian)    key
//! A length of the owner u32, owner, key    the version that changed it
//! N length of the owner u32, owner         how many changes are noted
//! ```

use std::time::Duration;

use tidegate_store::core::{DecodeError, Span, Timestamp};
use tidegate_store::definitions::MOST_CHANGES;
use tidegate_store::{Definition, Definitions, StoreError};

use crate::error::Fault;
use crate::registry::{bucket_of, instant};
use crate::steps::Steps;
use crate::tree::Bytes;
use crate::txn::Txn;
use crate::wakeup;

/// A key and a value.
type Pair = (Vec<u8>, Vec<u8>);

/// One owner's.
struct Owner<'o> {
    name: &'o [u8],
    bucket: usize,
}

impl Owner<'_> {
    fn of(&self, kind: u8, rest: &[u8]) -> Vec<u8> {
        let length = (self.name.len() as u32).to_be_bytes();
        [&[kind], &length[..], self.name, rest].concat()
    }

    /// Its version, and the least that is remembered of changes.
    fn versions(&self, txn: &Txn<'_>) -> Result<(u64, u64), Fault> {
        match txn.look_up(self.bucket, &self.of(b'V', &[]))? {
            Some(bytes) => Ok((word(&bytes, 0)?, word(&bytes, 8)?)),
            None => Ok((0, 0)),
        }
    }

    /// Keys and values of records of a kind, from behind a place on.
    fn all(&self, txn: &Txn<'_>, kind: u8, rest: &[u8]) -> Result<Vec<Pair>, Fault> {
        let beginning = self.of(kind, &[]);
        let (mut from, mut found) = (self.of(kind, rest), Vec::new());
        let mut is_behind = !rest.is_empty();
        while let Some(record) = txn.seek(self.bucket, &from, is_behind)? {
            from = txn.key(record)?.into_vec();
            if !from.starts_with(&beginning) {
                break;
            }
            found.push((
                from[beginning.len()..].to_vec(),
                txn.value(record)?.into_vec(),
            ));
            is_behind = true;
        }
        Ok(found)
    }

    fn put(
        &self,
        txn: &mut Txn<'_>,
        definition: &Definition,
        now: Timestamp,
    ) -> Result<bool, Fault> {
        let key = self.of(b'D', &definition.key);
        match &definition.value {
            Some(value) => {
                let lasts = definition.lasts.map(Span::from);
                let ends = lasts.map_or(Timestamp::MAX, |lasts| now + lasts);
                let mut kept = ends.as_micros().to_le_bytes().to_vec();
                kept.extend(value);
                txn.put(self.bucket, &key, &kept)?;
            }
            None if !txn.remove(self.bucket, &key)? => return Ok(false),
            None => {}
        }
        let (last, mut floor) = self.versions(txn)?;
        // It grows also from one segment to the next.
        let version = (last + 1).max(now.as_micros().unsigned_abs());
        let at = self.of(b'A', &definition.key);
        let key = self.of(b'N', &[]);
        let count = txn.look_up(self.bucket, &key)?;
        let mut count = count.as_deref().map_or(Ok(0), |bytes| word(bytes, 0))?;
        match txn.look_up(self.bucket, &at)? {
            Some(before) => {
                let before = word(&before, 0)?.to_be_bytes();
                txn.remove(self.bucket, &self.of(b'C', &before))?;
            }
            None => count += 1,
        }
        txn.put(self.bucket, &at, &version.to_le_bytes())?;
        let changed = self.of(b'C', &version.to_be_bytes());
        txn.put(self.bucket, &changed, &definition.key)?;
        if count > MOST_CHANGES as u64 {
            floor = self.forget_oldest(txn)?;
            count -= 1;
        }
        txn.put(self.bucket, &key, &count.to_le_bytes())?;
        let versions = [version.to_le_bytes(), floor.to_le_bytes()].concat();
        txn.put(self.bucket, &self.of(b'V', &[]), &versions)?;
        if definition.lasts.is_some() {
            self.end(txn, now)?;
        }
        Ok(true)
    }

    /// Forgets which key was changed the longest ago; answers the version of that.
    fn forget_oldest(&self, txn: &mut Txn<'_>) -> Result<u64, Fault> {
        let beginning = self.of(b'C', &[]);
        let oldest = txn.seek(self.bucket, &beginning, false)?;
        let oldest = oldest.ok_or(Fault::Corrupt("a change is not noted"))?;
        let (key, changed) = (txn.key(oldest)?, txn.value(oldest)?);
        txn.remove(self.bucket, &key)?;
        txn.remove(self.bucket, &self.of(b'A', &changed))?;
        let version = key[beginning.len()..].try_into().map(u64::from_be_bytes);
        version.map_err(|_| Fault::Corrupt("a version is none"))
    }

    /// Those that are over are over everywhere: nobody needs to be told.
    fn end(&self, txn: &mut Txn<'_>, now: Timestamp) -> Result<(), Fault> {
        for (key, kept) in self.all(txn, b'D', &[])? {
            if instant(kept.get(..8).unwrap_or_default())? <= now {
                txn.remove(self.bucket, &self.of(b'D', &key))?;
            }
        }
        Ok(())
    }

    fn since(&self, txn: &Txn<'_>, newer_than: u64) -> Result<Definitions, Fault> {
        let (version, floor) = self.versions(txn)?;
        let whole = newer_than == 0 || newer_than < floor || newer_than > version;
        let now = txn.now();
        let changed = match whole {
            true => {
                let all = self.all(txn, b'D', &[])?;
                let all = all
                    .into_iter()
                    .map(|(key, kept)| told(key, Some(kept), now));
                let all: Vec<Definition> = all.collect::<Result<_, _>>()?;
                all.into_iter().filter(|one| one.value.is_some()).collect()
            }
            false => {
                let changes = self.all(txn, b'C', &newer_than.to_be_bytes())?;
                let one = |(_, key): Pair| {
                    let kept = txn.look_up(self.bucket, &self.of(b'D', &key))?;
                    let kept = kept.map(Bytes::into_vec);
                    told(key, kept, now)
                };
                changes.into_iter().map(one).collect::<Result<_, _>>()?
            }
        };
        Ok(Definitions {
            newer_than,
            version,
            whole,
            changed,
        })
    }
}

/// A definition as it is now. One that is over is gone.
fn told(key: Vec<u8>, kept: Option<Vec<u8>>, now: Timestamp) -> Result<Definition, Fault> {
    let none = |key| Ok(Definition::none(key));
    let Some(mut kept) = kept else {
        return none(key);
    };
    if kept.len() < 8 {
        return Err(Fault::Corrupt("a definition is too short"));
    }
    let value = kept.split_off(8);
    match instant(&kept)? {
        Timestamp::MAX => Ok(Definition::new(key, value)),
        ends if ends <= now => none(key),
        ends => {
            let lasts: Duration = ends.since(now).as_duration();
            Ok(Definition::new(key, value).lasting(lasts))
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u64, Fault> {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    let word = word.map(u64::from_le_bytes);
    word.ok_or_else(|| DecodeError::Corrupt("a version is none").into())
}

impl Steps {
    /// What has changed of an owner's since a version.
    pub(crate) fn defined(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
        let owner = self.owner(owner);
        self.register(|txn| owner.since(txn, newer_than))
    }

    /// Keeps a definition; whether that is a change. Those who follow in other processes are
    /// told before it is done, and find it done: so nobody is forgotten, wherever this is
    /// killed.
    pub(crate) fn define(&self, owner: &str, definition: &Definition) -> Result<bool, StoreError> {
        let owner = self.owner(owner);
        self.register(|txn| {
            let now = txn.now();
            let is_changed = owner.put(txn, definition, now)?;
            if is_changed {
                wakeup::wake_followers(&self.segment);
            }
            Ok(is_changed)
        })
    }

    fn owner<'o>(&self, name: &'o str) -> Owner<'o> {
        Owner {
            name: name.as_bytes(),
            bucket: bucket_of(self.segment.seed(), name.as_bytes()),
        }
    }
}
