//! Overrides at the service: who may set, remove and see them.

use std::sync::Arc;

use tidegate_store::{KeyPath, Page};

use super::pending::Pending;
use super::record::OverrideValue;
use super::resolve::replaced;
use super::stored::{Kept, Stored, StoredOverride};
use super::target::{Level, OverrideTarget};
use super::terms::OverrideTerms;
use super::write::{OwnedTerms, Write};
use super::{all_given, given, limits};
use crate::access::Caller;
use crate::active_policy::ActivePolicy;
use crate::audit;
use crate::error::ServiceError;
use crate::service::Service;
use tidegate::internal::SetInternals;
use tidegate::{BuildError, Limit, LimitError, LimitSet, Unit};
use tidegate_policy::Scope;

impl Service {
    /// Has `limits` hold at `target` in place of those of the same names, and of
    /// any that were set there before; kept by the store, and in force from the
    /// next decision on: here once this is done, on every other server of the store
    /// within the time that the store says. Nobody is delayed who would have been admitted under
    /// the larger limit; `caller` is noted.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`]: it takes the scope to administer the policy, or
    /// all of them; [`ServiceError::UnknownPolicy`];
    /// [`ServiceError::Override`] with everything that is wrong with the limits, as
    /// for [`LimitSet::set_override`](tidegate::LimitSet::set_override); a store
    /// that cannot keep it. Then nothing changes.
    pub fn set_override(
        &self,
        caller: &Caller,
        target: &OverrideTarget,
        limits: &[Limit],
    ) -> Pending<StoredOverride> {
        self.set_override_on(caller, target, limits, &OverrideTerms::default())
    }

    /// As [`set_override`](Self::set_override), on these terms. An audit event is kept in the
    /// same step.
    ///
    /// # Errors
    /// As there; [`ServiceError::Conflict`] if something else is there than has to be; a
    /// reason that is too long, an end that is over or too late. Then nothing changes.
    pub fn set_override_on(
        &self,
        caller: &Caller,
        target: &OverrideTarget,
        limits: &[Limit],
        terms: &OverrideTerms<'_>,
    ) -> Pending<StoredOverride> {
        let told = self.concerned(caller, Scope::Administer, target);
        let told = told.and_then(|concerned| {
            check(target, limits, &concerned)?;
            terms.check()?;
            let expires_at = terms.expires_at(self.clock().now())?;
            self.seen().check_room(target)?;
            Ok((concerned, expires_at))
        });
        let (concerned, expires_at) = match told {
            Ok(told) => told,
            Err(error) => return Pending::done(Err(error)),
        };
        let write = Write {
            service: self.clone(),
            caller: caller.clone(),
            target: target.clone(),
            terms: OwnedTerms::of(terms),
            limits: Some(limits.to_vec()),
            expires_at,
        };
        let written = write.begin();
        let (by, target) = (caller.clone(), target.clone());
        Pending::new(async move {
            let written = written.await?;
            let value = written.value.unwrap_or_default();
            let names: Vec<_> = value.limits.iter().map(Limit::name).collect();
            let subject = format!("{target}: {}", names.join(", "));
            audit::note(by.namespace(), by.name(), "set override", &subject);
            Ok(stored_override(
                &target,
                (&value, written.version),
                &concerned,
            ))
        })
    }

    /// Removes what was set at `target`, on whatever server of the store; whether
    /// anything was.
    ///
    /// # Errors
    /// As [`set_override`](Self::set_override). A policy that is gone is no
    /// error: what was set for it can still be removed.
    pub fn remove_override(&self, caller: &Caller, target: &OverrideTarget) -> Pending<bool> {
        self.remove_override_on(caller, target, &OverrideTerms::default())
    }

    /// As [`remove_override`](Self::remove_override), on these terms. An audit event is kept
    /// in the same step.
    ///
    /// # Errors
    /// As there; [`ServiceError::Conflict`] if something else is there than has to be; a
    /// reason that is too long. Then nothing changes.
    pub fn remove_override_on(
        &self,
        caller: &Caller,
        target: &OverrideTarget,
        terms: &OverrideTerms<'_>,
    ) -> Pending<bool> {
        let may = caller.check(Scope::Administer, target.policy.as_deref());
        if let Err(error) = may.and_then(|()| terms.check()) {
            return Pending::done(Err(error));
        }
        let write = Write {
            service: self.clone(),
            caller: caller.clone(),
            target: target.clone(),
            terms: OwnedTerms::of(terms),
            limits: None,
            expires_at: None,
        };
        let written = write.begin();
        let (by, target) = (caller.clone(), target.clone());
        Pending::new(async move {
            let was_any = written.await?.changed;
            if was_any {
                audit::note(
                    by.namespace(),
                    by.name(),
                    "remove override",
                    &target.to_string(),
                );
            }
            Ok(was_any)
        })
    }

