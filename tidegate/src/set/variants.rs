//! What the keys of a set were given, and the limits made of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use tidegate_store::{KeyMap, KeyPath, OwnedKey};
use tidegate_tier::Tier;

use super::variant::Variant;
use super::view::View;
use crate::error::BuildError;
use crate::limit::{Limit, LimitError};

/// The most keys of a set that may have limits of their own.
pub(super) const MOST: usize = 1 << 17;

/// The most names of limits that only some keys have.
const MOST_ADDED: usize = 32;

/// The limits that keys of a set have of their own, by key.
// In order, so that they are listed in pages.
pub type Overrides = BTreeMap<Box<[u8]>, Arc<[Limit]>>;

impl Variant {
    /// `given` over the limits of `view`, for keys of `level`. Those that the
    /// set has none for, or whose likes it does not have, are passed over; of
    /// two of one name the first holds that is not.
    fn new(view: &View, levels: &[String], level: usize, given: &[Limit]) -> Self {
        let mut limits = Arc::clone(&view.limits);
        let mut rules = HashMap::new();
        for own in given.iter() {
            let Ok((position, limit)) = over(view, levels, level, own) else {
                continue;
            };
            let uid = view.plan.limits()[position].uid;
            if rules.contains_key(&uid) {
                continue;
            }
            if let Ok(planned) = view.planned(&limit, uid, levels) {
                rules.insert(uid, planned.rule);
                Arc::make_mut(&mut limits)[position] = limit;
            }
        }
        let plan = view.plan.variant(|limit| rules.get(&limit.uid).copied());
        Self {
            plan: Arc::new(plan),
            limits,
        }
    }
}

/// Where the limit stands that `own` is an override of, and what it becomes.
fn over(
    view: &View,
    levels: &[String],
    level: usize,
    own: &Limit,
) -> Result<(usize, Limit), BuildError> {
    let position = view.to_change(own)?;
    let about = view.plan.limits()[position].level;
    if about != level {
        return Err(other_level(own.name(), levels, (about, level)));
    }
    let base = &view.limits[position];
    let limit = match base.is_absent() {
        true => own.in_place_of_absent(base).ok_or(COUNTED_OTHERWISE),
        false => own.over(base),
    };
    let limit = limit.map_err(|source| BuildError::Limit {
        limit: own.name().into(),
        source,
    })?;
    Ok((position, limit))
}

fn other_level(limit: &str, levels: &[String], (about, level): (usize, usize)) -> BuildError {
    let word = |level: usize| levels.get(level).cloned().unwrap_or_default();
    BuildError::OtherLevel {
        limit: limit.into(),
        about: word(about),
        level: word(level),
    }
}

const COUNTED_OTHERWISE: LimitError = LimitError::NotAddable(
    "another key has one of this name that is counted otherwise; take another name",
);

const THERE_ALREADY: LimitError = LimitError::NotAddable(
    "there is one of this name for every key; leave `added` out to give this key other numbers",
);

/// Why nothing is added where there is a tier.
pub(super) const TIERED: LimitError = LimitError::NotAddable(
    "units of these limits are taken from the store in advance (`tier`); add it to limits without",
);

const ONLY_GIVEN: LimitError = LimitError::NotAddable(
    "a set's own limits are every key's; leave `added` out, or give it to a key as an override",
);

/// Checks that `limits` can be a set's own.
///
/// # Errors
/// One is [added](Limit::added).
pub(super) fn check_own(limits: &[Limit]) -> Result<(), BuildError> {
    match limits.iter().find(|limit| limit.is_added()) {
        None => Ok(()),
        Some(added) => Err(BuildError::Limit {
            limit: added.name().into(),
            source: ONLY_GIVEN,
        }),
    }
}

const ADAPTIVE: LimitError = LimitError::NotAddable(
    "its capacity is the override's, and none that is set each moment; leave `adaptive` out",
);

/// Checks that a key of `level` can be given `own` beside the limits of `view`; if the key
/// `is_alone` in having one of that name, whatever that is.
fn check_added(
    view: &View,
    levels: &[String],
    level: usize,
    own: &Limit,
    is_alone: bool,
) -> Result<(), BuildError> {
    let wrong = |source| BuildError::Limit {
        limit: own.name().into(),
        source,
    };
    let planned = match view.find(own.name()) {
        Some(position) if !view.limits[position].is_absent() => return Err(wrong(THERE_ALREADY)),
        _ if own.is_adaptive() => return Err(wrong(ADAPTIVE)),
        Some(_) if !is_alone => over(view, levels, level, own)?.1,
        _ => own.clone(),
    };
    let about = own.level_in(levels).map_err(wrong)?;
    if own.has_level() && about != level {
        return Err(other_level(own.name(), levels, (about, level)));
    }
    planned.plan(0, levels).map(drop).map_err(wrong)
}

