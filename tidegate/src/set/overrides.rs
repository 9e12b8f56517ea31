//! Limits of some keys' own: set, removed and listed while in use.
//!
//! An override is a change of limits for one key (or ancestor): it makes a new
//! version and applies at the next decision. Of the table only that key's row
//! is carried over, so it costs the same whatever else there is. The store keeps it,
//! and tells every set of that name, here and elsewhere (`override_store`).

use std::future::Future;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use tidegate_store::key::row_name;
use tidegate_store::{KeyPath, StoreFuture};

use super::inner::{Inner, LimitSet};
use super::variants;
use super::view::View;
use crate::error::BuildError;
use crate::key::Key;
use crate::limit::Limit;
use crate::pending::Pending;

/// What a key was given.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Override {
    /// The key or ancestor: of an entity the name of its row, `/acme//alice`.
    pub key: Vec<u8>,
    /// Its limits, as they were given.
    pub limits: Vec<Limit>,
    /// The names of those without effect as the set's limits are now: the set
    /// has no such limit, or one of another level or kind.
    pub inert: Vec<String>,
}

impl LimitSet {
    /// Gives `key` limits of its own, in place of those of the same names and
    /// of any that it was given before; from the next decision on. A prefix of
    /// keys (`acme` of `acme/search/alice`) is given those of its own level. An entity is found
    /// by its root and its id: `/acme/search/alice` says the same as `/acme//alice`, which is the
    /// name of its row and how it is listed, and holds wherever it moves within its root.
    ///
    /// A limit that the set does not have may be given beside its own, if it says that it is
    /// [added](Limit::added): at most 32 names of those in a set, each counted alike and about the
    /// same level wherever it is given. It says no other level than the key's, and is not
    /// [adaptive](Limit::adaptive).
    ///
    /// What is said of a limit is how much: its amount, its period, its burst,
    /// how long slots are held. How it is counted stays as the set has it. What
    /// was used stays used; raising a limit delays no one, and whoever waits
    /// and would be admitted now is. It holds wherever the set is used on the same store:
    /// here when this returns, elsewhere within the time that the store says.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Limit, LimitSet};
    /// # let minute = Duration::from_secs(60);
    /// let set = LimitSet::new([Limit::calls("rpm", 100, minute)])?;
    /// set.set_override("acme", &[Limit::calls("rpm", 1_000, minute)]).wait()?;
    /// assert_eq!(set.peek("acme", 1).wait()?.standing("rpm").map(|s| s.limit), Some(1_000));
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    ///
    /// # Errors
    /// A key that cannot be one; no limit at all, one twice, an unknown name,
    /// one of another level ([`BuildError::OtherLevel`]) or kind
    /// ([`LimitError::Unlike`](crate::LimitError::Unlike)), or one that makes no
    /// sense; [`BuildError::TooManyOverrides`] beyond 131,072 keys,
    /// [`BuildError::TooManyAdded`] beyond 32 names. Then nothing changes.
    pub fn set_override<'k>(
        &self,
        key: impl Into<Key<'k>>,
        limits: &[Limit],
    ) -> Pending<impl Future<Output = Result<(), BuildError>> + Send> {
        let key = key.into().bytes();
        Pending::new(async move {
            self.tell(key, limits)?.await?;
            Ok(())
        })
    }

    fn tell(&self, key: &[u8], limits: &[Limit]) -> Result<StoreFuture<bool>, BuildError> {
        let inner = self.inner();
        let override_store = inner.override_store.as_ref().ok_or(BuildError::Governed)?;
        let view = inner.view.load_full();
        let key = &*row_name(key, view.plan.levels());
        let path = KeyPath::of_row(key, view.plan.levels())?;
        inner.check_given(&view, &path, limits)?;
        inner
            .versions
            .ledger
            .lock()
            .variants
            .check_room(key, true)?;
        Ok(override_store.keep(key, Some(limits)))
    }

    /// Takes from `key` what it was given: the set's limits hold again, from the
    /// next decision on. Whether it was given any.
    ///
    /// # Errors
    /// As [`set_override`](Self::set_override).
    pub fn remove_override<'k>(
        &self,
        key: impl Into<Key<'k>>,
    ) -> Pending<impl Future<Output = Result<bool, BuildError>> + Send> {
        let key = key.into().bytes();
        Pending::new(async move { Ok(self.untell(key)?.await?) })
    }

    fn untell(&self, key: &[u8]) -> Result<StoreFuture<bool>, BuildError> {
        let inner = self.inner();
        let override_store = inner.override_store.as_ref().ok_or(BuildError::Governed)?;
        let levels = inner.view.load().plan.levels();
        Ok(override_store.keep(&row_name(key, levels), None))
    }

    /// What `key` was given.
    #[must_use]
    pub fn override_of<'k>(&self, key: impl Into<Key<'k>>) -> Option<Override> {
        let (key, inner) = (key.into().bytes(), self.inner());
        let key = &*row_name(key, inner.view.load().plan.levels());
        let ledger = inner.versions.ledger.lock();
        let limits = ledger.variants.given().get(key)?;
        Some(inner.shown(key, limits))
    }

    /// At most `most` overrides, in the order of their keys, from the first
    /// beyond `after` on.
    #[must_use]
    pub fn overrides(&self, after: Option<&[u8]>, most: usize) -> Vec<Override> {
        let inner = self.inner();
        let ledger = inner.versions.ledger.lock();
        let given = ledger.variants.given();
        let from = after.map_or(Unbounded, Excluded);
        let page = given.range::<[u8], _>((from, Unbounded)).take(most);
        page.map(|(key, limits)| inner.shown(key, limits)).collect()
    }
}