    /// What is set at `target`.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`].
    pub fn override_at(
        &self,
        caller: &Caller,
        target: &OverrideTarget,
    ) -> Result<Option<StoredOverride>, ServiceError> {
        caller.check(Scope::Observe, target.policy.as_deref())?;
        let active = self.all_active();
        let found = self.seen().at(target).map(Arc::clone);
        Ok(found.map(|kept| shown(target, &kept, &concerning(&active, target))))
    }

    /// At most `most` overrides that `caller` may observe, in order, from the
    /// first beyond `after` on; those of one policy or of one key if `of` names
    /// it.
    #[must_use]
    pub fn overrides(
        &self,
        caller: &Caller,
        of: &OverrideTarget,
        after: Option<&OverrideTarget>,
        most: usize,
    ) -> Vec<StoredOverride> {
        let active = self.all_active();
        let wanted = |target: &OverrideTarget| {
            let policy = of.policy.is_none() || of.policy == target.policy;
            let key = of.key.is_none() || of.key == target.key;
            let may = caller.check(Scope::Observe, target.policy.as_deref());
            policy && key && may.is_ok()
        };
        // What is found is looked at without keeping others from it.
        let page: Vec<_> = {
            let stored = self.seen();
            let page = stored.beyond(after).filter(|(target, _)| wanted(target));
            let page = page.take(most);
            page.map(|(target, kept)| (target.clone(), Arc::clone(kept)))
                .collect()
        };
        let shown = |(target, kept): &(OverrideTarget, Arc<Kept>)| {
            shown(target, kept, &concerning(&active, target))
        };
        page.iter().map(shown).collect()
    }

    /// A page of [`overrides`](Self::overrides), which goes on where another has ended, at
    /// `after`.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`], where the caller may observe no policy; an end that no page has
    /// had.
    pub fn list_overrides(
        &self,
        caller: &Caller,
        of: &OverrideTarget,
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<StoredOverride>, ServiceError> {
        caller.check_some(Scope::Observe)?;
        let after = after.map(OverrideTarget::after).transpose()?;
        // One more tells whether there are more.
        let mut items = self.overrides(caller, of, after.as_ref(), most.saturating_add(1));
        let is_last = items.len() <= most;
        items.truncate(most);
        let last = items.last().filter(|_| !is_last);
        let next = last.map(|last| last.target.encode());
        Ok(Page { items, next })
    }

    /// The policies that an override at `target` is about.
    pub(super) fn concerned(
        &self,
        caller: &Caller,
        scope: Scope,
        target: &OverrideTarget,
    ) -> Result<Vec<Arc<ActivePolicy>>, ServiceError> {
        match &target.policy {
            Some(name) => Ok(vec![self.policy(caller, scope, name)?]),
            None => {
                caller.check(scope, None)?;
                Ok(self.all_active())
            }
        }
    }
}

impl ActivePolicy {
    /// Goes over to the policy's limits with what is stored over them.
    pub(crate) fn govern(&self, stored: &Stored) -> Result<(), BuildError> {
        let given = all_given(stored, &self.policy().name);
        let partial_keys = self.policy().partial_keys;
        self.every_set()
            .for_each(|set| set.let_partial_keys_in(partial_keys));
        self.parts().enumerate().try_for_each(|(nth, (set, own))| {
            let limits = limits(stored, (self.policy(), set), own);
            set.replace_all(&limits, given.clone())?;
            match self.share() {
                Some(share) => share.govern(nth, &limits, &given),
                None => Ok(()),
            }
        })
    }

    /// Whether it can go over to the policy's limits with what is stored over them.
    ///
    /// # Errors
    /// A limit of which the tier leaves nothing by which it was started.
    pub(crate) fn check_governed(&self, stored: &Stored) -> Result<(), BuildError> {
        self.parts().try_for_each(|(set, own)| {
            let limits = limits(stored, (self.policy(), set), own);
            limits.iter().try_for_each(|limit| set.check_limit(limit))
        })
    }

