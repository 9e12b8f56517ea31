//! The traits a store implements.

use std::sync::{Arc, Weak};

use tidegate_core::Timestamp;

use crate::atomic_bucket::AtomicBucket;
use crate::command::Command;
use crate::definitions::{self, Change, Defined, Definition, Definitions, Event, Follower};
use crate::error::StoreError;
use crate::execution::{Execution, Out};
use crate::listing::Page;
use crate::plan::Plan;
use crate::reply::{Answer, Reply};
use crate::store_future::StoreFuture;

/// What a store can do; what it cannot, it says at open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// State outlives the process.
    pub durable: bool,
    /// Other processes see the same state.
    pub shared: bool,
    /// The store reads a clock of its own.
    pub own_clock: bool,
    /// An answer can be lost: of a command that failed nobody knows whether it was done. Who
    /// is to take nothing twice asks again by an idempotency key. Where none can be lost, a
    /// command that failed has changed nothing.
    pub answers_can_be_lost: bool,
    /// It keeps what is used, of a plan that [counts](Plan::usage) it. Where it does not, no
    /// limit set has a plan that does.
    pub counts_usage: bool,
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
    /// `newer_than`, a version that an answer led to; all of it since 0, or since one that
    /// the store does not have ([`Definitions::since`]).
    ///
    /// # Errors
    /// *Cannot tell*.
    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        let _ = owner;
        let whole = newer_than == 0;
        definitions::at_once(Ok(Definitions {
            newer_than,
            version: newer_than,
            whole,
            changed: Vec::new(),
        }))
    }

    /// What is defined for `owner` under `key`, if anything is, with its version: one trip
    /// where the store is beyond a network.
    ///
    /// # Errors
    /// *Cannot tell*.
    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        let _ = (owner, key);
        definitions::at_once(Err(StoreError::CannotDefine(
            "reads no definition by itself".to_owned(),
        )))
    }

    /// What is defined for `owner` under each of these keys, which are few, in their order: as
    /// [`definition`](Self::definition) says it of each, all asked for at once.
    ///
    /// # Errors
    /// *Cannot tell*.
    fn definitions_at(&self, owner: &str, keys: &[&[u8]]) -> StoreFuture<Vec<Option<Definition>>> {
        let begun: Vec<_> = keys.iter().map(|key| self.definition(owner, key)).collect();
        StoreFuture::new(async move {
            let mut found = Vec::with_capacity(begun.len());
            for one in begun {
                found.push(one.await);
            }
            found.into_iter().collect()
        })
    }

    /// The definition under `key`, then its ancestors, the nearest first, all as of one instant; empty if
    /// there is none. The parent of a definition is the key that its value holds at `parent_offset`
    /// ([`Definition::parent_key`]). The list ends at a definition without a parent, before a parent
    /// that is not there, and after [`MOST_ANCESTORS`](definitions::MOST_ANCESTORS). A store that
    /// cannot read ancestors in the same trip returns the definition alone; its caller reads the
    /// rest.
    ///
    /// # Errors
    /// *Cannot tell*.
    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        let _ = parent_offset;
        let first = self.definition(owner, key);
        StoreFuture::new(async move { Ok(first.await?.into_iter().collect()) })
    }

    /// At most `most` definitions of `owner` whose keys begin with `prefix`, in the order of
    /// their keys' bytes, from behind the key `after` on, or from the first: by an index, so
    /// that a page costs what is on it. [`Page::next`] is the last key of the page. What is
    /// there from the first page to the last is on exactly one of them, whatever comes and
    /// goes meanwhile. A page has at most [`MOST_A_PAGE`](definitions::MOST_A_PAGE).
    ///
    /// # Errors
    /// *Cannot tell*.
    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        let _ = (owner, prefix, after, most);
        definitions::at_once(Err(StoreError::CannotDefine(
            "lists no definitions".to_owned(),
        )))
    }

    /// Keeps `definition` for `owner`, whatever was there: [`change`](Self::change) without
    /// a condition and without an event. Answers whether anything was changed.
    ///
    /// # Errors
    /// As there.
    fn define(&self, owner: &str, definition: Definition) -> StoreFuture<bool> {
        let changed = self.change(owner, definition.into());
        StoreFuture::new(async move { Ok(changed.await?.is_changed()) })
    }

    /// Keeps a definition for `owner` in place of what was under its key: until it is
    /// removed or has lasted for as long as it says, and never dropped with any state.
    /// What it means is its owner's: a store reads none of it.
    ///
    /// If it expects a version, and the key has another, nothing is changed and the answer
    /// is what is there. Else the owner's version grows, and the event that it carries is
    /// kept, in the same step: all of it or nothing. Before the answer comes, whoever
    /// [follows](Self::follow) the owner on this handle has gone over to it; on another
    /// handle and in another process that takes no longer than the store says.
    ///
    /// Who was not answered asks again with the same expected version: if the first was
    /// done, the answer is a conflict with the very value that was to be kept (with nothing,
    /// if it was to be removed), and the event was kept once.
    ///
    /// A store of one process does all this before it returns, which a disk may hold
    /// up.
    ///
    /// # Errors
    /// *Cannot tell*: it may have been kept. A store that keeps no definitions, or, of one
    /// process, none that lasts for a while only; then nothing was changed.
    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        let _ = (owner, change);
        definitions::at_once(Err(StoreError::CannotDefine(
            "keeps no definitions".to_owned(),
        )))
    }

    /// At most `most` events of `owner` about `subject`, or about anything, in the order of
    /// their versions, from behind the page that ended at `after` ([`Page::next`]) or from
    /// the oldest that is kept. One that is over is not told: by the store's clock, or where
    /// it has none at `now`. A page may have fewer, or none, and not be the last.
    ///
    /// # Errors
    /// *Cannot tell*; [`StoreError::UnknownPage`].
    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        let _ = (owner, subject, after, most, now);
        definitions::at_once(Err(StoreError::CannotDefine("keeps no events".to_owned())))
    }

    /// Has `follower` go over to every change of what is defined for `owner`, from the
    /// version on that it knows, for as long as it is there: told by the store where
    /// that can, and found by one look-up every now and then for all who follow. A store
    /// that is away holds up nobody; afterwards it is caught up with.
    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        let _ = (owner, follower);
    }

    /// The table of the set called `name`, made if it is not there; otherwise
    /// as it was left, to be [adopted](crate::Op::Adopt).
    ///
    /// # Errors
    /// What the store cannot do with this plan, or cannot reach; [`StoreError::InUse`] while
    /// the table is open, unless the store is [shared](Abilities::shared);
    /// [`StoreError::OtherLevels`].
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError>;

    /// Drops the table called `name`, which nobody asks any more: the next to open
    /// it finds nothing used. A store that others share keeps it until what was
    /// used is spent, and need not implement this; any other must.
    fn forget(&self, name: &str) {
        let _ = name;
    }

    /// Removes what is kept under names that begin with `prefix`: tables with all that is in
    /// them, and definitions and events of such owners. One call removes some thousand items at
    /// most, or looks at as many, and says where the next goes on ([`Cleared::next`]); it takes
    /// no longer than the store's deadline. What was there before the first call is gone after
    /// the last. Whoever was killed in between, or not answered, begins again from the first.
    ///
    /// Nobody may use such names meanwhile. What is done then with a table that is open depends on
    /// the store: on Redis it writes to the name again; on PostgreSQL and MariaDB it is answered
    /// [`StoreError::TableGone`] until it is opened anew; a store of one process drops it, and its
    /// handle goes on with what nobody else finds.
    ///
    /// Nor is it told to those who [follow](Self::follow) such an owner: what they know they keep,
    /// until the owner's next change. Versions of definitions and events may begin anew below those
    /// of before (in memory and in a file), so a cursor of before is good for nothing.
    ///
    /// # Errors
    /// *Cannot tell*: some of it may be gone. [`StoreError::CannotClear`]: nothing is.
    fn clear(&self, prefix: &str, after: Option<&[u8]>) -> StoreFuture<Cleared> {
        let _ = (prefix, after);
        definitions::at_once(Err(StoreError::CannotClear))
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

/// What one call of [`Store::clear`] has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cleared {
    /// How many items it removed: rows, leases, definitions, events and what belongs to them, as
    /// the store counts them.
    pub removed: u64,
    /// Where the next call goes on; `None`: all is gone.
    pub next: Option<Vec<u8>>,
}

