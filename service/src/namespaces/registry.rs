//! The namespaces that there are, as this server knows them, and what serves each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use tidegate_store::sync::Mutex;
use tidegate_store::{Definitions, Follower, Store};
use tokio::runtime::Handle;

use super::error::NamespaceError;
use super::record::{Namespace, OWNER};
use super::said::NamespacePolicies;
use super::state::{MOST, NamespaceState};
use crate::change::Change;
use crate::error::{ServiceError, cut};
use crate::making::Making;
use tidegate::{Clock, Error, Timestamp};
use tidegate_policy::PolicyFile;

/// What serves a namespace.
pub(crate) trait Serves: Send + Sync + 'static {
    /// The namespace is deleted: whoever waits is told so, and nothing is measured any more.
    fn stop(&self);
}

/// The policies of one namespace, as they are exchanged.
pub(crate) trait Exchanged: Send + Sync + 'static {
    /// The server's file says other policies: goes over to them, unless others were applied.
    ///
    /// # Errors
    /// A store that cannot do it; then the old ones go on.
    fn reload(&self, by: &str, of_file: &PolicyFile) -> Result<(), Error>;

    /// Goes over to `policies` and has the store keep them, by their name and their text, or does
    /// neither. It waits for the store.
    ///
    /// # Errors
    /// Why not, in words.
    fn apply(
        &self,
        by: &str,
        said: (&str, &str),
        policies: &PolicyFile,
    ) -> Result<Vec<Change>, String>;
}

/// A namespace as this server knows it.
pub(crate) struct Space<S> {
    pub(crate) name: Arc<str>,
    /// Under which its things are kept.
    pub(super) id: u64,
    /// The number of its state; [`GONE`] or [`UNREADABLE`].
    state: AtomicU8,
    /// When this server heard that it is so, by its own clock, in microseconds.
    since: AtomicI64,
    /// What serves it, once it was asked.
    serves: ArcSwapOption<S>,
}

/// It is there no more.
const GONE: u8 = 0;

/// What is kept of it cannot be read.
const UNREADABLE: u8 = u8::MAX;

/// See the [module](self).
pub(crate) struct Registry<S> {
    pub(super) store: Arc<dyn Store>,
    /// What the file says of their policies.
    pub(super) policies: ArcSwap<NamespacePolicies>,
    spaces: ArcSwap<Spaces<S>>,
    /// Up to which version of theirs it was told.
    version: AtomicU64,
    clock: Clock,
    /// One change of what is known at a time.
    turn: Mutex<()>,
    making: Making<u64, Arc<S>>,
}

type Spaces<S> = HashMap<Arc<str>, Arc<Space<S>>, foldhash::fast::RandomState>;

impl<S: Serves> Space<S> {
    fn new(name: &str, id: u64, state: u8, now: Timestamp) -> Self {
        Self {
            name: name.into(),
            id,
            state: AtomicU8::new(state),
            since: AtomicI64::new(now.as_micros()),
            serves: ArcSwapOption::empty(),
        }
    }

    /// That it answers.
    ///
    /// # Errors
    /// It is deleted, being purged, gone, or cannot be read.
    pub(crate) fn check(&self) -> Result<(), NamespaceError> {
        let name = || self.name.as_ref().to_owned();
        let state = self.state.load(Ordering::SeqCst);
        match NamespaceState::of_number(state) {
            Some(NamespaceState::Active) => Ok(()),
            Some(NamespaceState::Deleted) => Err(NamespaceError::Deleted(name())),
            Some(NamespaceState::Purging) => Err(NamespaceError::Purging(name())),
            None if state == UNREADABLE => Err(NamespaceError::Unreadable(name())),
            None => Err(NamespaceError::Unknown(name())),
        }
    }

    /// Goes over to a state. What serves it stays for a restore, unless what it serves goes.
    fn become_so(&self, state: u8, now: Timestamp) {
        if self.state.load(Ordering::SeqCst) != state {
            self.since.store(now.as_micros(), Ordering::SeqCst);
        }
        self.state.store(state, Ordering::SeqCst);
        self.stop_in(state);
    }

    /// Stops what serves it, where it answers nobody in that state.
    fn stop_in(&self, state: u8) {
        const ACTIVE: u8 = NamespaceState::Active.number();
        const DELETED: u8 = NamespaceState::Deleted.number();
        let serves = match state {
            ACTIVE => None,
            DELETED | UNREADABLE => self.serves.load_full(),
            _ => self.serves.swap(None),
        };
        if let Some(serves) = serves {
            serves.stop();
        }
    }

    /// Is served by `made` from now on, if it still answers.
    fn keep(&self, made: &Arc<S>) {
        self.serves.store(Some(Arc::clone(made)));
        let state = self.state.load(Ordering::SeqCst);
        if self.check().is_err() {
            // It was deleted meanwhile, and nobody was here to be stopped.
            self.stop_in(state);
        }
    }

    /// What serves it, if it was asked.
    pub(crate) fn serves(&self) -> Option<Arc<S>> {
        self.serves.load_full()
    }
}

impl<S: Serves> Registry<S> {
    pub(crate) fn new(store: Arc<dyn Store>, policies: NamespacePolicies, clock: Clock) -> Self {
        Self {
            store,
            clock,
            policies: ArcSwap::from_pointee(policies),
            spaces: ArcSwap::default(),
            version: AtomicU64::new(0),
            turn: Mutex::default(),
            making: Making::default(),
        }
    }

