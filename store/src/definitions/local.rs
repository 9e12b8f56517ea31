//! Definitions of one process.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Weak;

use tidegate_core::Timestamp;

use super::change::{Change, Defined, Event, event_of_cursor};
use super::definition::{Definition, Definitions, MOST_CHANGES, page_size};
use super::follower::{Follower, Followers};
use super::log::Log;
use crate::error::StoreError;
use crate::listing::Page;
use crate::sync::Mutex;

/// The definitions of one process, and who follows them.
#[derive(Debug, Default)]
pub struct LocalDefinitions {
    owners: Mutex<HashMap<String, OwnerDefinitions>>,
    followers: Followers,
}

/// What a change comes to where nothing speaks against it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is to be kept, with its version; that is the owner's then.
    pub definition: Definition,
    /// What is told of it, with the same version.
    pub event: Option<Event>,
    /// The versions of the events that go.
    pub dropped: Vec<u64>,
}

/// Some of what is kept for an owner, to be removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removal {
    /// The owner.
    pub owner: String,
    /// The keys of definitions.
    pub keys: Vec<Vec<u8>>,
    /// The versions of events.
    pub events: Vec<u64>,
    /// Nothing of the owner is left then, nor its version.
    pub is_last: bool,
}

/// What was kept for one owner.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeptDefinitions {
    /// The owner's version.
    pub version: u64,
    /// Its definitions, with the version of each.
    pub definitions: Vec<Definition>,
    /// Its events, with the version of each.
    pub events: Vec<Event>,
}

/// What is kept for one owner.
#[derive(Debug, Default)]
struct OwnerDefinitions {
    version: u64,
    values: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
    /// The last changes: which key each version changed.
    changes: BTreeMap<u64, Vec<u8>>,
    log: Log,
}

impl LocalDefinitions {
    /// As [`Store::definitions`](crate::Store::definitions).
    #[must_use]
    pub fn definitions(&self, owner: &str, newer_than: u64) -> Definitions {
        self.of(owner, |kept| kept.since(newer_than))
    }

    /// As [`Store::definition`](crate::Store::definition).
    #[must_use]
    pub fn definition(&self, owner: &str, key: &[u8]) -> Option<Definition> {
        self.of(owner, |kept| kept.at(key))
    }

    /// As [`Store::definition_with_ancestors`](crate::Store::definition_with_ancestors).
    #[must_use]
    pub fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> Vec<Definition> {
        self.of(owner, |kept| {
            let read = |key: &[u8]| Ok::<_, Infallible>(kept.at(key));
            let Ok(found) = Definition::with_ancestors(key, parent_offset, read);
            found
        })
    }

    /// As [`Store::definitions_page`](crate::Store::definitions_page).
    #[must_use]
    pub fn page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> Page<Definition> {
        self.of(owner, |kept| kept.page(prefix, after, page_size(most)))
    }

    /// As [`Store::events`](crate::Store::events).
    ///
    /// # Errors
    /// As there: a page that none is followed by.
    pub fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> Result<Page<Event>, StoreError> {
        let after = event_of_cursor(after)?;
        Ok(self.of(owner, |kept| kept.log.page(subject, after, most, now)))
    }

    /// As [`Store::change`](crate::Store::change); done when this returns.
    ///
    /// # Errors
    /// As there: one that lasts for a while is not kept.
    pub fn change(&self, owner: &str, change: &Change) -> Result<Defined, StoreError> {
        check_lasts(&change.definition)?;
        let made = {
            let mut owners = self.owners.lock();
            let kept = owners.entry(owner.to_owned()).or_default();
            kept.step(change).map(|step| kept.make(step))
        };
        match made {
            Err(answer) => Ok(answer),
            Ok(version) => {
                self.lead_all(owner);
                Ok(Defined::Done {
                    changed: true,
                    version,
                })
            }
        }
    }

    /// What `change` comes to, for a store that writes that elsewhere before it
    /// [makes](Self::make) it; meanwhile it makes no other change.
    ///
    /// # Errors
    /// The answer, where there is nothing to write.
    pub fn step(&self, owner: &str, change: &Change) -> Result<Step, Defined> {
        self.of(owner, |kept| kept.step(change))
    }

    /// Makes a change that was written elsewhere.
    pub fn make(&self, owner: &str, step: Step) {
        let mut owners = self.owners.lock();
        owners.entry(owner.to_owned()).or_default().make(step);
        drop(owners);
        self.lead_all(owner);
    }

    /// Some of what is kept for an owner whose name begins with `prefix`, if there is one: at
    /// most `most` definitions and events, for a store that removes that elsewhere before it
    /// [removes](Self::remove) it here.
    #[must_use]
    pub fn removal(&self, prefix: &str, most: usize) -> Option<Removal> {
        let owners = self.owners.lock();
        let (owner, kept) = owners.iter().find(|(owner, _)| owner.starts_with(prefix))?;
        let keys: Vec<_> = kept.values.keys().take(most).cloned().collect();
        let events = kept.log.versions().take(most - keys.len());
        let events: Vec<_> = events.collect();
        Some(Removal {
            owner: owner.clone(),
            is_last: keys.len() == kept.values.len() && events.len() == kept.log.len(),
            keys,
            events,
        })
    }

    /// Removes what was removed elsewhere. Who follows the owner is not told: nobody may.
    pub fn remove(&self, removal: &Removal) {
        let mut owners = self.owners.lock();
        if removal.is_last {
            owners.remove(&removal.owner);
        } else if let Some(kept) = owners.get_mut(&removal.owner) {
            removal.keys.iter().for_each(|key| {
                kept.values.remove(key);
            });
            let events = removal.events.iter();
            events.for_each(|version| kept.log.drop_one(*version));
        }
    }