/// What bounds how much of each of these limits is out at nodes: slots that no key is asked for,
/// but for those who take units in advance. Limits of slots bound that themselves.
fn slots_beside(own: &[Limit], tier: &Tier) -> Vec<Limit> {
    let own = own.iter().filter(|limit| !limit.is_concurrency());
    let slots = own.filter_map(|limit| {
        let (name, units) = tier.slots_beside(limit.name())?;
        Some(limit.slots_beside(name, units))
    });
    slots.collect()
}

/// Checks that there is room for the names that `given` adds to those of `view`.
///
/// # Errors
/// [`BuildError::TooManyAdded`].
pub(super) fn check_names(view: &View, given: &[Limit]) -> Result<(), BuildError> {
    let is_new = |own: &&Limit| own.is_added() && view.find(own.name()).is_none();
    let new = given.iter().filter(is_new).count();
    match new > 0 && view.added().count() + new > MOST_ADDED {
        true => Err(BuildError::TooManyAdded(MOST_ADDED)),
        false => Ok(()),
    }
}

/// Checks that every one of `given` is an override for `key`, which `is_alone` in having an
/// added limit of a name.
///
/// # Errors
/// [`BuildError`]: none at all, two of one name, an unknown name, one that is about
/// another level, one of another kind, numbers that make no limit, or too many names.
pub(super) fn check(
    view: &View,
    levels: &[String],
    key: &KeyPath<'_>,
    given: &[Limit],
    is_alone: impl Fn(&str) -> bool,
) -> Result<(), BuildError> {
    if given.is_empty() {
        return Err(BuildError::Nothing("limit"));
    }
    for (nth, own) in given.iter().enumerate() {
        if given[..nth].iter().any(|other| other.name() == own.name()) {
            return Err(BuildError::DuplicateLimit(own.name().into()));
        }
        if own.is_added() {
            check_added(view, levels, key.depth() - 1, own, is_alone(own.name()))?;
            continue;
        }
        let (position, limit) = over(view, levels, key.depth() - 1, own)?;
        view.planned(&limit, view.plan.limits()[position].uid, levels)?;
    }
    check_names(view, given)
}

/// What the keys of a set were given, and the variants made of it: one for all
/// keys of a level that were given the same.
#[derive(Debug, Default)]
pub(super) struct Variants {
    given: Overrides,
    /// The limits that only some keys have, by their name and the key: what stands for each
    /// at the others.
    added: BTreeMap<Box<str>, BTreeMap<Box<[u8]>, Limit>>,
    /// Units are taken from the store in advance: no key has any of those.
    tier: Option<Arc<Tier>>,
    made: HashMap<(usize, Arc<[Limit]>), Weak<Variant>>,
}

impl Variants {
    pub(super) fn new(tier: Option<Arc<Tier>>) -> Self {
        Self {
            tier,
            ..Self::default()
        }
    }

    pub(super) const fn given(&self) -> &Overrides {
        &self.given
    }

    /// Whether `key` may be given something.
    ///
    /// # Errors
    /// [`BuildError::TooManyOverrides`].
    pub(super) fn check_room(&self, key: &[u8], gives: bool) -> Result<(), BuildError> {
        let full = self.given.len() >= MOST && !self.given.contains_key(key);
        match gives && full {
            true => Err(BuildError::TooManyOverrides(MOST)),
            false => Ok(()),
        }
    }

    /// Notes what `key`, of `level`, was given. Keys that were given the same
    /// share it.
    pub(super) fn give(
        &mut self,
        (key, level): (&[u8], usize),
        levels: &[String],
        given: Option<Arc<[Limit]>>,
    ) {
        self.drop_added(key);
        let Some(given) = given else {
            self.given.remove(key);
            return;
        };
        self.note_added((key, level), levels, &given);
        let kind = (level, given);
        let alike = self.made.get_key_value(&kind);
        let given = alike.map_or(kind.1, |((_, alike), _)| Arc::clone(alike));
        self.given.insert(key.into(), given);
    }

