//! A take that waits for its turn.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::waiting::{Line, Try, Waiting, next_try};
use tidegate_store::core::Timestamp;
use tidegate_store::{KeyCommand, Plan, StoreError};
use tokio::time::sleep;

use crate::debts::Unpaid;
use crate::decide::Inner;
use crate::queue::Turn;
use crate::waiters::Registration;

/// See the [module](self).
pub(crate) struct QueuedTake {
    table: Arc<Inner>,
    root: Box<[u8]>,
    turn: Turn,
    registration: Registration,
    /// The instant at which its limits may admit it, by its caller's clock, if nobody keeps
    /// it back.
    again: Option<Timestamp>,
}

impl QueuedTake {
    pub(crate) fn new(table: &Arc<Inner>, waiting: &Waiting, registration: Registration) -> Self {
        let patience = waiting.patience();
        Self {
            table: Arc::clone(table),
            root: waiting.take().key.root().into(),
            turn: Turn {
                id: patience.turn,
                ahead: patience.ahead,
                wakeup_slot: registration.wakeup_slot(),
                number: registration.number,
            },
            registration,
            again: None,
        }
    }

    pub(crate) const fn turn(&self) -> &Turn {
        &self.turn
    }
}

impl Line for QueuedTake {
    fn deadline(&self) -> Duration {
        self.table.shared.steps.deadline
    }

    async fn attempt(&mut self, waiting: &Waiting) -> Result<Try, StoreError> {
        let told = self.table.decide(&waiting.take(), Some(&self.turn))?;
        self.again = next_try(&told.reply).filter(|_| !told.is_kept);
        let tried = Try::of(told.reply);
        if matches!(tried, Try::Refused(_)) {
            self.registration.watch(&told.others);
        }
        Ok(tried)
    }

    /// Nothing is lost on the way.
    fn may_ask_again(&self) -> bool {
        false
    }

    /// Until it is woken, or its own instant comes. Nobody polls.
    async fn pause(&mut self, waiting: &Waiting) -> Result<(), StoreError> {
        let again = self.again.map(|at| at.since(waiting.now()).as_duration());
        match again {
            None => self.registration.woken().await,
            Some(again) => tokio::select! {
                () = self.registration.woken() => {}
                () = sleep(again) => {}
            },
        }
        Ok(())
    }

    async fn leave(&mut self, waiting: &Waiting) {
        let levels = waiting.plan().levels();
        let given_up = self.table.give_up(&self.root, levels, self.turn.id);
        if let Err(StoreError::Busy(_)) = given_up {
            let place = Unpaid::place(&self.table, &self.root, levels, self.turn.id);
            self.table.shared.owed.add(Arc::new(place));
        }
    }

    async fn cancel(&mut self, cancel: &KeyCommand<'_>) -> Result<(), StoreError> {
        match (self.table.execute(cancel), Unpaid::of(&self.table, cancel)) {
            (Err(StoreError::Busy(_)), Some(lease)) => {
                self.table.shared.owed.add(Arc::new(lease));
                Ok(())
            }
            (ended, _) => ended.map(drop),
        }
    }

    fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.table.revisions.newest_plan()
    }
}