    /// Removes all that is kept for owners whose names begin with `prefix`; how many
    /// definitions and events.
    pub fn clear(&self, prefix: &str) -> u64 {
        let mut removed = 0;
        self.owners.lock().retain(|owner, kept| {
            let goes = owner.starts_with(prefix);
            if goes {
                removed += (kept.values.len() + kept.log.len()) as u64;
            }
            !goes
        });
        removed
    }

    /// Goes on where another process has ended.
    pub fn restore(&self, owner: &str, kept: KeptDefinitions) {
        let mut restored = OwnerDefinitions {
            version: kept.version,
            ..OwnerDefinitions::default()
        };
        let values = kept.definitions.into_iter().filter_map(|one| {
            let value = one.value?;
            Some((one.key, (one.version, value)))
        });
        restored.values.extend(values);
        kept.events
            .into_iter()
            .for_each(|event| restored.log.add(event));
        self.owners.lock().insert(owner.to_owned(), restored);
    }

    /// As [`Store::follow`](crate::Store::follow).
    pub fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.followers.add(owner, Weak::clone(&follower));
        if let Some(follower) = follower.upgrade() {
            self.lead(owner, &*follower);
        }
    }

    fn of<T>(&self, owner: &str, look: impl FnOnce(&OwnerDefinitions) -> T) -> T {
        let owners = self.owners.lock();
        match owners.get(owner) {
            Some(kept) => look(kept),
            None => look(&OwnerDefinitions::default()),
        }
    }

    fn lead_all(&self, owner: &str) {
        for follower in self.followers.of(owner) {
            self.lead(owner, &*follower);
        }
    }

    /// Until it knows all; others may lead it, too.
    fn lead(&self, owner: &str, follower: &dyn Follower) {
        loop {
            let known = follower.version();
            let definitions = match follower.is_partial() {
                true => self.of(owner, |kept| kept.keys_since(known)),
                false => self.definitions(owner, known),
            };
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
        Some(_) => Err(StoreError::CannotDefine(
            "has no clock of its own, and keeps no definition for a while only".to_owned(),
        )),
    }
}

/// Before the first of an owner's versions: another in each process, so that one that was
/// read before a restart is not taken for one after it.
fn beginning() -> u64 {
    RandomState::new().hash_one(0) >> 24
}

impl OwnerDefinitions {
    fn step(&self, change: &Change) -> Result<Step, Defined> {
        let there = self.at(&change.definition.key);
        let is_there = there.is_some();
        let version = there.as_ref().map_or(0, |there| there.version);
        if change.expected.is_some_and(|expected| expected != version) {
            return Err(Defined::Conflict(there));
        }
        if change.definition.value.is_none() && !is_there {
            return Err(Defined::Done {
                changed: false,
                version: 0,
            });
        }
        let last = match self.version {
            0 => beginning(),
            last => last,
        };
        let version = last + 1;
        let event = change.event.as_ref();
        Ok(Step {
            dropped: event.map_or_else(Vec::new, |event| self.log.dropped_by(event)),
            definition: change.definition.clone().at_version(version),
            event: event.cloned().map(|event| Event { version, ..event }),
        })
    }

    /// Answers the version.
    fn make(&mut self, step: Step) -> u64 {
        let Definition {
            key,
            value,
            version,
            ..
        } = step.definition;
        match value {
            Some(value) => drop(self.values.insert(key.clone(), (version, value))),
            None => drop(self.values.remove(&key)),
        }
        self.version = version;
        self.changes.insert(version, key);
        if self.changes.len() > MOST_CHANGES {
            self.changes.pop_first();
        }
        for gone in step.dropped {
            self.log.drop_one(gone);
        }
        if let Some(event) = step.event {
            self.log.add(event);
        }
        version
    }

    fn at(&self, key: &[u8]) -> Option<Definition> {
        let (version, value) = self.values.get(key)?;
        Some(Definition::new(key, value.as_slice()).at_version(*version))
    }

    fn page(&self, prefix: &[u8], after: Option<&[u8]>, most: usize) -> Page<Definition> {
        let from = match after {
            Some(after) if after >= prefix => Excluded(after),
            _ => Included(prefix),
        };
        let range = self.values.range::<[u8], _>((from, Unbounded));
        let mut found = range.take_while(|(key, _)| key.starts_with(prefix));
        let one = |(key, (version, value)): (&Vec<u8>, &(u64, Vec<u8>))| {
            Definition::new(key.as_slice(), value.as_slice()).at_version(*version)
        };
        let items: Vec<_> = found.by_ref().take(most).map(one).collect();
        let is_last = items.len() < most || found.next().is_none();
        let last = items.last().filter(|_| !is_last);
        let next = last.map(|last| last.key.clone());
        Page { items, next }
    }

    fn since(&self, newer_than: u64) -> Definitions {
        let mut since = self.keys_since(newer_than);
        match since.whole {
            true => {
                let all = self.values.keys().filter_map(|key| self.at(key));
                since.changed = all.collect();
            }
            false => {
                for one in &mut since.changed {
                    let value = self.values.get(&one.key);
                    one.value = value.map(|(_, value)| value.clone());
                }
            }
        }
        since
    }

    /// As [`Definitions::keys_alone`].
    fn keys_since(&self, newer_than: u64) -> Definitions {
        let is_noted = self.changes.contains_key(&newer_than);
        let mut since = Definitions::since(newer_than, self.version, is_noted);
        if !since.whole {
            let changes = self.changes.range((Excluded(newer_than), Unbounded));
            let newest: HashMap<_, _> = changes.map(|(version, key)| (key, *version)).collect();
            let key = |(key, version): (&Vec<u8>, u64)| {
                Definition::none(key.as_slice()).at_version(version)
            };
            since.changed = newest.into_iter().map(key).collect();
        }
        since
    }
}
