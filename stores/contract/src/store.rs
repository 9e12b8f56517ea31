//! The traits a store implements.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::{Amount, Bounds, Timestamp, Verdict};

use crate::cell::HotCell;
use crate::command::{Command, Detail, Verb};
use crate::error::StoreError;
use crate::key::KeyPath;
use crate::plan::Plan;
use crate::reply::Reply;

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
    fn last_plan(&self, name: &str) -> Option<Arc<Plan>> {
        let _ = name;
        None
    }

    /// The table of the set called `name`, made if it is not there; otherwise
    /// as it was left, to be [adopted](Table::adopt).
    ///
    /// # Errors
    /// What the store cannot do with this plan, or cannot reach;
    /// [`StoreError::InUse`]; [`StoreError::OtherLevels`].
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError>;
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

    /// The table as one that answers later, if it lies beyond a network: who
    /// must not block asks it there.
    fn remote(&self) -> Option<&dyn RemoteTable> {
        None
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
}
