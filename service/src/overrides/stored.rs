//! All overrides that are set, and how they are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use tidegate_core::DecodeError;
use tidegate_store::{Definition, Definitions, StoreError};

use super::target::OverrideTarget;
use tidegate::internal::LimitInternals;
use tidegate::{BuildError, Limit};

/// As whom the store knows a service: no set is called so.
pub(crate) const OWNER: &str = "service";

/// The most overrides of a service.
const MOST: usize = 1 << 17;

/// What is kept for `target`, or that nothing is.
pub(super) fn definition(target: &OverrideTarget, limits: Option<&[Limit]>) -> Definition {
    match limits {
        Some(limits) => Definition::new(target.encode(), Limit::encode_all(limits)),
        None => Definition::none(target.encode()),
    }
}

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
}

/// All overrides of a service.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    by_place: BTreeMap<OverrideTarget, Arc<[Limit]>>,
}

impl Stored {
    /// Goes over to what is defined, and answers the places about which something else is
    /// said now. What cannot be read stays as it was: `unread` is told of it.
    pub(crate) fn follow(
        &mut self,
        definitions: &Definitions,
        mut unread: impl FnMut(&OverrideTarget, StoreError),
    ) -> BTreeSet<OverrideTarget> {
        let mut said = BTreeSet::new();
        let mut touched = BTreeSet::new();
        for definition in &definitions.changed {
            let Some(target) = OverrideTarget::decode(&definition.key) else {
                unread(
                    &OverrideTarget::system(),
                    DecodeError::Corrupt("override's place").into(),
                );
                continue;
            };
            said.insert(target.clone());
            let limits = definition
                .value
                .as_deref()
                .map(Limit::decode_all)
                .transpose();
            match limits {
                Err(error) => unread(&target, error.into()),
                Ok(limits) => {
                    if self.put(&target, limits.map(Arc::from)) {
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
                self.by_place.remove(&target);
                touched.insert(target);
            }
        }
        touched
    }

    /// Whether that changes anything.
    fn put(&mut self, target: &OverrideTarget, limits: Option<Arc<[Limit]>>) -> bool {
        if self.by_place.get(target) == limits.as_ref() {
            return false;
        }
        match limits {
            Some(limits) => drop(self.by_place.insert(target.clone(), limits)),
            None => drop(self.by_place.remove(target)),
        }
        true
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
    pub(super) fn at(&self, target: &OverrideTarget) -> Option<&Arc<[Limit]>> {
        self.by_place.get(target)
    }

    /// Those beyond `after`, in order.
    pub(super) fn beyond(
        &self,
        after: Option<&OverrideTarget>,
    ) -> impl Iterator<Item = (&OverrideTarget, &Arc<[Limit]>)> {
        let from = after.map_or(Unbounded, Excluded);
        self.by_place.range::<OverrideTarget, _>((from, Unbounded))
    }

    /// The keys that have something in the policy `resource`.
    pub(crate) fn entities(&self, resource: &str) -> BTreeSet<&[u8]> {
        let targets = self
            .by_place
            .keys()
            .filter(|target| target.concerns(resource));
        targets
            .filter_map(|target| target.entity.as_deref())
            .collect()
    }
}
