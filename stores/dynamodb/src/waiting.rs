//! A request that waits for its turn.
//!
//! **Polling, stated.** DynamoDB wakes nobody, so who waits asks, and every look is billed. Who is
//! first tries after 10 milliseconds, then after twice as long each time, up to 80; from when it
//! has been first for five seconds on, after a 64th of the time that it has been, up to 640. Sooner
//! where its limits name an instant. Others look how many are before them: who is next every 10 to
//! 80 milliseconds, others every 80 for each who stands before them, and at least every 640. A look
//! is one query of the places before one's own (half a read unit for each 4 KB, twice that since
//! it is to be exact); a try reads, and writes if it is granted or takes its place.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::waiting::{Line, Try, Waiting, next_try};
use tidegate_net::{too_late, within};
use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::OwnedKeyCommand;
use tidegate_store::{KeyCommand, Plan, StoreError};
use tokio::time::{Instant, sleep, timeout};

use crate::error::Trouble;
use crate::inner::Inner;
use crate::trips::RootPlace;
use crate::turns::Turn;

/// The shortest pause, of who is first or next.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Its longest at first, and that of others for each who stands before them.
const PAUSE: Duration = Duration::from_millis(80);

/// Nobody pauses for longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(640);

/// Who has been first for so many times as long, may pause for one.
const PART: u32 = 64;

/// See the [module](self).
pub(crate) struct InLine {
    table: Arc<Inner>,
    place: RootPlace,
    /// `None`: it has no patience.
    turn: Option<Turn>,
    /// Since when nobody keeps it back.
    first: Option<Instant>,
    /// The instant at which its limits may admit it, by its caller's clock.
    again: Option<Timestamp>,
    pause: Duration,
}

impl InLine {
    pub(crate) fn new(table: &Arc<Inner>, waiting: &Waiting) -> Self {
        let patience = waiting.patience();
        let is_patient = patience.longest != Some(Duration::ZERO);
        let turn = Turn::new(patience.turn, patience.ahead);
        Self {
            place: RootPlace::new(&table.set, waiting.take().key.root()),
            table: Arc::clone(table),
            turn: is_patient.then_some(turn),
            first: None,
            again: None,
            pause: SHORTEST_PAUSE,
        }
    }

    /// Until it may try, nobody being before it.
    async fn until_next_try(&mut self, first: Instant, waiting: &Waiting) {
        let pause = self.pause.max(first.elapsed() / PART).min(LONGEST_PAUSE);
        self.pause = (self.pause * 2).min(PAUSE);
        let again = self.again.map(|at| at.since(waiting.now()).as_duration());
        sleep(again.map_or(pause, |again| again.min(pause))).await;
    }

    /// Until nobody is before it.
    async fn until_first(&mut self) -> Result<(), StoreError> {
        let deadline = self.deadline();
        let Some(turn) = &mut self.turn else {
            return Ok(());
        };
        loop {
            let look = timeout(deadline, turn.look(&self.table, &self.place)).await;
            let look = look.map_err(|_| too_late(deadline))?;
            let pause = match look.map_err(Trouble::told) {
                Ok(0) => return Ok(()),
                Ok(1) => {
                    self.pause = (self.pause * 2).min(PAUSE);
                    self.pause
                }
                Ok(others) => (PAUSE * others).min(LONGEST_PAUSE),
                // Too many look at once: that is no answer, and no reason to look sooner.
                Err(StoreError::Busy(_)) => LONGEST_PAUSE,
                Err(error) => return Err(error),
            };
            sleep(pause).await;
        }
    }
}

impl Line for InLine {
    fn deadline(&self) -> Duration {
        self.table.shared.driver.deadline()
    }

    async fn attempt(&mut self, waiting: &Waiting) -> Result<Try, StoreError> {
        let request = OwnedKeyCommand::of(&waiting.take());
        let deadline = self.deadline();
        let answer = Arc::clone(&self.table).execute(request, self.turn.as_mut());
        let (reply, is_kept) = within(deadline, answer).await?;
        if is_kept {
            self.first = None;
        } else if self.first.is_none() {
            (self.first, self.pause) = (Some(Instant::now()), SHORTEST_PAUSE);
        }
        self.again = next_try(&reply);
        Ok(Try::of(reply))
    }

    /// A write whose answer was lost may have granted the lease.
    fn may_ask_again(&self) -> bool {
        false
    }

    async fn pause(&mut self, waiting: &Waiting) -> Result<(), StoreError> {
        match self.first {
            Some(first) => {
                self.until_next_try(first, waiting).await;
                Ok(())
            }
            None => {
                self.pause = SHORTEST_PAUSE;
                self.until_first().await
            }
        }
    }

    async fn leave(&mut self, _: &Waiting) {
        if let Some(turn) = self.turn.as_ref().filter(|turn| turn.stands()) {
            let _ = timeout(self.deadline(), turn.give_up(&self.table, &self.place)).await;
        }
    }

    async fn cancel(&mut self, cancel: &KeyCommand<'_>) -> Result<(), StoreError> {
        let ended = Arc::clone(&self.table).execute(OwnedKeyCommand::of(cancel), None);
        within(self.deadline(), ended).await.map(drop)
    }

    fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.table.changes.newest_plan()
    }
}
