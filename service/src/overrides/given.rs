//! Overrides as protocols are asked for them: set from fields, and told apart from
//! what the policies say.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use tidegate_store::KeyPath;

use super::pending::Pending;
use super::resolve::source;
use super::settings::{GivenLimit, LimitFault, Setting, read_limits};
use super::stored::{Stored, StoredOverride};
use super::target::{Level, OverrideTarget};
use super::terms::OverrideTerms;
use super::verbs::check;
use crate::access::Caller;
use crate::active_policy::ActivePolicy;
use crate::bounds::MOST_LIMITS;
use crate::error::{ServiceError, cut};
use crate::service::Service;
use tidegate::internal::SetInternals;
use tidegate::{BuildError, Key, Limit, LimitError, Unit};
use tidegate_policy::Scope;

impl Service {
    /// As [`set_override_on`](Self::set_override_on), with limits as
    /// [`read_limits`] reads them: each a name, and its fields by theirs.
    ///
    /// # Errors
    /// [`ServiceError::FaultyOverride`] with everything that is wrong, be it with a
    /// field or with the policies that the override is for; else as there.
    pub fn write_override(
        &self,
        caller: &Caller,
        target: &OverrideTarget,
        given: &[GivenLimit],
        terms: &OverrideTerms<'_>,
    ) -> Pending<StoredOverride> {
        match self.read_override(caller, target, given) {
            Ok(limits) => self.set_override_on(caller, target, &limits, terms),
            Err(error) => Pending::done(Err(error)),
        }
    }

    fn read_override(
        &self,
        caller: &Caller,
        target: &OverrideTarget,
        given: &[GivenLimit],
    ) -> Result<Vec<Limit>, ServiceError> {
        // Whoever may not set it is told nothing else.
        let concerned = self.concerned(caller, Scope::Administer, target)?;
        if given.len() > MOST_LIMITS {
            return Err(ServiceError::FaultyOverride(vec![too_many(given.len())]));
        }
        let (mut limits, mut faults) = (Vec::new(), Vec::new());
        for one in given {
            let one = match in_units_of(one, &concerned) {
                Ok(one) => one,
                Err(fault) => {
                    faults.push(fault);
                    continue;
                }
            };
            match read_limits(slice::from_ref(&one)) {
                Ok(read) => limits.extend(read),
                Err(wrong) => faults.extend(wrong),
            }
        }
        // What can be read is held against the policies all the same.
        if (faults.is_empty() || !limits.is_empty())
            && let Err(ServiceError::Override(errors)) = check(target, &limits, &concerned)
        {
            let names = names_of(&concerned);
            faults.extend(errors.iter().map(|error| fault(error, &names)));
        }
        match faults.is_empty() {
            true => Ok(limits),
            false => {
                faults.iter_mut().for_each(|fault| {
                    fault.limit = cut(&fault.limit).into_owned();
                });
                Err(ServiceError::FaultyOverride(faults))
            }
        }
    }

    /// The limits of `active` whose numbers are an override's for `key`, and at
    /// which level it was set; of a pool, the limits of `member`. It asks what
    /// is stored and decides nothing.
    #[must_use]
    pub fn overridden(
        &self,
        active: &ActivePolicy,
        member: Option<&str>,
        key: Key<'_>,
    ) -> Vec<(String, Level)> {
        let stored = self.seen();
        if stored.is_empty() {
            return Vec::new();
        }
        let policy = active.policy();
        let named = |name| policy.members.iter().find(|member| member.name == name);
        let limits = match member.and_then(named) {
            Some(member) => &member.limits,
            None => &policy.limits,
        };
        let Ok(path) = KeyPath::stored(key.bytes(), policy.levels.len().max(1)) else {
            return Vec::new();
        };
        let found = limits.iter().filter_map(|limit| {
            let level = source(&stored, active, limit, &path)?;
            Some((limit.name().to_owned(), level))
        });
        let mut found: Vec<_> = found.collect();
        let added = added(&stored, active, &path).into_iter();
        found.extend(added.map(|added| (added.name, Level::KeyAndPolicy)));
        found
    }

    /// The limits that the key, or an ancestor, has beside those of the policy.
    pub(crate) fn added_limits(&self, active: &ActivePolicy, key: &[u8]) -> Vec<AddedLimit> {
        let stored = self.seen();
        if stored.is_empty() {
            return Vec::new();
        }
        let path = KeyPath::stored(key, active.policy().levels.len().max(1));
        path.map_or_else(|_| Vec::new(), |path| added(&stored, active, &path))
    }
}

/// A limit that a key, or an ancestor, has beside those of its policy.
#[derive(Debug)]
pub(crate) struct AddedLimit {
    /// Its name.
    pub(crate) name: String,
    /// Whether it is the key's, and no ancestor's.
    pub(crate) is_own: bool,
    /// Whether it counts requests, and takes no amount.
    pub(crate) is_counted: bool,
}

