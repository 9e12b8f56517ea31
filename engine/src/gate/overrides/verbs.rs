//! Overrides at the gate: who may set, remove and see them.

use std::sync::Arc;

use tidegate_contract::KeyPath;

use super::place::Place;
use super::stored::{Placed, Stored};
use super::{given, limits};
use crate::error::Error;
use crate::gate::access::{Caller, Scope};
use crate::gate::audit;
use crate::gate::error::GateError;
use crate::gate::served::Served;
use crate::gate::threshold::Gate;
use crate::limit::Limit;
use crate::set::LimitSet;

impl Gate {
    /// Has `limits` hold at `place` in place of those of the same names, and of
    /// any that were set there before; kept by the store, and in force from the
    /// next decision on. Nobody is delayed who would have been admitted under
    /// the larger limit; `caller` is noted.
    ///
    /// # Errors
    /// [`GateError::Forbidden`]: it takes the scope to administer the policy, or
    /// all of them; [`GateError::UnknownPolicy`];
    /// [`GateError::Override`] with everything that is wrong with the limits, as
    /// for [`LimitSet::set_override`]; a store that cannot keep it. Then nothing
    /// changes.
    pub fn set_override(
        &self,
        caller: &Caller,
        place: &Place,
        limits: &[Limit],
    ) -> Result<Placed, GateError> {
        let concerned = self.concerned(caller, Scope::Administer, place)?;
        check(place, limits, &concerned)?;
        self.put_override(place, Some(limits.into()))?;
        let names: Vec<_> = limits.iter().map(Limit::name).collect();
        let subject = format!("{place}: {}", names.join(", "));
        audit::note(caller.name(), "set override", &subject);
        Ok(placed(place, limits, &concerned))
    }

    /// Removes what was set at `place`; whether anything was.
    ///
    /// # Errors
    /// As [`set_override`](Self::set_override). A policy that is gone is no
    /// error: what was set for it can still be removed.
    pub fn remove_override(&self, caller: &Caller, place: &Place) -> Result<bool, GateError> {
        caller.check(Scope::Administer, place.resource.as_deref())?;
        if self.stored().lock().at(place).is_none() {
            return Ok(false);
        }
        self.put_override(place, None)?;
        audit::note(caller.name(), "remove override", &place.to_string());
        Ok(true)
    }

    /// What is set at `place`.
    ///
    /// # Errors
    /// [`GateError::Forbidden`].
    pub fn override_at(&self, caller: &Caller, place: &Place) -> Result<Option<Placed>, GateError> {
        caller.check(Scope::Observe, place.resource.as_deref())?;
        let served = self.all_served();
        let stored = self.stored().lock();
        let found = stored.at(place).map(Arc::clone);
        Ok(found.map(|limits| placed(place, &limits, &concerning(&served, place))))
    }

    /// At most `most` overrides that `caller` may observe, in order, from the
    /// first beyond `after` on; those of one policy or of one key if `of` names
    /// it.
    #[must_use]
    pub fn overrides(
        &self,
        caller: &Caller,
        of: &Place,
        after: Option<&Place>,
        most: usize,
    ) -> Vec<Placed> {
        let served = self.all_served();
        let stored = self.stored().lock();
        let wanted = |place: &Place| {
            let resource = of.resource.is_none() || of.resource == place.resource;
            let entity = of.entity.is_none() || of.entity == place.entity;
            let may = caller.check(Scope::Observe, place.resource.as_deref());
            resource && entity && may.is_ok()
        };
        let page = stored.beyond(after).filter(|(place, _)| wanted(place));
        let shown = |(place, limits): (&Place, &[Limit])| {
            placed(place, limits, &concerning(&served, place))
        };
        page.take(most).map(shown).collect()
    }

    /// The policies that an override at `place` is about.
    fn concerned(
        &self,
        caller: &Caller,
        scope: Scope,
        place: &Place,
    ) -> Result<Vec<Arc<Served>>, GateError> {
        match &place.resource {
            Some(name) => Ok(vec![self.policy(caller, scope, name)?]),
            None => {
                caller.check(scope, None)?;
                Ok(self.all_served())
            }
        }
    }