    /// Goes over to what is stored for one key.
    pub(super) fn govern_key(&self, stored: &Stored, key: &[u8]) -> Result<(), BuildError> {
        let given = given(stored, key, &self.policy().name);
        if let Some(share) = self.share() {
            share.govern_key(key, given.as_deref());
        }
        self.sets().try_for_each(|set| {
            match set.give(key, given.clone()) {
                // What is a key in one policy may be none in another.
                Err(BuildError::Key(_)) => Ok(()),
                given => given,
            }
        })
    }
}

fn concerning(active: &[Arc<ActivePolicy>], target: &OverrideTarget) -> Vec<Arc<ActivePolicy>> {
    let concerned = active
        .iter()
        .filter(|active| target.concerns(&active.policy().name));
    concerned.cloned().collect()
}

/// Whether `own` can take the place of a limit of this policy, or of one of its
/// members, for the keys that `target` is about.
fn fits(active: &ActivePolicy, target: &OverrideTarget, own: &Limit) -> Result<(), BuildError> {
    let levels = &active.policy().levels;
    let fit = active.parts().map(|(set, limits)| match &target.key {
        Some(key) => set.check_override(key, own),
        None => fits_one_of((set, limits), levels, own),
    });
    first_fit(fit)
}

fn fits_one_of(
    (set, limits): (&LimitSet, &[Limit]),
    levels: &[String],
    own: &Limit,
) -> Result<(), BuildError> {
    let limit = limits.iter().find(|limit| limit.name() == own.name());
    let limit = limit.ok_or_else(|| unknown(own, limits))?;
    replaced(own, limit, levels, set).map(drop)
}

/// Whether it fits anywhere. If not, what is wrong with one of that name says
/// more than that others have none.
fn first_fit(fits: impl Iterator<Item = Result<(), BuildError>>) -> Result<(), BuildError> {
    let mut wrong: Option<BuildError> = None;
    for fit in fits {
        let Err(error) = fit else {
            return Ok(());
        };
        let silent = |error: &BuildError| matches!(error, BuildError::UnknownLimit { .. });
        if wrong.as_ref().is_none_or(silent) {
            wrong = Some(error);
        }
    }
    wrong.map_or(Ok(()), Err)
}

fn unknown(own: &Limit, limits: &[Limit]) -> BuildError {
    let names: Vec<_> = limits.iter().map(|l| format!("`{}`", l.name())).collect();
    BuildError::UnknownLimit {
        name: own.name().into(),
        known: names.join(", "),
    }
}

/// Everything that is wrong with `limits` at `target`: each must fit some policy
/// that it is about.
pub(super) fn check(
    target: &OverrideTarget,
    limits: &[Limit],
    concerned: &[Arc<ActivePolicy>],
) -> Result<(), ServiceError> {
    let mut wrong = Vec::new();
    if limits.is_empty() {
        wrong.push(BuildError::Nothing("limit"));
    }
    if let Some(key) = &target.key
        && let Err(error) = KeyPath::new(key, 1)
    {
        wrong.push(error.into());
    }
    for (nth, own) in limits.iter().enumerate() {
        if limits[..nth].iter().any(|other| other.name() == own.name()) {
            wrong.push(BuildError::DuplicateLimit(own.name().into()));
        }
        let fit = concerned.iter().map(|active| fits(active, target, own));
        wrong.extend(
            check_added(target, own, concerned)
                .and_then(|()| first_fit(fit))
                .err(),
        );
    }
    if wrong.is_empty() && target.level() == Level::KeyAndPolicy {
        let mut sets = concerned.iter().flat_map(|active| active.sets());
        wrong.extend(sets.find_map(|set| set.check_added_names(limits).err()));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(ServiceError::Override(wrong)),
    }
}

/// That a limit is added to one key of one policy, in whole amounts.
fn check_added(
    target: &OverrideTarget,
    own: &Limit,
    concerned: &[Arc<ActivePolicy>],
) -> Result<(), BuildError> {
    let has_members = |active: &Arc<ActivePolicy>| !active.policy().members.is_empty();
    let wrong = match () {
        () if !own.is_added() => return Ok(()),
        () if target.level() != Level::KeyAndPolicy => {
            "name one policy, and one key or entity that is to have it"
        }
        () if own.amounts() != Unit::ONE => "its amounts are whole numbers; leave `unit` out",
        () if concerned.iter().any(has_members) => {
            "the policy is a pool, whose members have limits each; add it to a policy without members"
        }
        () => return Ok(()),
    };
    Err(BuildError::Limit {
        limit: own.name().into(),
        source: LimitError::NotAddable(wrong),
    })
}

/// One that is kept, as it was set: its end, too, whatever this server's clock says of that.
fn shown(target: &OverrideTarget, kept: &Kept, concerned: &[Arc<ActivePolicy>]) -> StoredOverride {
    stored_override(target, (&kept.value, kept.version), concerned)
}

fn stored_override(
    target: &OverrideTarget,
    (value, version): (&OverrideValue, u64),
    concerned: &[Arc<ActivePolicy>],
) -> StoredOverride {
    let limits = &value.limits;
    let has_effect = |active: &Arc<ActivePolicy>, own: &Limit| match (&target.key, own.is_added()) {
        (Some(key), true) => active.sets().any(|set| set.has_effect(key, own)),
        _ => fits(active, target, own).is_ok(),
    };
    let mut fitted = |own: &&Limit| !concerned.iter().any(|active| has_effect(active, own));
    let inert = limits.iter().filter(&mut fitted);
    StoredOverride {
        target: target.clone(),
        limits: limits.clone(),
        inert: inert.map(|own| own.name().to_owned()).collect(),
        version,
        record: value.record.clone(),
    }
}
