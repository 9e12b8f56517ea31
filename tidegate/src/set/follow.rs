//! What another process gives a key holds here, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_store::{Definition, Definitions, Follower, StoreError};

use super::inner::Inner;
use super::variants::Overrides;
use crate::error::BuildError;
use crate::limit::Limit;

/// Of more keys that change at once the limits are made anew in one step.
const ONE_BY_ONE: usize = 16;

impl Follower for Inner {
    fn version(&self) -> u64 {
        let override_store = self.override_store.as_ref();
        override_store.map_or(0, |override_store| {
            override_store.version.load(Ordering::Acquire)
        })
    }

    fn follow(&self, definitions: &Definitions) {
        let Some(override_store) = &self.override_store else {
            return;
        };
        let _one_at_a_time = override_store.turn.lock();
        if definitions.newer_than != self.version() {
            return;
        }
        let followed = match definitions.whole || definitions.changed.len() > ONE_BY_ONE {
            true => self.give_all(definitions),
            // What cannot be made use of keeps nothing from the others.
            false => {
                let each = definitions.changed.iter().map(|one| self.give_one(one));
                each.fold(Ok(()), Result::and)
            }
        };
        *override_store.fault.lock() = followed.err();
        override_store
            .version
            .store(definitions.version, Ordering::Release);
    }
}

impl Inner {
    fn give_one(&self, definition: &Definition) -> Result<(), BuildError> {
        self.give(&definition.key, read(definition)?)
    }

    /// What cannot be read stays as it was.
    fn give_all(&self, definitions: &Definitions) -> Result<(), BuildError> {
        let before = self.versions.given();
        let mut given = match definitions.whole {
            true => Overrides::new(),
            false => before.clone(),
        };
        let mut fault = None;
        for definition in &definitions.changed {
            let limits = read(definition).unwrap_or_else(|error| {
                fault = Some(error);
                before.get(definition.key.as_slice()).cloned()
            });
            match limits {
                Some(limits) => drop(given.insert(definition.key.as_slice().into(), limits)),
                None => drop(given.remove(definition.key.as_slice())),
            }
        }
        if given != before {
            self.change_with(
                |_| {},
                |variants| variants.give_all(&self.versions.levels, given),
            )?;
        }
        fault.map_or(Ok(()), Err)
    }

    /// Whether what its keys were last given elsewhere holds here, too.
    ///
    /// # Errors
    /// What of it cannot be read, or cannot be given to a key here.
    pub(crate) fn check_overrides(&self) -> Result<(), BuildError> {
        let override_store = self.override_store.as_ref();
        let fault = override_store.and_then(|override_store| override_store.fault.lock().clone());
        fault.map_or(Ok(()), Err)
    }
}

fn read(definition: &Definition) -> Result<Option<Arc<[Limit]>>, BuildError> {
    let limits = definition
        .value
        .as_deref()
        .map(Limit::decode_all)
        .transpose();
    Ok(limits.map_err(StoreError::from)?.map(Arc::from))
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::set::LimitSet;

    /// A server of a newer version gave one key what is unknown here. What another key was
    /// given at the same time was passed over then, and never looked at again.
    #[test]
    fn what_cannot_be_read_of_one_key_keeps_nothing_from_the_others() {
        let hourly = |calls| Limit::calls("calls", calls, Duration::from_secs(3_600));
        let set = LimitSet::new([hourly(5)]).expect("a sound limit");
        let known = set.inner().version();
        set.inner().follow(&Definitions {
            newer_than: known,
            version: known + 1,
            whole: false,
            changed: vec![
                Definition::new(b"newer", vec![u8::MAX]),
                Definition::new(b"other", Limit::encode_all(&[hourly(9)])),
            ],
        });
        assert!(set.inner().check_overrides().is_err());
        let of = |key: &str| set.override_of(key).map(|given| given.limits);
        assert_eq!((of("newer"), of("other")), (None, Some(vec![hourly(9)])));
    }
}