    pub(super) fn give_all(&mut self, levels: &[String], given: Overrides) {
        self.added.clear();
        for (key, limits) in &given {
            if let Ok(path) = KeyPath::of_row(key, levels.len().max(1)) {
                self.note_added((key, path.depth() - 1), levels, limits);
            }
        }
        self.given = given;
    }

    fn note_added(&mut self, (key, level): (&[u8], usize), levels: &[String], given: &[Limit]) {
        for own in given.iter().filter(|own| own.is_added()) {
            let by_key = self.added.entry(own.name().into()).or_default();
            by_key.insert(key.into(), own.absent_at(levels.get(level)));
        }
    }

    fn drop_added(&mut self, key: &[u8]) {
        let Some(given) = self.given.get(key) else {
            return;
        };
        for own in given.iter().filter(|own| own.is_added()) {
            if let Some(by_key) = self.added.get_mut(own.name()) {
                by_key.remove(key);
                if by_key.is_empty() {
                    self.added.remove(own.name());
                }
            }
        }
    }

    /// Whether `key`, and no other, has an added limit called `name`.
    pub(super) fn is_alone(&self, key: &[u8], name: &str) -> bool {
        let by_key = self.added.get(name);
        by_key.is_some_and(|by_key| by_key.len() == 1 && by_key.contains_key(key))
    }

    /// What stands for the limits that only some keys have beside those of a set, `own`, in
    /// the order of their names: of two keys that have one of a name the first says how it is
    /// counted. If there are too many, since servers gave theirs at the same time, those of
    /// `before` stay.
    pub(super) fn absent(
        &self,
        own: &[Limit],
        levels: &[String],
        before: Option<&View>,
    ) -> Vec<Limit> {
        if let Some(tier) = &self.tier {
            return slots_beside(own, tier);
        }
        let is_own = |name: &str| own.iter().any(|limit| limit.name() == name);
        let added = self.added.iter().filter(|(name, _)| !is_own(name));
        let firsts = added.filter_map(|(_, by_key)| by_key.values().next());
        let sound = firsts.filter(|limit| limit.plan(0, levels).is_ok());
        let mut absent: Vec<Limit> = sound.cloned().collect();
        if absent.len() > MOST_ADDED {
            let is_new = |limit: &Limit| before.is_none_or(|view| !view.has_added(limit.name()));
            absent.sort_by_key(is_new);
            absent.truncate(MOST_ADDED);
            absent.sort_by(|one, other| one.name().cmp(other.name()));
        }
        absent
    }

    /// The variant of `key` over `view`, if it was given anything.
    pub(super) fn of(
        &mut self,
        view: &View,
        levels: &[String],
        key: &[u8],
    ) -> Option<Arc<Variant>> {
        let given = self.given.get(key)?;
        let path = KeyPath::of_row(key, view.plan.levels()).ok()?;
        let kind = (path.depth() - 1, Arc::clone(given));
        if let Some(variant) = self.made.get(&kind).and_then(Weak::upgrade) {
            return Some(variant);
        }
        let variant = Arc::new(Variant::new(view, levels, kind.0, given));
        if self.made.len() == self.made.capacity() {
            self.made.retain(|_, variant| variant.strong_count() > 0);
        }
        self.made.insert(kind, Arc::downgrade(&variant));
        Some(variant)
    }

    /// All variants, over limits that have changed to those of `view`.
    pub(super) fn all(&mut self, view: &View, levels: &[String]) -> KeyMap<Arc<Variant>> {
        self.made.clear();
        let keys: Vec<_> = self.given.keys().cloned().collect();
        let variant = |key: Box<[u8]>| {
            let variant = self.of(view, levels, &key)?;
            Some((OwnedKey::new(&key), variant))
        };
        keys.into_iter().filter_map(variant).collect()
    }
}

/// The names among `given` that are without effect on `key` as the limits are.
pub(super) fn inert<'g>(
    view: &View,
    levels: &[String],
    key: &[u8],
    given: &'g [Limit],
) -> impl Iterator<Item = &'g str> {
    let level = KeyPath::of_row(key, view.plan.levels()).map(|path| path.depth() - 1);
    let is_planned = move |(position, limit): (usize, Limit)| {
        let uid = view.plan.limits()[position].uid;
        view.planned(&limit, uid, levels).is_ok()
    };
    let has_effect = move |own: &&Limit| {
        level.is_ok_and(|level| over(view, levels, level, own).is_ok_and(is_planned))
    };
    let inert: Vec<_> = given.iter().filter(|own| !has_effect(own)).collect();
    inert.into_iter().map(Limit::name)
}
