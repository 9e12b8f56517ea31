//! The traits a store implements.

use std::sync::Arc;

use tidegate_core::{Amount, Timestamp, Verdict};

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

    /// The table of the set called `name`, made if it is not there.
    ///
    /// # Errors
    /// What the store cannot do with this plan, or cannot reach.
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

    /// As [`admit`](Self::admit), for a plan of one limit on one level and a
    /// key whose length was checked.
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

    /// The limits have changed to `plan`: state that was handed out (pinned)
    /// must not be decided by an older one any more.
    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp) {
        let _ = (plan, now);
    }

    /// Gives a pin back.
    fn unpin(&self, key: &[u8], cell: Arc<HotCell>) {
        let _ = (key, cell);
    }

    /// How many keys are held.
    fn len(&self) -> usize;

    /// Whether no key is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
