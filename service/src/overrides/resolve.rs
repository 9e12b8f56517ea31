//! Which of several overrides holds: the most specific that says something of a
//! limit and can take its place; else what the file says.
//!
//! This is the one place that knows the order. Levels without a key make the
//! limits of a policy; levels with one make what a set
//! [gives](tidegate::LimitSet::set_override) the key.

use std::slice;
use std::sync::Arc;

use tidegate_store::KeyPath;

use super::stored::Stored;
use super::target::{Level, OverrideTarget};
use crate::active_policy::ActivePolicy;
use tidegate::internal::{LimitInternals, Overrides, SetInternals};
use tidegate::{BuildError, Limit, LimitSet};
use tidegate_policy::Policy;

impl Level {
    /// Every one, the most specific first.
    pub const ALL: [Self; 4] = [
        Self::KeyAndPolicy,
        Self::Key,
        Self::Policy,
        Self::Everything,
    ];
}

/// The place of `level` that is about `key` and `policy`.
fn target(level: Level, key: Option<&[u8]>, policy: &str) -> Option<OverrideTarget> {
    let target = OverrideTarget::everything();
    Some(match level {
        Level::KeyAndPolicy => target.of_policy(policy).of_key(key?),
        Level::Key => target.of_key(key?),
        Level::Policy => target.of_policy(policy),
        Level::Everything => target,
    })
}

/// What is stored for `key` (or for no key in particular) in `policy`, the
/// most specific first.
fn stored_for<'s>(
    stored: &'s Stored,
    key: Option<&[u8]>,
    policy: &str,
) -> impl Iterator<Item = &'s Limit> {
    let levels = Level::ALL.into_iter();
    let levels = levels.filter(|level| (*level < Level::Policy) == key.is_some());
    let found = levels.filter_map(move |level| stored.at(&target(level, key, policy)?));
    found
        .flat_map(|kept| kept.value.limits.iter())
        .collect::<Vec<_>>()
        .into_iter()
}

/// `limits`, a plain policy's or one member's, which `set` decides by, for all keys that have
/// none of their own.
pub(crate) fn limits(
    stored: &Stored,
    (policy, set): (&Policy, &LimitSet),
    limits: &[Limit],
) -> Vec<Limit> {
    let own: Vec<_> = stored_for(stored, None, &policy.name).collect();
    let hold = |limit: &Limit| {
        let named = own.iter().filter(|own| own.name() == limit.name());
        let mut fitting = named.filter_map(|own| replaced(own, limit, &policy.levels, set).ok());
        fitting.next().unwrap_or_else(|| limit.clone())
    };
    limits.iter().map(hold).collect()
}

/// What `limit`, one that `set` decides by, becomes with the numbers of `own`.
///
/// # Errors
/// What an override cannot change; numbers out of range, or of which the set's tier leaves
/// nothing.
pub(super) fn replaced(
    own: &Limit,
    limit: &Limit,
    levels: &[String],
    set: &LimitSet,
) -> Result<Limit, BuildError> {
    let replaced = own.in_place_of(limit, levels);
    let replaced = replaced.map_err(|source| BuildError::Limit {
        limit: own.name().into(),
        source,
    })?;
    set.check_limit(&replaced)?;
    Ok(replaced)
}

/// What `key` is given in `policy`: of two of one name the first holds that
/// can take the limit's place.
pub(crate) fn given(stored: &Stored, key: &[u8], policy: &str) -> Option<Arc<[Limit]>> {
    let limits: Vec<_> = stored_for(stored, Some(key), policy).cloned().collect();
    (!limits.is_empty()).then(|| limits.into())
}

/// What each key is given in `policy`.
pub(crate) fn all_given(stored: &Stored, policy: &str) -> Overrides {
    let keys = stored.keys(policy).into_iter();
    let given = keys.filter_map(|key| Some((key.into(), given(stored, key, policy)?)));
    given.collect()
}

/// At which level the override is set whose numbers `limit`, a plain policy's or
/// one member's, has for `path`; `None`: the numbers are the policy's own, or the
/// key does not reach so far.
pub(super) fn source(
    stored: &Stored,
    active: &ActivePolicy,
    limit: &Limit,
    path: &KeyPath<'_>,
) -> Option<Level> {
    // Of a pool, whose sets have no tier, each tells the same.
    let (policy, set) = (active.policy(), active.set());
    let about = limit.level_in(&policy.levels).ok()?;
    if about >= path.depth() {
        return None;
    }
    let key = &*path.row(about);
    let for_all = limits(stored, (policy, set), slice::from_ref(limit));
    Level::ALL.into_iter().find(|level| {
        // What a key is given stands over what all keys have.
        let base = match level {
            Level::KeyAndPolicy | Level::Key => &for_all[0],
            Level::Policy | Level::Everything => limit,
        };
        let own = target(*level, Some(key), &policy.name).and_then(|target| stored.at(&target));
        let fits = |own: &Limit| {
            own.name() == limit.name() && replaced(own, base, &policy.levels, set).is_ok()
        };
        own.is_some_and(|kept| kept.value.limits.iter().any(fits))
    })
}
