//! The traits a store implements.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Amount, Bounds, Span, Standing, Timestamp, Verdict};

use crate::cell::HotCell;
use crate::command::{Command, Detail, Verb};
use crate::definitions::{self, Definition, Definitions, Follower, Later};
use crate::error::StoreError;
use crate::key::KeyPath;
use crate::listing::{HeldLease, Listing, Page};
use crate::owned::OwnedKey;
use crate::plan::Plan;
use crate::reply::{Granted, Reply};

/// What a store can do; what it cannot, it says at open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// State outlives the process.
    pub durable: bool,
    /// Other processes see the same state.
    pub shared: bool,
    /// The store reads a clock of its own.
    pub own_clock: bool,
}

/// Where state lives.
///
/// An implementation must never drop state that does not equal "never seen"
/// ([`Rule::forget_at`](tidegate_core::Rule::forget_at) says when it does),
/// never read the caller's clock, and never answer from anything but the
/// core's arithmetic.
pub trait Store: Send + Sync + 'static {
    /// What this store can do.
    fn abilities(&self) -> Abilities;

    /// The plan that the table called `name` was last used with, if it is there:
    /// who opens it numbers limits of the same name alike, and versions from
    /// there on.
    ///
    /// # Errors
    /// *Cannot tell*.
    fn last_plan(&self, name: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        let _ = name;
        Ok(None)
    }

    /// What has changed of what is [defined](Self::define) for `owner` since
    /// `newer_than`, a version that an answer led to; all of it since 0.
    ///
    /// # Errors
    /// *Cannot tell*.
    fn definitions(&self, owner: &str, newer_than: u64) -> Later<Definitions> {
        let _ = owner;
        let whole = newer_than == 0;
        definitions::at_once(Ok(Definitions {
            newer_than,
            version: newer_than,
            whole,
            changed: Vec::new(),
        }))
    }

    /// Keeps `definition` for `owner` in place of what was under its key: until it is
    /// removed or has lasted for as long as it says, and never dropped with any state.
    /// What it means is its owner's: a store reads none of it.
    ///
    /// Answers whether that changed anything: not if what is to be removed is not there.
    /// If it does, the owner's version grows in the same step. Before the answer comes, whoever [follows](Self::follow) the owner on
    /// this handle has gone over to it; on another handle and in another process that
    /// takes no longer than the store says.
    ///
    /// A store of one process does all this before it returns, which a disk may hold
    /// up.
    ///
    /// # Errors
    /// *Cannot tell*: it may have been kept. A store that keeps no definitions, or, of one
    /// process, none that lasts for a while only; then nothing was changed.
    fn define(&self, owner: &str, definition: Definition) -> Later<bool> {
        let _ = (owner, definition);
        definitions::at_once(Err(StoreError::Unavailable(
            "this store keeps no definitions; choose another for overrides".into(),
        )))
    }

    /// Has `follower` go over to every change of what is defined for `owner`, from the
    /// version on that it knows, for as long as it is there: told by the store where
    /// that can, and found by one look-up every now and then for all who follow. A store
    /// that is away holds up nobody; afterwards it is caught up with.
    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        let _ = (owner, follower);
    }

    /// The table of the set called `name`, made if it is not there; otherwise
    /// as it was left, to be [adopted](Table::adopt).
    ///
    /// # Errors
    /// What the store cannot do with this plan, or cannot reach;
    /// [`StoreError::InUse`]; [`StoreError::OtherLevels`].
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError>;

    /// Drops the table called `name`, which nobody asks any more: the next to open
    /// it finds nothing used. A store that others share keeps it until what was
    /// used is spent.
    fn forget(&self, name: &str) {
        let _ = name;
    }

    /// As [`open`](Self::open), within bounds of its own. Only a store that keeps
    /// its state in this process has any; in others it is for their server to
    /// bound what they keep.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_within(
        &self,
        name: &str,
        plan: &Arc<Plan>,
        bounds: &TableBounds,
    ) -> Result<Arc<dyn Table>, StoreError> {
        let _ = bounds;
        self.open(name, plan)
    }
}

/// How much one table may hold; `None`: as its store says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableBounds {
    /// The most keys (and ancestors) whose state matters at once.
    pub max_keys: Option<usize>,
    /// The most of them under one root (the keys' first segment), where keys have
    /// levels.
    pub max_keys_per_root: Option<usize>,
    /// The most leases held at once.
    pub max_leases: Option<usize>,
    /// The most leases held at once by keys of one root (their first segment).
    pub max_leases_per_root: Option<usize>,
    /// The most leases that are remembered after their end.
    pub max_remembered_leases: Option<usize>,
}

