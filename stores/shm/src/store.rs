//! The store: a segment, and tables by name.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate_store::core::Timestamp;
use tidegate_store::definitions::at_once;
use tidegate_store::optimistic::{Clock, KnownRevisions};
use tidegate_store::revisions::Revisions;
use tidegate_store::{
    Abilities, Change, Defined, Definition, Definitions, Event, Follower, Page, Plan, Store,
    StoreError, StoreFuture, Table,
};

use crate::at_hand::AtHand;
use crate::decide::Inner;
use crate::error::ShmError;
use crate::following::Following;
use crate::options::Options;
use crate::owed::Owed;
use crate::registry;
use crate::segment::{self, Segment};
use crate::shared::Shared;
use crate::steps::Steps;
use crate::table::{ShmTable, Users};
use crate::waiters::LazyWaiters;

/// State in shared memory, of all processes of one user that open it by the same name. See
/// the [crate].
///
/// When it is dropped, and every set on it, the last of them waits for what is under way, at
/// most for a second.
pub struct ShmStore(pub(crate) Arc<Users>);

impl ShmStore {
    /// The segment called `name`, made if it is not there.
    ///
    /// # Errors
    /// [`ShmError`]; then it is as it was.
    pub fn open(name: &str, options: Options) -> Result<Self, ShmError> {
        options.check()?;
        let path = segment::path(name, &options)?;
        let segment = Segment::open(&path, &options)?;
        let steps = Arc::new(Steps::new(segment, options.deadline));
        Ok(Self(Arc::new(Users::new(Arc::new(Shared {
            path,
            clock: options.clock,
            leases_end_with_process: options.leases_end_with_process,
            following: Arc::new(Following::new(&steps)),
            waiters: LazyWaiters::new(&steps),
            owed: Owed::new(&steps),
            steps,
        })))))
    }

    /// Its file. Removed while processes have it open, it is theirs alone from then on, and
    /// whoever opens it next has another.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.shared.path
    }
}

impl fmt::Debug for ShmStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShmStore").field(&self.path()).finish()
    }
}

impl Store for ShmStore {
    /// It lasts as long as the machine runs, if its file is in memory: that is not durable.
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: false,
            shared: true,
            own_clock: self.0.shared.clock == Clock::Server,
            answers_can_be_lost: false,
            counts_usage: true,
        }
    }

    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        let found = registry::find(&self.0.shared.steps, name, false)?;
        Ok(found.and_then(|(_, plan)| plan).map(Arc::new))
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        at_once(self.0.shared.steps.defined(owner, newer_than, false))
    }

    /// Others know as soon as the system lets them run.
    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        let made = self.0.shared.steps.change(owner, &change);
        if made.as_ref().is_ok_and(Defined::is_changed) {
            // What cannot be told now is told with the next change.
            let _ = self.0.shared.following.lead(owner);
        }
        at_once(made)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        at_once(self.0.shared.steps.definition(owner, key))
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        at_once(
            self.0
                .shared
                .steps
                .definition_with_ancestors(owner, key, parent_offset),
        )
    }

    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        let steps = &self.0.shared.steps;
        at_once(steps.definitions_page(owner, (prefix, after), most))
    }

    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        _: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        at_once(self.0.shared.steps.events(owner, subject, after, most))
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.0.shared.following.follow(owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let shared = &self.0.shared;
        let (number, kept) = registry::find(&shared.steps, name, true)?.unwrap_or_default();
        match kept.map(|kept| kept.levels()) {
            Some(kept) if kept != plan.levels() => Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                wanted: plan.levels(),
            }),
            _ => {
                let inner = Inner {
                    shared: Arc::clone(shared),
                    number,
                    revisions: Revisions::default(),
                    known: KnownRevisions::default(),
                    at_hand: AtHand::default(),
                    writing: Mutex::new(()),
                };
                Ok(Arc::new(ShmTable::new(
                    Arc::clone(&self.0),
                    Arc::new(inner),
                )))
            }
        }
    }
}
