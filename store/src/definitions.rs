//! What owners have a store keep beside any state: overrides, cool-downs. A store
//! reads none of it.
//!
//! A store keeps a **version** for each owner, which every change raises in the same
//! step. Who [follows](crate::Store::follow) an owner says up to which version it knows,
//! and is given what has [changed since](Definitions): an answer that comes late, twice
//! or out of order goes on from a version that is no longer its own, and changes nothing.
//! [`LocalDefinitions`] has all of it for a store of one process.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::error::StoreError;
use crate::store_future::StoreFuture;
use crate::sync::Mutex;

/// Of so many keys a store remembers when they were changed last; who knows less than
/// that is given everything.
pub const MOST_CHANGES: usize = 4_096;

/// What is kept under a key of an owner.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Definition {
    /// The key; any bytes.
    pub key: Vec<u8>,
    /// What is said of it; `None`: nothing any more.
    pub value: Option<Vec<u8>>,
    /// For how long from now on, by the store's clock, if not for good.
    pub lasts: Option<Duration>,
}

impl Definition {
    /// `value` under `key`, for good.
    #[must_use]
    pub fn new(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            value: Some(value.into()),
            lasts: None,
        }
    }

    /// Nothing under `key` any more.
    #[must_use]
    pub fn none(key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            value: None,
            lasts: None,
        }
    }

    /// The same, for so long from now on.
    #[must_use]
    pub const fn lasting(mut self, lasts: Duration) -> Self {
        self.lasts = Some(lasts);
        self
    }
}

/// What has changed for an owner since a version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Definitions {
    /// The version that this goes on from: to who knows another it says nothing.
    pub newer_than: u64,
    /// The version it leads to: smaller than that if the store has lost what it kept.
    /// 0 before the first change.
    pub version: u64,
    /// What is not here is not kept any more.
    pub whole: bool,
    /// Each key once, as it is now, in no order; at most [`MOST_CHANGES`] unless it is
    /// the whole, which has no removed ones.
    pub changed: Vec<Definition>,
}

/// Who goes by what is defined for an owner.
pub trait Follower: Send + Sync {
    /// Up to which version it knows; 0 at first. Never waits for anything.
    fn version(&self) -> u64;

    /// Goes over to `definitions`, if they go on from [`version`](Self::version), and
    /// then knows their version, whether it could make use of them or not; if not,
    /// changes nothing. It may take as long as a change of limits does.
    fn follow(&self, definitions: &Definitions);
}

/// Who follows which owner.
#[derive(Default)]
pub struct Followers(Mutex<HashMap<String, Vec<Weak<dyn Follower>>>>);

impl Followers {
    /// `follower` follows `owner` for as long as it is there.
    pub fn add(&self, owner: &str, follower: Weak<dyn Follower>) {
        let mut all = self.0.lock();
        let theirs = all.entry(owner.to_owned()).or_default();
        theirs.retain(|one| one.strong_count() > 0);
        theirs.push(follower);
    }

    /// The owners that somebody follows.
    #[must_use]
    pub fn owners(&self) -> Vec<String> {
        let mut all = self.0.lock();
        all.retain(|_, theirs| theirs.iter().any(|one| one.strong_count() > 0));
        all.keys().cloned().collect()
    }

    /// Who follows `owner`.
    #[must_use]
    pub fn of(&self, owner: &str) -> Vec<Arc<dyn Follower>> {
        let all = self.0.lock();
        let theirs = all.get(owner).into_iter().flatten();
        theirs.filter_map(Weak::upgrade).collect()
    }
}

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followers").finish_non_exhaustive()
    }
}

/// The definitions of one process, and who follows them.
#[derive(Debug, Default)]
pub struct LocalDefinitions {
    owners: Mutex<HashMap<String, OwnerDefinitions>>,
    followers: Followers,
}

/// What is kept for one owner.
#[derive(Debug, Default)]
struct OwnerDefinitions {
    version: u64,
    /// Who knows less is given everything.
    floor: u64,
    values: HashMap<Vec<u8>, Vec<u8>>,
    /// The keys that were changed last, each under its version.
    changes: BTreeMap<u64, Vec<u8>>,
    /// And the other way about.
    changed_at: HashMap<Vec<u8>, u64>,
}

impl LocalDefinitions {
    /// As [`Store::definitions`](crate::Store::definitions).
    #[must_use]
    pub fn definitions(&self, owner: &str, newer_than: u64) -> Definitions {
        let owners = self.owners.lock();
        match owners.get(owner) {
            Some(kept) => kept.since(newer_than),
            None => OwnerDefinitions::default().since(newer_than),
        }
    }

    /// As [`Store::define`](crate::Store::define); done when this returns.
    ///
    /// # Errors
    /// As there: one that lasts for a while is not kept.
    pub fn define(&self, owner: &str, definition: Definition) -> Result<bool, StoreError> {
        check_lasts(&definition)?;
        let is_changed = {
            let mut owners = self.owners.lock();
            let kept = owners.entry(owner.to_owned()).or_default();
            kept.put(definition)
        };
        for follower in self.followers.of(owner) {
            self.lead(owner, &*follower);
        }
        Ok(is_changed)
    }

    /// As [`Store::follow`](crate::Store::follow).
    pub fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.followers.add(owner, Weak::clone(&follower));
        if let Some(follower) = follower.upgrade() {
            self.lead(owner, &*follower);
        }
    }

    /// Until it knows all; others may lead it, too.
    fn lead(&self, owner: &str, follower: &dyn Follower) {
        loop {
            let definitions = self.definitions(owner, follower.version());
            if definitions.version == definitions.newer_than {
                return;
            }
            follower.follow(&definitions);
        }
    }
}

/// That a store of one process keeps it.
///
/// # Errors
/// It lasts for a while only.
pub fn check_lasts(definition: &Definition) -> Result<(), StoreError> {
    match definition.lasts {
        None => Ok(()),
        Some(_) => Err(StoreError::Unavailable(
            "a store of one process has no clock of its own and keeps nothing for a while only; \
             define it for good, or choose a store that processes share"
                .to_owned(),
        )),
    }
}

impl OwnerDefinitions {
    fn put(&mut self, definition: Definition) -> bool {
        let Definition { key, value, .. } = definition;
        match value {
            Some(value) => drop(self.values.insert(key.clone(), value)),
            None if self.values.remove(&key).is_none() => return false,
            None => {}
        }
        self.version += 1;
        if let Some(before) = self.changed_at.insert(key.clone(), self.version) {
            self.changes.remove(&before);
        }
        self.changes.insert(self.version, key);
        while self.changes.len() > MOST_CHANGES {
            if let Some((version, key)) = self.changes.pop_first() {
                self.floor = version;
                self.changed_at.remove(&key);
            }
        }
        true
    }

    fn since(&self, newer_than: u64) -> Definitions {
        let whole = newer_than < self.floor || newer_than > self.version || newer_than == 0;
        let now = |key: &Vec<u8>| Definition {
            key: key.clone(),
            value: self.values.get(key).cloned(),
            lasts: None,
        };
        let changed = match whole {
            true => self.values.keys().map(now).collect(),
            false => self
                .changes
                .range(newer_than + 1..)
                .map(|(_, key)| now(key))
                .collect(),
        };
        Definitions {
            newer_than,
            version: self.version,
            whole,
            changed,
        }
    }
}

/// An answer that is there already.
pub fn at_once<T: Send + 'static>(answer: Result<T, StoreError>) -> StoreFuture<T> {
    StoreFuture::new(ready(answer))
}