    /// Those that are known.
    pub(crate) fn all(&self) -> Vec<Arc<Space<S>>> {
        self.spaces.load().values().cloned().collect()
    }

    /// That there may be another.
    pub(super) fn has_room(&self) -> Result<(), NamespaceError> {
        match self.spaces.load().len() < MOST {
            true => Ok(()),
            false => Err(NamespaceError::TooMany),
        }
    }

    /// When this server heard that a namespace is deleted, if it has.
    pub(super) fn deleted_since(&self, deleted: &Namespace) -> Option<Timestamp> {
        let spaces = self.spaces.load();
        let known = spaces.get(&*deleted.name)?;
        let is_so = known.id == deleted.id
            && known.state.load(Ordering::SeqCst) == NamespaceState::Deleted.number();
        is_so.then(|| Timestamp::from_micros(known.since.load(Ordering::SeqCst)))
    }

    /// The namespace called `name`, as far as it answers. Of one that is not known the store is
    /// asked: it may have been created at another server a moment ago.
    ///
    /// # Errors
    /// As [`Space::check`]; a store that cannot tell.
    pub(crate) async fn find(&self, name: &str) -> Result<Arc<Space<S>>, ServiceError> {
        let known = self.spaces.load().get(name).cloned();
        let space = match known {
            Some(known) => known,
            None => Box::pin(self.look_up(name)).await?,
        };
        space.check()?;
        Ok(space)
    }

    async fn look_up(&self, name: &str) -> Result<Arc<Space<S>>, ServiceError> {
        let unknown = || NamespaceError::Unknown(cut(name).into_owned());
        let version = self.version();
        let found = self.store.definition(OWNER, name.as_bytes()).await?;
        let found = found.as_ref().map(Namespace::read).transpose();
        let found = found.map_err(|_| NamespaceError::Unreadable(name.to_owned()))?;
        let found = found.flatten().ok_or_else(unknown)?;
        let _one_at_a_time = self.turn.lock();
        let mut spaces = Spaces::clone(&self.spaces.load());
        if let Some(known) = spaces.get(name) {
            return Ok(Arc::clone(known));
        }
        let space = Space::new(name, found.id, found.state.number(), self.clock.now());
        let space = Arc::new(space);
        // What was read may be older than what was told meanwhile: then it serves nobody.
        if self.version() != version {
            return Err(unknown().into());
        }
        if spaces.len() < MOST {
            spaces.insert(Arc::clone(&space.name), Arc::clone(&space));
            self.spaces.store(Arc::new(spaces));
        }
        Ok(space)
    }

    /// What serves `space`: made by `make`, once, beside the threads of requests.
    ///
    /// # Errors
    /// Those of `make`; [`ServiceError::Busy`].
    pub(crate) async fn serving(
        &self,
        space: &Arc<Space<S>>,
        make: impl FnOnce() -> Result<S, Error> + Send + 'static,
    ) -> Result<Arc<S>, ServiceError> {
        if let Some(serves) = space.serves() {
            return Ok(serves);
        }
        let kept = Arc::clone(space);
        let make = move || {
            if let Some(serves) = kept.serves() {
                return Ok(serves);
            }
            let made = Arc::new(make()?);
            kept.keep(&made);
            Ok(made)
        };
        match Handle::try_current() {
            Ok(runtime) => self.making.make(&runtime, space.id, make).await,
            Err(_) => Ok(make()?),
        }
    }
}

/// What a definition says of a namespace: its id and the number of its state.
fn said(name: &str, definition: &tidegate_store::Definition) -> Option<(u64, u8)> {
    match Namespace::read(definition) {
        Ok(read) => read.map(|read| (read.id, read.state.number())),
        Err(error) => {
            tracing::error!(
                namespace = name, %error,
                "a namespace cannot be read; every request in it is refused here: upgrade this server"
            );
            Some((0, UNREADABLE))
        }
    }
}

impl<S: Serves> Follower for Registry<S> {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn follow(&self, definitions: &Definitions) {
        let _one_at_a_time = self.turn.lock();
        if definitions.newer_than != self.version() {
            return;
        }
        let (old, now) = (self.spaces.load_full(), self.clock.now());
        let mut new = match definitions.whole {
            true => Spaces::default(),
            false => Spaces::clone(&old),
        };
        for definition in &definitions.changed {
            let Ok(name) = str::from_utf8(&definition.key) else {
                continue;
            };
            let known = old.get(name);
            match (said(name, definition), known) {
                (None, _) => drop(new.remove(name)),
                (Some((id, state)), Some(known)) if known.id == id || state == UNREADABLE => {
                    known.become_so(state, now);
                    new.insert(Arc::clone(&known.name), Arc::clone(known));
                }
                (Some((id, state)), _) => {
                    let space = Arc::new(Space::new(name, id, state, now));
                    new.insert(Arc::clone(&space.name), space);
                }
            }
        }
        let is_same = |space: &Arc<Space<S>>| {
            new.get(&space.name)
                .is_some_and(|one| Arc::ptr_eq(one, space))
        };
        let gone: Vec<_> = old
            .values()
            .filter(|space| !is_same(space))
            .cloned()
            .collect();
        self.spaces.store(Arc::new(new));
        gone.iter().for_each(|space| space.become_so(GONE, now));
        self.version.store(definitions.version, Ordering::Release);
    }
}
