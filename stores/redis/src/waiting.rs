//! A request that waits for its turn.
//!
//! It tries once. Refused, it takes a place in the root's line on the server
//! (`lua/line.lua`), and asks again when it is told that its turn may have come,
//! when its limits said it might (a release, or the exact instant of a refusal
//! that no one ahead keeps it from), and in any case so often that the server
//! takes it for alive. Nobody asks the server whether it is his turn yet.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::waiting::{Line, Try, Waiting, next_try};
use tidegate_net::{Subscription, within};
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::{KeyCommand, Plan, StoreError};
use tokio::time::timeout;

use crate::error::garbled;
use crate::inner::Inner;
use crate::request::Request;
use crate::wakes;
use crate::wire::command::{self, Turn};
use crate::wire::reply::Answer;

/// For how long one who waits is taken for alive without a heartbeat.
const ALIVE: Span = Span::from_secs(3);

/// How often its heartbeat comes.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// See the [module](self).
pub(crate) struct InLine {
    table: Arc<Inner>,
    /// With a subscription, it stands in line when it is refused.
    subscription: Option<Subscription>,
    /// The instant at which it may try by itself, by its caller's clock.
    again: Option<Timestamp>,
}

impl InLine {
    pub(crate) fn new(table: &Arc<Inner>) -> Self {
        Self {
            table: Arc::clone(table),
            subscription: None,
            again: None,
        }
    }

    /// As it is asked by who does not wait.
    async fn first_answer(&self, command: &KeyCommand<'_>) -> Result<Answer, StoreError> {
        let settled = self.table.changes.settled_on(command.plan);
        let encoded = self.table.encoded(command, settled);
        let deadline = self.table.shared.link.deadline();
        within(deadline, self.table.answer_to(encoded)).await
    }

    async fn answer(&self, mut request: Request) -> Result<Answer, StoreError> {
        let deadline = self.table.shared.link.deadline();
        within(deadline, self.table.answer(&mut request)).await
    }
}

impl Line for InLine {
    fn deadline(&self) -> Duration {
        self.table.shared.link.deadline()
    }

    async fn attempt(&mut self, waiting: &Waiting) -> Result<Try, StoreError> {
        let command = waiting.take();
        let (clock, names) = (self.table.shared.clock, &self.table.names);
        let answer = match &self.subscription {
            None => self.first_answer(&command).await,
            Some(subscription) => {
                let turn = turn(waiting, subscription);
                self.answer(Request::in_line(&command, &turn, clock, names))
                    .await
            }
        };
        let (reply, is_kept) = match answer? {
            Answer::Reply(reply) => (reply, false),
            Answer::Kept(reply) => (reply, true),
            _ => return Err(garbled("no reply")),
        };
        self.again = if is_kept { None } else { next_try(&reply) };
        Ok(Try::of(reply))
    }

    /// The script knows the lease of one who stands in line.
    fn may_ask_again(&self) -> bool {
        self.subscription.is_some()
    }

    async fn pause(&mut self, waiting: &Waiting) -> Result<(), StoreError> {
        let Some(subscription) = &self.subscription else {
            let (notifier, link) = (&self.table.shared.notifier, &self.table.shared.link);
            let turn = waiting.patience().turn;
            let (connection, deadline) = (Arc::clone(link.connection()), link.deadline());
            let listen =
                move |notifier, channel| wakes::listen(connection, deadline, notifier, channel);
            self.subscription = Some(notifier.subscribe(turn, deadline, listen).await?);
            return Ok(());
        };
        let again = self.again.map(|at| at.since(waiting.now()).as_duration());
        let pause = again.map_or(HEARTBEAT, |again| again.min(HEARTBEAT));
        // Whether it was told or not, it asks.
        let _ = timeout(pause, subscription.wakeup()).await;
        Ok(())
    }

    async fn leave(&mut self, waiting: &Waiting) {
        let Some(subscription) = &self.subscription else {
            return;
        };
        let take = waiting.take();
        let (path, now, clock) = (&take.key, take.now, self.table.shared.clock);
        let leave = command::leave(path, now, clock, &turn(waiting, subscription));
        let plan = self.newest_plan();
        let plan = plan.as_ref().unwrap_or(take.plan);
        let request = Request::new(plan, path, now, leave, &self.table.names);
        let _ = self.answer(request).await;
    }

    async fn cancel(&mut self, cancel: &KeyCommand<'_>) -> Result<(), StoreError> {
        let request = Request::of(cancel, self.table.shared.clock, &self.table.names);
        self.answer(request).await.map(drop)
    }

    fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.table.changes.newest_plan()
    }
}

fn turn(waiting: &Waiting, subscription: &Subscription) -> Turn {
    let patience = waiting.patience();
    Turn {
        id: patience.turn,
        channel: Arc::clone(subscription.channel()),
        ahead: patience.ahead,
        alive: ALIVE,
    }
}
