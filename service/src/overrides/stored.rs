//! All overrides that are set, and how they are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use tidegate_core::{DecodeError, Span, Timestamp};
use tidegate_store::{Definition, Definitions, StoreError};

use super::record::{OverrideValue, Record};
use super::target::OverrideTarget;
use tidegate::{BuildError, Limit};

/// As whom the store knows a service: no set is called so.
pub(crate) const OWNER: &str = "service";

/// Under this key an earlier version kept its audit events: that is no override.
const EARLIER_EVENTS: &[u8] = b"audit";

/// The most overrides of a service.
const MOST: usize = 1 << 17;

/// An override, and what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoredOverride {
    /// What it is for.
    pub target: OverrideTarget,
    /// The limits, as they were given.
    pub limits: Vec<Limit>,
    /// The names of those without effect as the policies are now: no policy that
    /// it is for has such a limit, of that kind and, for a key, of its level.
    pub inert: Vec<String>,
    /// Of its last change: no two changes of it have the same, and it is never 0.
    pub version: u64,
    /// Who set it, why, when, and until when it holds.
    pub record: Record,
}

/// What is kept for one place.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// What it says.
    pub(super) value: OverrideValue,
    /// Of its last change.
    pub(super) version: u64,
    /// When it ends, by this server's clock.
    pub(super) ends_at: Option<Timestamp>,
}

impl Kept {
    /// What a store has kept, of which it was told at `now`. If the store says how much is
    /// left, its clock goes before that of who set it.
    pub(super) fn read(
        definition: &Definition,
        now: Timestamp,
    ) -> Result<Option<Self>, StoreError> {
        let Some(value) = definition.value.as_deref() else {
            return Ok(None);
        };
        let value = OverrideValue::decode(value)?;
        let left = definition.lasts.map(|left| now + Span::from(left));
        Ok(Some(Self {
            ends_at: left.or(value.record.expires_at),
            version: definition.version,
            value,
        }))
    }
}

/// All overrides of a service.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    by_place: BTreeMap<OverrideTarget, Arc<Kept>>,
    /// Those that end, in that order.
    ends: BTreeSet<(Timestamp, OverrideTarget)>,
}

impl Stored {
    /// Goes over to what is defined, of which it is told at `now`, and answers the places at
    /// which other limits hold now. What cannot be read stays as it was: `unread` is told of
    /// it.
    pub(crate) fn follow(
        &mut self,
        definitions: &Definitions,
        now: Timestamp,
        mut unread: impl FnMut(&OverrideTarget, StoreError),
    ) -> BTreeSet<OverrideTarget> {
        let mut said = BTreeSet::new();
        let mut touched = BTreeSet::new();
        let changed = definitions.changed.iter();
        for definition in changed.filter(|one| one.key != EARLIER_EVENTS) {
            let Some(target) = OverrideTarget::decode(&definition.key) else {
                unread(
                    &OverrideTarget::everything(),
                    DecodeError::Corrupt("override's place").into(),
                );
                continue;
            };
            said.insert(target.clone());
            match Kept::read(definition, now) {
                Err(error) => unread(&target, error),
                Ok(kept) => {
                    if self.put(&target, kept) {
                        touched.insert(target);
                    }
                }
            }
        }
        if definitions.whole {
            let all = self.by_place.keys();
            let gone: Vec<_> = all
                .filter(|target| !said.contains(target))
                .cloned()
                .collect();
            for target in gone {
                self.put(&target, None);
                touched.insert(target);
            }
        }
        touched
    }

    /// Whether other limits hold by that.
    fn put(&mut self, target: &OverrideTarget, kept: Option<Kept>) -> bool {
        let ends_at = kept.as_ref().and_then(|kept| kept.ends_at);
        let said = kept.map(Arc::new);
        let before = match &said {
            Some(kept) => self.by_place.insert(target.clone(), Arc::clone(kept)),
            None => self.by_place.remove(target),
        };
        if let Some(at) = before.as_ref().and_then(|before| before.ends_at) {
            self.ends.remove(&(at, target.clone()));
        }
        if let Some(at) = ends_at {
            self.ends.insert((at, target.clone()));
        }
        let limits = |kept: Option<Arc<Kept>>| kept.map(|kept| kept.value.limits.clone());
        limits(before) != limits(said)
    }

    /// When the next ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// Those that have ended by `now`, with the version of each.
    pub(crate) fn over(&self, now: Timestamp) -> Vec<(OverrideTarget, u64)> {
        let over = self.ends.iter().take_while(|(at, _)| *at <= now);
        let found = over.filter_map(|(_, target)| Some((target, self.by_place.get(target)?)));
        found
            .map(|(target, kept)| (target.clone(), kept.version))
            .collect()
    }

    /// Lets go of those that have ended by `now`, and answers their places.
    pub(crate) fn drop_over(&mut self, now: Timestamp) -> BTreeSet<OverrideTarget> {
        let over: BTreeSet<_> = self
            .over(now)
            .into_iter()
            .map(|(target, _)| target)
            .collect();
        for target in &over {
            self.put(target, None);
        }
        over
    }

    /// That there is room for something at `target`.
    ///
    /// # Errors
    /// [`BuildError::TooManyOverrides`].
    pub(super) fn check_room(&self, target: &OverrideTarget) -> Result<(), BuildError> {
        match self.by_place.len() >= MOST && !self.by_place.contains_key(target) {
            true => Err(BuildError::TooManyOverrides(MOST)),
            false => Ok(()),
        }
    }

    /// Whether nothing is set at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// What is kept for `target`.
    pub(super) fn at(&self, target: &OverrideTarget) -> Option<&Arc<Kept>> {
        self.by_place.get(target)
    }

    /// Those beyond `after`, in order.
    pub(super) fn beyond(
        &self,
        after: Option<&OverrideTarget>,
    ) -> impl Iterator<Item = (&OverrideTarget, &Arc<Kept>)> {
        let from = after.map_or(Unbounded, Excluded);
        self.by_place.range::<OverrideTarget, _>((from, Unbounded))
    }

    /// The keys that have something in the policy `policy`.
    pub(crate) fn keys(&self, policy: &str) -> BTreeSet<&[u8]> {
        let targets = self
            .by_place
            .keys()
            .filter(|target| target.concerns(policy));
        targets.filter_map(|target| target.key.as_deref()).collect()
    }
}
