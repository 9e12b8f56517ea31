//! A request that waits for its turn: one call, which the server holds in its own queue.
//!
//! Requests of all processes stand there in order of arrival, and nobody asks whether it is
//! their turn yet. Who gives up drops the call, and with it the place, or the lease that it
//! was granted. One that waits at several tables (a pool's members) asks each first without
//! waiting, alone; then it waits at each of them, a moment apart: where two grant it, the
//! second is given back at once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_net::waiting::{Line, Try, Waiting};
use tidegate_net::within;
use tidegate_store::core::{Timestamp, Verdict};
use tidegate_store::{
    Answer, Command, Decision, KeyCommand, Plan, Reply, StoreError, TimerHandler,
};

use crate::inner::Inner;
use crate::wire::Turn;

/// So long after a lease was not there yet that is given back it is asked for again: a packet
/// that was lost has come by then.
const AGAIN_AFTER: Duration = Duration::from_millis(300);

/// See the [module](self).
pub(crate) struct Held {
    table: Arc<Inner>,
    /// Whether it has asked without waiting.
    has_asked: bool,
}

impl Held {
    pub(crate) fn new(table: &Arc<Inner>) -> Self {
        Self {
            table: Arc::clone(table),
            has_asked: false,
        }
    }

    async fn ask(&self, command: &KeyCommand<'_>, turn: Option<Turn>) -> Answer {
        let items = [(command.key, command.verb)];
        let command = Command::from(*command);
        let prepared = self.table.prepared(&command, &items, (false, turn));
        self.table.answer(prepared).await
    }
}

impl Line for Held {
    fn deadline(&self) -> Duration {
        self.table.link.deadline()
    }

    fn is_held(&self, waiting: &Waiting) -> bool {
        let is_alone = waiting.patience().race.is_none();
        !waiting.left().is_zero() && (is_alone || self.has_asked)
    }

    async fn attempt(&mut self, waiting: &Waiting) -> Result<Try, StoreError> {
        let (take, deadline) = (waiting.take(), self.deadline());
        if !self.is_held(waiting) {
            self.has_asked = true;
            let asked = within(deadline, self.ask(&take, None)).await?;
            return Ok(Try::of(asked));
        }
        let budget = waiting.budget(deadline);
        let reply = within(budget, self.ask(&take, Some(turn(waiting)))).await?;
        let is_granted = reply.new_lease().is_some();
        if is_granted && let Some(until) = held_until(waiting) {
            // It was to be passed over by now: it gives that back, and asks again afterwards.
            let plan = self.newest_plan();
            let plan = plan.as_ref().unwrap_or(waiting.plan());
            self.cancel(&waiting.cancel(plan)).await?;
            let refused = Decision::bare(Verdict::NotUntil(until), None);
            return Ok(Try::Refused(Reply::Decision(refused)));
        }
        // The server has waited for as long as it may.
        Ok(Try::Told(reply))
    }

    /// A lease that was granted and not told of is found by no other try.
    fn may_ask_again(&self) -> bool {
        false
    }

    async fn pause(&mut self, _: &Waiting) -> Result<(), StoreError> {
        Ok(())
    }

    /// The place went with the call.
    async fn leave(&mut self, _: &Waiting) {}

    async fn cancel(&mut self, cancel: &KeyCommand<'_>) -> Result<(), StoreError> {
        let asked = within(self.deadline(), self.ask(cancel, None)).await;
        if asked != Err(StoreError::UnknownLease) {
            return asked.map(drop);
        }
        // It may have overtaken the call that was dropped, which goes by another connection:
        // what the server grants before it hears of that is given back, too.
        tokio::time::sleep(AGAIN_AFTER).await;
        let asked = within(self.deadline(), self.ask(cancel, None)).await;
        asked.map(drop)
    }

    fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.table.changes.newest_plan()
    }
}

fn turn(waiting: &Waiting) -> Turn {
    let patience = waiting.patience();
    Turn {
        id: patience.turn,
        ahead: patience.ahead,
        longest: patience.longest,
        since: patience.since,
        for_refunds: patience.deadline_of_rates.is_none(),
        retried: patience.retried,
    }
}

/// Until when it is to be passed over, if it is.
fn held_until(waiting: &Waiting) -> Option<Timestamp> {
    let nobody = || Weak::<Nobody>::new() as Weak<dyn TimerHandler>;
    let patience = waiting.patience();
    let hold = patience.hold.as_ref()?;
    hold.until(waiting.now(), patience.turn as u64, &nobody)
}

/// Who need not be told when nothing holds it any more: that is looked at anew.
struct Nobody;

impl TimerHandler for Nobody {
    fn fire(self: Arc<Self>, _: Timestamp) {}
}
