//! Somebody who follows what is defined for an owner.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidegate_store::{Definitions, Follower, Store};

/// Whoever waits longer than this waits in vain: far beyond what any store says.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is known, by key.
type Known = BTreeMap<Vec<u8>, Vec<u8>>;

/// Notes what it is told.
#[derive(Debug, Default)]
pub struct Witness {
    known: Mutex<(u64, Known)>,
    told: Condvar,
}

impl Witness {
    /// One that follows `owner` at `store` from the beginning.
    #[must_use]
    pub fn of(store: &dyn Store, owner: &str) -> Arc<Self> {
        let this = Arc::<Self>::default();
        let follower: Arc<dyn Follower> = Arc::clone(&this) as Arc<dyn Follower>;
        store.follow(owner, Arc::downgrade(&follower));
        this
    }

    /// What it knows of `key` now.
    ///
    /// # Panics
    /// Where a test has panicked before.
    pub fn knows(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.known
            .lock()
            .expect("no test panics there")
            .1
            .get(key)
            .cloned()
    }

    /// Waits until it knows just this of `key`.
    ///
    /// # Panics
    /// If it never does.
    pub fn awaits(&self, key: &[u8], value: Option<&[u8]>) {
        let known = self.known.lock().expect("no test panics there");
        let is_other = |known: &mut (u64, Known)| known.1.get(key).map(Vec::as_slice) != value;
        let waited = self.told.wait_timeout_while(known, PATIENCE, is_other);
        let (known, waited) = waited.expect("no test panics there");
        assert!(
            !waited.timed_out(),
            "{key:?} never became {value:?}: {known:?}"
        );
    }
}

impl Follower for Witness {
    fn version(&self) -> u64 {
        self.known.lock().expect("no test panics there").0
    }

    fn follow(&self, definitions: &Definitions) {
        let mut known = self.known.lock().expect("no test panics there");
        if known.0 != definitions.newer_than {
            return;
        }
        if definitions.whole {
            known.1.clear();
        }
        for definition in definitions.changed.clone() {
            match definition.value {
                Some(value) => known.1.insert(definition.key, value),
                None => known.1.remove(&definition.key),
            };
        }
        known.0 = definitions.version;
        self.told.notify_all();
    }
}
