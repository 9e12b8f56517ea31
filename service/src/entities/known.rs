//! The entities that were asked for lately: a cache, which the store tells of changed ids.
//!
//! Of each as much is kept as it takes to name its ancestors. What is read from the store is kept
//! only if its shard was not invalidated meanwhile: it may be older than the change.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use tidegate_store::sync::Mutex;
use tidegate_store::{Definitions, Follower};

use super::record::EntityValue;

/// So many parts have a lock each.
const SHARDS: usize = 16;

/// So many entities are kept in all: a million, of the last asked for. Each takes about 150
/// bytes, more with long ids.
const MOST: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// Of a shard, half stays when the other half is full.
const HALF: usize = MOST / SHARDS / 2;

/// What is known of an entity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KnownEntity {
    /// Its id.
    pub(super) id: Arc<str>,
    /// To whom it belongs.
    pub(super) parent: Option<Arc<str>>,
    /// Whether its ancestors are charged.
    pub(super) charge_parents: bool,
}

/// The entities that were asked for lately.
#[derive(Default)]
pub(crate) struct Known {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// Up to which version of theirs it was told.
    version: AtomicU64,
}

/// How often each shard was invalidated.
pub(super) struct Epochs([u64; SHARDS]);

/// Two generations: what is asked for again goes over to the young one, and when that is full,
/// the old one goes.
#[derive(Default)]
struct Shard {
    young: Generation,
    old: Generation,
    /// How often it was invalidated.
    epoch: u64,
}

type Generation = HashMap<Arc<str>, (Option<Arc<str>>, bool), RandomState>;

impl Shard {
    fn get(&mut self, id: &str) -> Option<KnownEntity> {
        let found = match self.young.get_key_value(id) {
            Some((id, (parent, charge_parents))) => KnownEntity {
                id: Arc::clone(id),
                parent: parent.clone(),
                charge_parents: *charge_parents,
            },
            None => {
                let (id, (parent, charge_parents)) = self.old.remove_entry(id)?;
                let found = KnownEntity {
                    id,
                    parent,
                    charge_parents,
                };
                self.put(found.clone());
                found
            }
        };
        Some(found)
    }

    fn put(&mut self, entity: KnownEntity) {
        if self.young.len() >= HALF {
            self.old = mem::take(&mut self.young);
        }
        self.young
            .insert(entity.id, (entity.parent, entity.charge_parents));
    }

    fn drop_one(&mut self, id: &str) {
        self.epoch += 1;
        self.young.remove(id);
        self.old.remove(id);
    }

    fn drop_all(&mut self) {
        self.epoch += 1;
        self.young = Generation::default();
        self.old = Generation::default();
    }
}

impl Known {
    fn shard_index(&self, id: &str) -> usize {
        let hash = self.hasher.hash_one(id);
        (hash >> 32) as usize % SHARDS
    }

    fn shard(&self, id: &str) -> &Mutex<Shard> {
        &self.shards[self.shard_index(id)]
    }

    /// What is known of it.
    pub(super) fn get(&self, id: &str) -> Option<KnownEntity> {
        self.shard(id).lock().get(id)
    }

    /// To be asked for before the store is read.
    pub(super) fn epochs(&self) -> Epochs {
        Epochs(self.shards.each_ref().map(|shard| shard.lock().epoch))
    }

    /// Whether what was read of `id` after these may be older than a change.
    pub(super) fn is_stale(&self, id: &str, epochs: &Epochs) -> bool {
        let at = self.shard_index(id);
        self.shards[at].lock().epoch != epochs.0[at]
    }

    /// What was read of it after these epochs, which is kept unless it is stale.
    pub(super) fn keep(&self, id: &str, value: &EntityValue, epochs: &Epochs) -> KnownEntity {
        // One name for all children.
        let parent = value.parent.as_deref();
        let parent =
            parent.map(|parent| self.get(parent).map_or_else(|| parent.into(), |it| it.id));
        let entity = KnownEntity {
            id: id.into(),
            parent,
            charge_parents: value.charge_parents,
        };
        let at = self.shard_index(id);
        let mut shard = self.shards[at].lock();
        if shard.epoch == epochs.0[at] {
            shard.put(entity.clone());
        }
        entity
    }

    /// How many are kept.
    #[cfg(test)]
    fn len(&self) -> usize {
        let kept = self.shards.iter().map(|shard| {
            let shard = shard.lock();
            shard.young.len() + shard.old.len()
        });
        kept.sum()
    }
}

impl Follower for Known {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn is_partial(&self) -> bool {
        true
    }

    fn follow(&self, definitions: &Definitions) {
        if definitions.newer_than != self.version() {
            return;
        }
        if definitions.whole {
            self.shards.iter().for_each(|shard| shard.lock().drop_all());
        }
        for definition in &definitions.changed {
            if let Ok(id) = str::from_utf8(&definition.key) {
                self.shard(id).lock().drop_one(id);
            }
        }
        self.version.store(definitions.version, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tidegate_store::Definition;

    use super::*;

    fn below(parent: Option<&str>) -> EntityValue {
        EntityValue {
            parent: parent.map(str::to_owned),
            name: String::new(),
            metadata: BTreeMap::new(),
            charge_parents: true,
            by: None,
            created_at: None,
            changed_at: None,
            parents_ancestors: Vec::new(),
        }
    }

    fn read(known: &Known, id: &str, parent: Option<&str>) {
        known.keep(id, &below(parent), &known.epochs());
    }

    #[test]
    fn no_more_are_kept_than_may_be_and_what_is_asked_for_stays() {
        let known = Known::default();
        read(&known, "acme", None);
        for number in 0..2 * MOST {
            read(&known, &format!("user {number}"), Some("acme"));
            if number % 64 == 0 {
                assert!(known.get("acme").is_some(), "{number}");
            }
        }
        assert!((MOST / 2..=MOST).contains(&known.len()), "{}", known.len());
    }

    #[test]
    fn what_was_told_meanwhile_keeps_what_was_read_from_being_kept() {
        let known = Known::default();
        read(&known, "a", None);
        let epochs = known.epochs();
        let changed = Definitions {
            newer_than: 0,
            version: 7,
            whole: false,
            changed: vec![Definition::none("a")],
        };
        known.follow(&changed);
        assert_eq!((known.get("a"), known.version()), (None, 7));
        known.keep("a", &below(None), &epochs);
        assert_eq!(known.get("a"), None);
        // What goes on from elsewhere says nothing.
        read(&known, "a", None);
        known.follow(&changed);
        assert!(known.get("a").is_some());
    }
}