/// The limits that the key, or an ancestor, has beside those of the policy.
fn added(stored: &Stored, active: &ActivePolicy, path: &KeyPath<'_>) -> Vec<AddedLimit> {
    let policy = active.policy();
    let is_known = |limit: &Limit| policy.limits.iter().any(|own| own.name() == limit.name());
    let of_row = |level| {
        let row = path.row(level);
        let target = OverrideTarget::everything().of_policy(&*policy.name);
        let kept = stored.at(&target.of_key(&*row))?;
        let added = kept.value.limits.iter().filter(|own| own.is_added());
        let added = added.filter(|own| !is_known(own) && active.set().has_effect(&row, own));
        let added = added.map(|own| AddedLimit {
            name: own.name().to_owned(),
            is_own: level + 1 == path.depth(),
            is_counted: own.is_counted(),
        });
        Some(added.collect::<Vec<_>>())
    };
    (0..path.depth()).filter_map(of_row).flatten().collect()
}

/// A limit as it is given, with the unit of the policies' own where it says none.
fn in_units_of(
    (name, fields): &GivenLimit,
    concerned: &[Arc<ActivePolicy>],
) -> Result<GivenLimit, LimitFault> {
    let mut fields = fields.clone();
    let unit = concerned.iter().map(|active| active.unit(name));
    let unit = unit.max_by_key(|unit| unit.places()).unwrap_or_default();
    if unit != Unit::ONE && fields.iter().all(|(field, _)| field != "unit") {
        for (_, setting) in &mut fields {
            if let Setting::Units(count) = setting {
                *setting = Setting::Text(unit.show(*count).to_string());
            }
        }
        fields.push(("unit".to_owned(), Setting::Text(unit.to_string())));
    }
    let said = fields.iter().find(|(field, _)| field == "unit");
    if let Some((_, Setting::Text(said))) = said
        && *said != unit.to_string()
        && concerned.iter().any(|active| active.unit(name) == unit)
    {
        return Err(LimitFault {
            limit: name.clone(),
            message: format!("its unit is {unit}, as the policy has it, and not {said}"),
            help: format!("leave `unit` out, or write unit = \"{unit}\""),
        });
    }
    Ok((name.clone(), fields))
}

fn too_many(count: usize) -> LimitFault {
    LimitFault {
        limit: String::new(),
        message: format!("{count} limits are given"),
        help: format!("give at most {MOST_LIMITS}"),
    }
}

/// The names of all limits there, quoted.
fn names_of(concerned: &[Arc<ActivePolicy>]) -> String {
    let limits = concerned.iter().flat_map(|active| active.parts());
    let names: BTreeSet<_> = limits
        .flat_map(|(_, limits)| limits.iter().map(|limit| format!("`{}`", limit.name())))
        .collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// What is wrong, and what to say instead; `names` are the limits there are.
fn fault(error: &BuildError, names: &str) -> LimitFault {
    let (limit, message, help) = match error {
        BuildError::UnknownLimit { name, .. } => (
            name.as_str(),
            "no policy that this is for has such a limit".to_owned(),
            format!("there is {names}; a limit of one key's own says `added`"),
        ),
        BuildError::Limit {
            limit,
            source: LimitError::Unlike(what),
        } => (
            limit.as_str(),
            "an override changes how much, not how it is counted".to_owned(),
            (*what).to_owned(),
        ),
        BuildError::Limit {
            limit,
            source: LimitError::NotAddable(what),
        } => (
            limit.as_str(),
            "it cannot be added".to_owned(),
            (*what).to_owned(),
        ),
        BuildError::TooManyAdded(_) => (
            "",
            error.to_string(),
            "remove what is not needed any more".to_owned(),
        ),
        BuildError::Limit { limit, source } => (
            limit.as_str(),
            source.to_string(),
            "give it another number".to_owned(),
        ),
        BuildError::OtherLevel {
            limit,
            about,
            level,
        } => (
            limit.as_str(),
            format!("it is about level `{about}` of a key, and this key ends at level `{level}`"),
            format!("set the override for a key that ends at `{about}`"),
        ),
        BuildError::DuplicateLimit(limit) => (
            limit.as_str(),
            "it is given twice".to_owned(),
            "give it once".to_owned(),
        ),
        BuildError::Nothing(_) => (
            "",
            "no limit is given".to_owned(),
            "give at least one, by its name in the policy".to_owned(),
        ),
        other => (
            "",
            other.to_string(),
            "give a key that is limited there".to_owned(),
        ),
    };
    LimitFault {
        limit: limit.to_owned(),
        message,
        help,
    }
}