/// How much one table may hold, and by what clock it is asked; `None`: as its store says.
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
    /// The clock of those who ask never steps back. So a command that is older than one
    /// before it was held up on its way (its thread had to wait for a processor), and a
    /// store that goes by its callers' clock decides it as of the latest. Else the clock
    /// was set back, and limits go on from there.
    pub steady_clock: bool,
}

/// The state of one limit set, for all its keys. Commands on one root are executed one
/// after the other, each wholly or not at all.
///
/// An implementation promises:
///
/// 1. It never blocks for longer than a lock in memory is held: what waits for a disk or
///    a network is answered later.
/// 2. A command is under way when [`execute`](Self::execute) returns, whether its
///    [`StoreFuture`] is polled or not, and goes on if that is dropped.
/// 3. It keeps nothing borrowed: what it needs later it owns.
/// 4. If a [`StoreFuture`] is dropped before its answer was taken, a lease that the command is
///    granted is cancelled, and its place in the queue is given back. What was charged
///    without a lease stays charged.
/// 5. A [`StoreFuture`] may be polled by any executor or none, and ends within the store's
///    deadline and the command's patience.
/// 6. A take with patience is served in order of arrival within its root, from whatever
///    process, and no other take of that root overtakes it: one without patience that
///    meets the queue is refused.
///
/// An error says *cannot tell*. Nothing was changed, unless it is [`StoreError::Unavailable`]: then
/// the command may have been executed; but not where a store with a clock of its own answers so at
/// once, which is how it says that it sent nothing.
pub trait Table: Send + Sync + 'static {
    /// Executes one command: its answer is ready in `out`, or comes later.
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution;

    /// Where the state of a single bucket can be shared with its callers, if anywhere.
    fn atomic_buckets(&self) -> Option<&dyn AtomicBuckets> {
        None
    }
}

impl dyn Table {
    /// Executes one command; the calling thread waits for an answer that comes later.
    ///
    /// # Errors
    /// Those of the answer.
    pub fn execute_and_wait(&self, command: &Command<'_>) -> Answer {
        let mut answer = Ok(Reply::Done);
        match self.execute(command, Out::new(&mut answer)).pending() {
            None => answer,
            Some(later) => later.wait(),
        }
    }
}

/// Shares the states of keys as [`AtomicBucket`]s: their holders decide without the table.
pub trait AtomicBuckets {
    /// Pins the state of a key of a plan of one bucket; `None` if it is none, or the
    /// key is not to be shared now.
    fn pin(&self, plan: &Arc<Plan>, key: &[u8], now: Timestamp) -> Option<Arc<AtomicBucket>>;

    /// Gives a pin back.
    fn unpin(&self, key: &[u8], bucket: Arc<AtomicBucket>);
}