impl Inner {
    fn shown(&self, key: &[u8], limits: &[Limit]) -> Override {
        let view = self.view.load();
        Override {
            key: key.to_vec(),
            limits: limits.to_vec(),
            inert: variants::inert(&view, &self.versions.levels, key, limits)
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Whether `own` can be given to `key`.
    ///
    /// # Errors
    /// As [`LimitSet::set_override`].
    pub(crate) fn check_override(&self, key: &[u8], own: &Limit) -> Result<(), BuildError> {
        let view = self.view.load_full();
        let path = KeyPath::of_row(key, view.plan.levels())?;
        self.check_given(&view, &path, std::slice::from_ref(own))
    }

    /// Whether there is room for the names that `given` adds.
    ///
    /// # Errors
    /// [`BuildError::TooManyAdded`].
    pub(crate) fn check_added_names(&self, given: &[Limit]) -> Result<(), BuildError> {
        variants::check_names(&self.view.load(), given)
    }

    fn check_given(
        &self,
        view: &View,
        path: &KeyPath<'_>,
        given: &[Limit],
    ) -> Result<(), BuildError> {
        let mut added = given.iter().filter(|own| own.is_added());
        if let (true, Some(own)) = (self.versions.tier.is_some(), added.next()) {
            return Err(BuildError::Limit {
                limit: own.name().into(),
                source: variants::TIERED,
            });
        }
        let row = path.row(path.depth() - 1);
        let is_alone = |name: &str| {
            let ledger = self.versions.ledger.lock();
            ledger.variants.is_alone(&row, name)
        };
        variants::check(view, &self.versions.levels, path, given, is_alone)
    }

    /// Whether `own` has an effect on `key` as the limits are.
    pub(crate) fn has_effect(&self, key: &[u8], own: &Limit) -> bool {
        let view = self.view.load();
        let own = std::slice::from_ref(own);
        variants::inert(&view, &self.versions.levels, key, own)
            .next()
            .is_none()
    }

    /// Gives `key` these limits, or takes them, as far as they have an effect.
    pub(crate) fn give(&self, key: &[u8], given: Option<Arc<[Limit]>>) -> Result<(), BuildError> {
        let mut ledger = self.versions.ledger.lock();
        let view = self.view.load_full();
        let path = KeyPath::of_row(key, view.plan.levels())?;
        if ledger.variants.given().get(key) == given.as_ref() {
            return Ok(());
        }
        ledger.variants.check_room(key, given.is_some())?;
        let levels = &self.versions.levels;
        ledger.variants.give((key, path.depth() - 1), levels, given);
        let own: Vec<_> = view.own().cloned().collect();
        let absent = ledger.variants.absent(&own, levels, Some(&view));
        // Those of the view are in the order of their levels.
        let is_same = view.added().count() == absent.len();
        if !(is_same && absent.iter().all(|limit| view.stands_for(limit))) {
            self.go_over_to(&mut ledger, &view, own)?;
            return self.check_room_for(ledger.variants.given().get(key));
        }
        let variant = ledger.variants.of(&view, &self.versions.levels, key);
        let version = view.plan.version() + 1;
        self.go_over(view.with_variant(version, key, variant));
        self.check_room_for(ledger.variants.given().get(key))
    }

    /// Whether all that is among `given`, which holds from here on, has a place: servers may
    /// have given their keys more than there is room for at the same time.
    ///
    /// # Errors
    /// [`BuildError::TooManyAdded`].
    fn check_room_for(&self, given: Option<&Arc<[Limit]>>) -> Result<(), BuildError> {
        match given {
            Some(given) if self.versions.tier.is_none() => {
                variants::check_names(&self.view.load(), given)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Limits stand in the order of their levels, what stands for those that only some keys have
    /// in that of their names: where the two differ, each override made all others anew.
    #[test]
    fn what_another_key_is_given_leaves_the_others_as_they_are() {
        let hourly = |name: &str| Limit::calls(name, 5, Duration::from_secs(3_600));
        let set = LimitSet::builder().levels(["org", "user"]);
        let set = set.limit(hourly("rpm")).build().expect("sound limits");
        let give = |key: &str, limit: Limit| {
            let given = set.set_override(key, &[limit]).wait();
            given.expect("it can be given");
            set.inner().view.load_full()
        };
        give("acme/alice", hourly("a").added());
        let before = give("acme", hourly("z").added());
        let after = give("other/bob", hourly("rpm"));
        assert!(after.plan.goes_on_from(&before.plan));
        assert_eq!(after.plan.version(), before.plan.version() + 1);
    }
}