/// The state of one limit set, for all its keys. Commands on one root are
/// executed one after the other, each wholly or not at all.
pub trait Table: Send + Sync + 'static {
    /// Executes one command.
    ///
    /// # Errors
    /// *Cannot tell*; then nothing was changed.
    fn execute(&self, command: &Command<'_>) -> Result<Reply, StoreError>;

    /// The lean form of a take without lease: the verdict alone.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    fn admit(
        &self,
        plan: &Arc<Plan>,
        key: &KeyPath<'_>,
        amounts: &[Amount],
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        let verb = Verb::Take {
            amounts,
            lease: None,
            detail: Detail::Verdict,
        };
        let command = Command {
            plan,
            key: key.clone(),
            now,
            calendars: &[],
            verb,
        };
        match self.execute(&command)? {
            Reply::Decision(decision) => Ok(decision.verdict),
            _ => Err(StoreError::Unavailable("a take was not answered".into())),
        }
    }

    /// As [`admit`](Self::admit), for a plan of one limit on one level, a key
    /// whose length was checked, and at least one unit.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    fn admit_one(
        &self,
        plan: &Arc<Plan>,
        key: &[u8],
        amount: Amount,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        let key = KeyPath::new(key, 1).map_err(|e| StoreError::Unavailable(e.to_string()))?;
        self.admit(plan, &key, &[amount], now)
    }

    /// As [`admit_one`](Self::admit_one), with the limit's standing after it, where
    /// that is as lean; `None` where it is not: then nothing was done, and the
    /// take is to be [executed](Self::execute).
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    fn check_one(
        &self,
        plan: &Arc<Plan>,
        key: &[u8],
        amount: Amount,
        now: Timestamp,
    ) -> Result<Option<(Verdict, Standing)>, StoreError> {
        let _ = (plan, key, amount, now);
        Ok(None)
    }

    /// Pins the state of a key of a single-bucket plan, if this store keeps it
    /// where an atomic operation reaches it.
    fn pin(&self, plan: &Arc<Plan>, key: &[u8], now: Timestamp) -> Option<Arc<HotCell>> {
        let _ = (plan, key, now);
        None
    }

    /// The limits have changed to `plan` as of `now`, with these boundaries of
    /// its calendars: from here on nothing is decided by an older one, and what
    /// drained until now has drained at the older one's rate.
    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        let _ = (plan, now, calendars);
    }

    /// Gives a pin back.
    fn unpin(&self, key: &[u8], cell: Arc<HotCell>) {
        let _ = (key, cell);
    }

    /// The lease that an ask with this idempotency key was given on `key`, if it is
    /// held at `now`: a retry is answered by it, whoever waits. `None` from a store
    /// that keeps the line itself, and finds it there.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    fn find_repeated(
        &self,
        key: &KeyPath<'_>,
        ask: &[u8],
        now: Timestamp,
    ) -> Result<Option<Granted>, StoreError> {
        let _ = (key, ask, now);
        Ok(None)
    }

    /// The table as one that answers later, if it lies beyond a network: who
    /// must not block asks it there.
    fn remote(&self) -> Option<&dyn RemoteTable> {
        None
    }

    /// A page of the keys (and ancestors) whose state matters.
    ///
    /// # Errors
    /// [`StoreError::CannotList`], [`StoreError::UnknownPage`]; the store.
    fn list_keys(&self, listing: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        let _ = listing;
        Err(StoreError::CannotList)
    }

    /// A page of the leases that are held.
    ///
    /// # Errors
    /// As [`list_keys`](Self::list_keys).
    fn list_leases(&self, listing: &Listing<'_>) -> Result<Page<HeldLease>, StoreError> {
        let _ = listing;
        Err(StoreError::CannotList)
    }

    /// How many leases are held at `now`; `None` if it would take long to say.
    fn leases_held(&self, now: Timestamp) -> Option<usize> {
        let _ = now;
        None
    }

    /// How many leases are remembered that are not held any more; `None` if it
    /// would take long to say.
    fn leases_remembered(&self) -> Option<usize> {
        None
    }

    /// Whether whoever changes something now is held up, until a disk has it or for
    /// a round trip: a caller that others wait for does so on a thread that nobody needs.
    fn holds_up(&self) -> bool {
        self.remote().is_some()
    }

    /// How many keys are held.
    fn len(&self) -> usize;

    /// Whether no key is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An answer that comes later.
pub type Sent = Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send>>;

/// A table whose answers take a round trip. Its [`Table::execute`] blocks the
/// calling thread for as long.
pub trait RemoteTable: Send + Sync {
    /// Executes one command. It is under way when this returns, on whatever
    /// drives the store, and goes on if the future is dropped; the future may be
    /// polled anywhere.
    fn send(&self, command: &Command<'_>) -> Sent;

    /// Executes a take with a lease, and waits for its turn: who waits for one
    /// key is served in order of arrival at the store, in whatever process, and
    /// nobody overtakes. `None` if the store has no lines: nothing was done.
    ///
    /// The answer comes when the lease is granted, when it never can be, with the
    /// last refusal when `patience` ends, or when the store cannot tell. If the
    /// future is dropped, the place is given back, and a lease that was granted
    /// but not told of, unless it stays for a retry. After [`StoreError::StalePlan`] the place is kept for a
    /// moment, for who asks again with the same patience by the newer plan.
    fn wait(&self, command: &Command<'_>, patience: &Patience) -> Option<Sent> {
        let _ = (command, patience);
        None
    }
}

/// How an ask waits at the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// What its place is known by: random, and no other ask's.
    pub turn: u128,
    /// How much earlier than it did it counts as having come.
    pub ahead: Span,
    /// How long it waits from when it came.
    pub longest: Option<Duration>,
    /// When it came, by its caller's clock.
    pub since: Timestamp,
    /// Its caller may go away and ask again by the same idempotency key: then what it
    /// was granted stays for the retry, until it expires.
    pub retried: bool,
}
