//! Who goes by what is defined.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::definition::Definitions;
use crate::sync::Mutex;

/// Who goes by what is defined for an owner.
pub trait Follower: Send + Sync {
    /// Up to which version it knows; 0 at first. Never waits for anything.
    fn version(&self) -> u64;

    /// Whether it keeps only some of what is defined, in a cache, and reads the rest when it
    /// is asked for it. Then it is told of changed keys alone, which it drops; and to forget
    /// all that it knows where the store no longer knows what has changed: never all that is
    /// defined, of which there may be millions.
    fn is_partial(&self) -> bool {
        false
    }

    /// Goes over to `definitions`, if they go on from [`version`](Self::version), and
    /// then knows their version, whether it could make use of them or not; if not,
    /// changes nothing. It may take as long as a change of limits does.
    fn follow(&self, definitions: &Definitions);
}

/// Who follows which owner.
#[derive(Default)]
pub struct Followers(Mutex<HashMap<String, Vec<Weak<dyn Follower>>>>);

impl Followers {
    /// `follower` follows `owner` for as long as it is there.
    pub fn add(&self, owner: &str, follower: Weak<dyn Follower>) {
        let mut all = self.0.lock();
        let theirs = all.entry(owner.to_owned()).or_default();
        theirs.retain(|one| one.strong_count() > 0);
        theirs.push(follower);
    }

    /// The owners that somebody follows.
    #[must_use]
    pub fn owners(&self) -> Vec<String> {
        let mut all = self.0.lock();
        all.retain(|_, theirs| theirs.iter().any(|one| one.strong_count() > 0));
        all.keys().cloned().collect()
    }

    /// Who follows `owner`.
    #[must_use]
    pub fn of(&self, owner: &str) -> Vec<Arc<dyn Follower>> {
        let all = self.0.lock();
        let theirs = all.get(owner).into_iter().flatten();
        theirs.filter_map(Weak::upgrade).collect()
    }
}

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followers").finish_non_exhaustive()
    }
}
