//! All overrides that are set, and how they are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use tidegate_contract::{Store, StoreError};
use tidegate_core::DecodeError;

use super::place::Place;
use crate::error::Error;
use crate::limit::{Limit, bytes};

/// As whom the store knows a gate: no set is called so.
const OWNER: &str = "gate";

/// The most overrides of a gate.
pub(super) const MOST: usize = 1 << 17;

/// An override, and what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Placed {
    /// What it is for.
    pub place: Place,
    /// The limits, as they were given.
    pub limits: Vec<Limit>,
    /// The names of those without effect as the policies are now: no policy that
    /// it is for has such a limit, of that kind and, for a key, of its level.
    pub inert: Vec<String>,
}

/// All overrides of a gate.
#[derive(Debug, Default)]
pub(in crate::gate) struct Stored {
    by_place: BTreeMap<Place, Arc<[Limit]>>,
}

impl Stored {
    /// Those that `store` keeps.
    ///
    /// # Errors
    /// The store; what cannot be read.
    pub(in crate::gate) fn load(store: &dyn Store) -> Result<Self, StoreError> {
        let definitions = store.definitions(OWNER)?.into_iter();
        let by_place = definitions.map(|(place, value)| {
            let place = Place::decode(&place).ok_or(DecodeError::Corrupt("override's place"))?;
            Ok((place, bytes::decode(&value)?.into()))
        });
        let by_place = by_place.collect::<Result<_, StoreError>>()?;
        Ok(Self { by_place })
    }

    /// Keeps `limits` for `place`, or nothing.
    ///
    /// # Errors
    /// [`Error::TooManyOverrides`]; the store. Then nothing has changed.
    pub(super) fn put(
        &mut self,
        store: Option<&dyn Store>,
        place: &Place,
        limits: Option<Arc<[Limit]>>,
    ) -> Result<(), Error> {
        let full = self.by_place.len() >= MOST && !self.by_place.contains_key(place);
        if full && limits.is_some() {
            return Err(Error::TooManyOverrides(MOST));
        }
        if let Some(store) = store {
            let value = limits.as_deref().map(bytes::encode);
            store.define(OWNER, &place.encode(), value.as_deref())?;
        }
        match limits {
            Some(limits) => drop(self.by_place.insert(place.clone(), limits)),
            None => drop(self.by_place.remove(place)),
        }
        Ok(())
    }

    /// What is kept for `place`.
    pub(super) fn at(&self, place: &Place) -> Option<&Arc<[Limit]>> {
        self.by_place.get(place)
    }

    /// Those beyond `after`, in order.
    pub(super) fn beyond(&self, after: Option<&Place>) -> impl Iterator<Item = (&Place, &[Limit])> {
        let from = after.map_or(Unbounded, Excluded);
        let places = self.by_place.range::<Place, _>((from, Unbounded));
        places.map(|(place, limits)| (place, &**limits))
    }

    /// The keys that have something in the policy `resource`.
    pub(in crate::gate) fn entities(&self, resource: &str) -> BTreeSet<&[u8]> {
        let places = self
            .by_place
            .keys()
            .filter(|place| place.concerns(resource));
        places.filter_map(|place| place.entity.as_deref()).collect()
    }
}
