//! A request that waits for its turn.
//!
//! It tries. Refused, it has a place in the root's line (`sql/line.sql`),
//! and asks again when it is notified that its turn may have come, when its limits
//! said it might (the exact instant of a refusal, if nobody ahead keeps it from it;
//! or as it was notified since), and in any case at every [`BEAT`].

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::waiting::{Line, Try, Waiting, next_try};
use tidegate_net::{Notifier, Subscription, Wakeup, within};
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::{KeyCommand, Plan, Reply, StoreError};
use tokio::time::timeout;

use crate::connection::Link;
use crate::inner::Inner;
use crate::inner::Turn;
use crate::request::Request;
use crate::shared::Shared;
use crate::wakes;

/// How often one who waits asks in any case.
const BEAT: Duration = Duration::from_secs(2);

/// For how long it is taken for alive without a heartbeat.
const ALIVE: Span = Span::from_secs(6);

/// See the [module](self).
pub(crate) struct InLine {
    table: Arc<Inner>,
    link: Arc<Link>,
    notifier: Arc<Notifier>,
    shared: Arc<Shared>,
    deadline: Duration,
    /// With a subscription, it stands in line when it is refused.
    subscription: Option<Subscription>,
    /// The instant at which it may try by itself, by its caller's clock.
    again: Option<Timestamp>,
}

impl InLine {
    /// If the store listens already, its first try is in line.
    pub(crate) fn new(table: &Arc<Inner>, waiting: &Waiting) -> Self {
        let shared = &table.shared;
        let patience = waiting.patience();
        let is_patient = patience.longest != Some(Duration::ZERO);
        let subscription = is_patient.then(|| shared.notifier.at_once(patience.turn));
        Self {
            table: Arc::clone(table),
            link: Arc::clone(&shared.link),
            notifier: Arc::clone(&shared.notifier),
            deadline: shared.driver.deadline(),
            shared: Arc::clone(shared),
            subscription: subscription.flatten(),
            again: None,
        }
    }

    async fn try_once(
        &self,
        request: Request,
        turn: Option<&Turn>,
    ) -> Result<(Reply, bool), StoreError> {
        // Nobody is held up for longer by those who stand with it.
        let room = turn.map(|_| timeout(self.deadline, self.shared.turns.acquire()));
        let _room = match room {
            Some(room) => room.await.ok(),
            None => None,
        };
        let answer = async {
            match turn {
                None => Ok((self.table.execute(&request).await?, false)),
                Some(turn) => self.table.execute_in_turn(&request, turn).await,
            }
        };
        within(self.deadline, answer).await
    }
}

impl Line for InLine {
    fn deadline(&self) -> Duration {
        self.deadline
    }

    async fn attempt(&mut self, waiting: &Waiting) -> Result<Try, StoreError> {
        let request = Request::new(&waiting.take());
        let patience = waiting.patience();
        let turn = self.subscription.as_ref().map(|subscription| Turn {
            id: patience.turn,
            channel: Arc::clone(subscription.channel()),
            ahead: patience.ahead,
            alive: ALIVE,
        });
        let (reply, is_kept) = self.try_once(request, turn.as_ref()).await?;
        self.again = if is_kept { None } else { next_try(&reply) };
        Ok(Try::of(reply))
    }

    /// The server knows the lease of one who stands in line.
    fn may_ask_again(&self) -> bool {
        self.subscription.is_some()
    }

    async fn pause(&mut self, waiting: &Waiting) -> Result<(), StoreError> {
        let Some(subscription) = &self.subscription else {
            let turn = waiting.patience().turn;
            let (link, deadline) = (Arc::clone(&self.link), self.deadline);
            let listen = move |notifier, channel| wakes::listen(link, deadline, notifier, channel);
            self.subscription = Some(self.notifier.subscribe(turn, deadline, listen).await?);
            return Ok(());
        };
        let mut again = self.again.map(|at| at.since(waiting.now()).as_duration());
        let told = async {
            while let Ok(Wakeup::Later(by)) =
                timeout(again.unwrap_or(BEAT), subscription.wakeup()).await
            {
                again = Some(by);
            }
        };
        // Whether it was told or not, it asks.
        let _ = timeout(BEAT, told).await;
        Ok(())
    }

    async fn leave(&mut self, waiting: &Waiting) {
        if self.subscription.is_none() {
            return;
        }
        let command = waiting.take();
        let (root, turn) = (command.key.root(), waiting.patience().turn);
        let left = self.table.calls.give_place_up(root, turn, command.now);
        let _ = timeout(self.deadline, left).await;
    }

    async fn cancel(&mut self, cancel: &KeyCommand<'_>) -> Result<(), StoreError> {
        let request = Request::new(cancel);
        let ended = self.table.execute(&request);
        within(self.deadline, ended).await.map(drop)
    }

    fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.table.changes.newest_plan()
    }
}