    fn put_override(&self, place: &Place, limits: Option<Arc<[Limit]>>) -> Result<(), GateError> {
        // Policies are not exchanged meanwhile.
        let _one_at_a_time = self.exchanging();
        let mut stored = self.stored().lock();
        stored.put(self.store(), place, limits)?;
        for served in concerning(&self.all_served(), place) {
            match &place.entity {
                None => served.govern(&stored)?,
                Some(entity) => served.govern_key(&stored, entity)?,
            }
        }
        Ok(())
    }
}

impl Served {
    /// Goes over to the policy's limits with what is stored over them.
    pub(in crate::gate) fn govern(&self, stored: &Stored) -> Result<(), Error> {
        let name = &self.policy().name;
        let entities = stored.entities(name).into_iter();
        let given =
            entities.filter_map(|entity| Some((entity.into(), given(stored, entity, name)?)));
        self.set()
            .replace_all(&limits(stored, self.policy()), given.collect())
    }

    /// Goes over to what is stored for one key.
    fn govern_key(&self, stored: &Stored, entity: &[u8]) -> Result<(), Error> {
        let given = given(stored, entity, &self.policy().name);
        match self.set().inner().give(entity, given, |_| Ok(())) {
            // What is a key in one policy may be none in another.
            Err(Error::Key(_)) => Ok(()),
            given => given,
        }
    }
}

fn concerning(served: &[Arc<Served>], place: &Place) -> Vec<Arc<Served>> {
    let concerned = served
        .iter()
        .filter(|served| place.concerns(&served.policy().name));
    concerned.cloned().collect()
}

/// Whether `own` can take the place of a limit of this policy, for the keys that
/// `place` is about.
fn fits(served: &Served, place: &Place, own: &Limit) -> Result<(), Error> {
    let policy = served.policy();
    match &place.entity {
        Some(entity) => served.set().check_override(entity, own),
        None => {
            let limit = policy
                .limits
                .iter()
                .find(|limit| limit.name() == own.name());
            let limit = limit.ok_or_else(|| unknown(own, served.set()))?;
            let taken = own.in_place_of(limit, &policy.levels);
            taken.map(drop).map_err(|source| Error::Limit {
                limit: own.name().into(),
                source,
            })
        }
    }
}

fn unknown(own: &Limit, set: &LimitSet) -> Error {
    let names = set.limits();
    let names: Vec<_> = names.iter().map(|l| format!("`{}`", l.name())).collect();
    Error::UnknownLimit {
        name: own.name().into(),
        known: names.join(", "),
    }
}

/// Everything that is wrong with `limits` at `place`: each must fit some policy
/// that it is about.
fn check(place: &Place, limits: &[Limit], concerned: &[Arc<Served>]) -> Result<(), GateError> {
    let mut wrong = Vec::new();
    if limits.is_empty() {
        wrong.push(Error::Nothing("limit"));
    }
    if let Some(entity) = &place.entity
        && let Err(error) = KeyPath::new(entity, 1)
    {
        wrong.push(error.into());
    }
    for (nth, own) in limits.iter().enumerate() {
        if limits[..nth].iter().any(|other| other.name() == own.name()) {
            wrong.push(Error::DuplicateLimit(own.name().into()));
        }
        let mut unfit: Vec<_> = Vec::new();
        let mut tried = concerned.iter().map(|served| fits(served, place, own));
        if !tried.any(|fit| fit.map_err(|error| unfit.push(error)).is_ok()) {
            // What is wrong with one of that name says more than that others
            // have none.
            let telling = |error: &Error| !matches!(error, Error::UnknownLimit { .. });
            let at = unfit.iter().position(telling).unwrap_or(0);
            wrong.extend(unfit.into_iter().nth(at));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(GateError::Override(wrong)),
    }
}

fn placed(place: &Place, limits: &[Limit], concerned: &[Arc<Served>]) -> Placed {
    let mut fitted = |own: &&Limit| {
        !concerned
            .iter()
            .any(|served| fits(served, place, own).is_ok())
    };
    let inert = limits.iter().filter(&mut fitted);
    Placed {
        place: place.clone(),
        limits: limits.to_vec(),
        inert: inert.map(|own| own.name().to_owned()).collect(),
    }
}
