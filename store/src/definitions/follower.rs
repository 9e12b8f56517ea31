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

/// Who follows which owner. Of followers that are gone it keeps no more than of those that are
/// there, and a few.
#[derive(Default)]
pub struct Followers(Mutex<ByOwner>);

/// So few owners are never looked through for those that nobody follows any more.
const FEW: usize = 64;

#[derive(Default)]
struct ByOwner {
    of: HashMap<String, Vec<Weak<dyn Follower>>>,
    /// With so many owners they are looked through: twice as many as were left the last time,
    /// so that this costs each of them little.
    look_at: usize,
}

impl Followers {
    /// `follower` follows `owner` for as long as it is there.
    pub fn add(&self, owner: &str, follower: Weak<dyn Follower>) {
        let mut all = self.0.lock();
        if all.of.len() >= all.look_at.max(FEW) {
            all.drop_gone();
            all.look_at = 2 * all.of.len();
        }
        let theirs = all.of.entry(owner.to_owned()).or_default();
        theirs.retain(is_there);
        theirs.push(follower);
    }

    /// The owners that somebody follows.
    #[must_use]
    pub fn owners(&self) -> Vec<String> {
        let mut all = self.0.lock();
        all.drop_gone();
        all.of.keys().cloned().collect()
    }

    /// Who follows `owner`.
    #[must_use]
    pub fn of(&self, owner: &str) -> Vec<Arc<dyn Follower>> {
        let all = self.0.lock();
        let theirs = all.of.get(owner).into_iter().flatten();
        theirs.filter_map(Weak::upgrade).collect()
    }
}

impl ByOwner {
    fn drop_gone(&mut self) {
        self.of.retain(|_, theirs| {
            theirs.retain(is_there);
            !theirs.is_empty()
        });
    }
}

/// Whether it has not gone yet. (As long as one of them names it, its memory is not free.)
fn is_there(follower: &Weak<dyn Follower>) -> bool {
    follower.strong_count() > 0
}

impl std::fmt::Debug for Followers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Followers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Knows;

    impl Follower for Knows {
        fn version(&self) -> u64 {
            0
        }

        fn follow(&self, _: &Definitions) {}
    }

    fn weak(follower: &Arc<Knows>) -> Weak<dyn Follower> {
        Arc::<Knows>::downgrade(follower) as _
    }

    /// Each set of an ad-hoc rate followed an owner of its own, and each stayed: its name and its
    /// memory, for as long as the store.
    #[test]
    fn who_is_gone_is_forgotten_though_nobody_asks_for_its_owner_again() {
        let followers = Followers::default();
        let kept: Vec<_> = (0..100).map(|_| Arc::new(Knows)).collect();
        for (nth, follower) in kept.iter().enumerate() {
            followers.add(&format!("kept {nth}"), weak(follower));
        }
        for nth in 0..10_000 {
            followers.add(&format!("gone {nth}"), weak(&Arc::new(Knows)));
        }
        assert!(followers.0.lock().of.len() < 1_000);
        for nth in 0..kept.len() {
            assert_eq!(followers.of(&format!("kept {nth}")).len(), 1);
        }
    }
}
