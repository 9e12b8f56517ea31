//! A place in a queue that a store keeps, where nobody is woken: who waits asks, after pauses
//! that are stated.
//!
//! Who is first tries after the shortest pause, then after twice as long each time, up to a
//! step; once it has been first for long, after a 64th of the time that it has been, up to a
//! bound. Sooner where its limits name an instant. Others look how many are before them: who is
//! next as often as who is first, others after a step for each who stands before them, up to a
//! bound of their own.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::OwnedKeyCommand;
use tidegate_store::{KeyCommand, Plan, Reply, StoreError};
use tokio::time::{Instant, sleep, timeout};

use super::request::{self, Waiting};
use super::stay::{Line, Try, next_try};
use crate::driver::within;

/// How often who waits asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// The shortest pause, of who is first or next.
    pub shortest: Duration,
    /// Its longest at first, and that of others for each who stands before them.
    pub step: Duration,
    /// Nobody who is first pauses for longer.
    pub longest_of_first: Duration,
    /// Nor does anybody else for longer than this.
    pub longest: Duration,
}

/// Who has been first for so many times as long, may pause for one.
const PART: u32 = 64;

/// A queue that a store keeps for a table, and wakes nobody from.
pub trait Queue: Send + Sync + 'static {
    /// How often who waits asks.
    const PACE: Pace;

    /// A place in it, or the wish for one.
    type Turn: Send + Sync + 'static;

    /// How long a command may take.
    fn deadline(&self) -> Duration;

    /// The wish of one that waits so.
    fn turn(waits: &request::Turn) -> Self::Turn;

    /// Executes a command, a take at its turn if it waits; and whether others in line are first.
    ///
    /// # Errors
    /// As of a [`Table`](tidegate_store::Table).
    fn execute(
        self: Arc<Self>,
        request: OwnedKeyCommand,
        turn: Option<&mut Self::Turn>,
    ) -> impl Future<Output = Result<(Reply, bool), StoreError>> + Send;

    /// How many are before `turn` at `root`; none, too, if it has lost its place: then it asks.
    /// And says every so often that it is there. It ends within the store's deadline, or within
    /// twice that where a connection has to be waited for first.
    ///
    /// # Errors
    /// [`StoreError::Busy`], if too many look at once; [`StoreError::Unavailable`].
    fn look(
        &self,
        root: &[u8],
        turn: &mut Self::Turn,
    ) -> impl Future<Output = Result<u32, StoreError>> + Send;

    /// Gives the place back, if there is one. What fails, the store forgets by itself.
    fn give_up(&self, root: &[u8], turn: &Self::Turn) -> impl Future<Output = ()> + Send;

    /// The limits that decide now, if any do yet.
    fn newest_plan(&self) -> Option<Arc<Plan>>;
}

/// One who waits in a [`Queue`], and asks at its pace.
#[derive(Debug)]
pub struct PollingLine<Q: Queue> {
    queue: Arc<Q>,
    root: Box<[u8]>,
    /// `None`: it has no patience.
    turn: Option<Q::Turn>,
    /// Since when nobody keeps it back.
    first: Option<Instant>,
    /// The instant at which its limits may admit it, by its caller's clock.
    again: Option<Timestamp>,
    pause: Duration,
}

impl<Q: Queue> PollingLine<Q> {
    /// One who has no place yet.
    #[must_use]
    pub fn new(queue: &Arc<Q>, waiting: &Waiting) -> Self {
        let patience = waiting.patience();
        let is_patient = patience.longest != Some(Duration::ZERO);
        Self {
            queue: Arc::clone(queue),
            root: waiting.take().key.root().into(),
            turn: is_patient.then(|| Q::turn(patience)),
            first: None,
            again: None,
            pause: Q::PACE.shortest,
        }
    }

    /// Until it may try, nobody being before it.
    async fn until_next_try(&mut self, first: Instant, waiting: &Waiting) {
        let pause = self.pause.max(first.elapsed() / PART);
        let pause = pause.min(Q::PACE.longest_of_first);
        self.pause = (self.pause * 2).min(Q::PACE.step);
        let again = self.again.map(|at| at.since(waiting.now()).as_duration());
        sleep(again.map_or(pause, |again| again.min(pause))).await;
    }

    /// Until nobody is before it.
    async fn until_first(&mut self) -> Result<(), StoreError> {
        let Some(turn) = &mut self.turn else {
            return Ok(());
        };
        loop {
            let pause = match self.queue.look(&self.root, turn).await {
                Ok(0) => return Ok(()),
                Ok(1) => {
                    self.pause = (self.pause * 2).min(Q::PACE.step);
                    self.pause
                }
                Ok(others) => Q::PACE.step.saturating_mul(others).min(Q::PACE.longest),
                // Too many look at once: that is no answer, and no reason to look sooner.
                Err(StoreError::Busy(_)) => Q::PACE.longest,
                Err(error) => return Err(error),
            };
            sleep(pause).await;
        }
    }
}

impl<Q: Queue> Line for PollingLine<Q> {
    fn deadline(&self) -> Duration {
        self.queue.deadline()
    }

    async fn attempt(&mut self, waiting: &Waiting) -> Result<Try, StoreError> {
        let request = OwnedKeyCommand::of(&waiting.take());
        let deadline = self.deadline();
        let answer = Arc::clone(&self.queue).execute(request, self.turn.as_mut());
        let (reply, is_kept) = within(deadline, answer).await?;
        if is_kept {
            self.first = None;
        } else if self.first.is_none() {
            (self.first, self.pause) = (Some(Instant::now()), Q::PACE.shortest);
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
                self.pause = Q::PACE.shortest;
                self.until_first().await
            }
        }
    }

    async fn leave(&mut self, _: &Waiting) {
        if let Some(turn) = &self.turn {
            let _ = timeout(self.deadline(), self.queue.give_up(&self.root, turn)).await;
        }
    }

    async fn cancel(&mut self, cancel: &KeyCommand<'_>) -> Result<(), StoreError> {
        let ended = Arc::clone(&self.queue).execute(OwnedKeyCommand::of(cancel), None);
        within(self.deadline(), ended).await.map(drop)
    }

    fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.queue.newest_plan()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use parking_lot::Mutex;
    use tidegate_store::Decision;
    use tidegate_store::core::{Timestamp, Verdict};

    use super::super::fixture::waiting;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// What it answers looks with, and then that nobody is before one; and how it is asked.
    #[derive(Default)]
    struct Before(Mutex<VecDeque<Result<u32, StoreError>>>);

    impl Queue for Before {
        const PACE: Pace = Pace {
            shortest: MS,
            step: Duration::from_millis(8),
            longest_of_first: Duration::from_millis(50),
            longest: Duration::from_millis(30),
        };

        type Turn = ();

        fn deadline(&self) -> Duration {
            Duration::from_secs(60)
        }

        fn turn(_: &request::Turn) {}

        /// Refused until long after, with others before it as long as there are answers.
        async fn execute(
            self: Arc<Self>,
            _: OwnedKeyCommand,
            _: Option<&mut ()>,
        ) -> Result<(Reply, bool), StoreError> {
            let is_kept = !self.0.lock().is_empty();
            let verdict = Verdict::NotUntil(Timestamp::MAX);
            let refused = Decision::bare(verdict, None);
            Ok((Reply::Decision(refused), is_kept))
        }

        async fn look(&self, _: &[u8], (): &mut ()) -> Result<u32, StoreError> {
            self.0.lock().pop_front().unwrap_or(Ok(0))
        }

        async fn give_up(&self, _: &[u8], (): &()) {}

        fn newest_plan(&self) -> Option<Arc<Plan>> {
            None
        }
    }

    /// How long each of so many pauses is, in milliseconds, a try before each.
    async fn pauses(queue: &Arc<Before>, many: usize) -> Vec<u128> {
        let waiting = waiting(None);
        let mut line = PollingLine::new(queue, &waiting);
        let mut pauses = Vec::new();
        for _ in 0..many {
            let tried = line.attempt(&waiting).await;
            assert!(matches!(tried, Ok(Try::Refused(_))));
            let begun = Instant::now();
            line.pause(&waiting).await.expect("it may try again");
            pauses.push(begun.elapsed().as_millis());
        }
        pauses
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_first_asks_less_and_less_often() {
        let pauses = pauses(&Arc::default(), 400).await;
        assert_eq!(pauses[..6], [1, 2, 4, 8, 8, 8]);
        assert!(pauses.is_sorted());
        assert_eq!(pauses.last(), Some(&50));
    }

    /// One before it is as near as none; each more is a step; too many who look are as far as
    /// can be.
    #[tokio::test(start_paused = true)]
    async fn who_stands_farther_behind_looks_less_often() {
        for (before, pause) in [
            (vec![Ok(1); 4], 2 + 4 + 8 + 8),
            (vec![Ok(2)], 16),
            (vec![Ok(9), Ok(3), Ok(1)], 30 + 24 + 2),
            (
                vec![Err(StoreError::Busy("others look".into())), Ok(1)],
                30 + 2,
            ),
        ] {
            let queue = Arc::new(Before(Mutex::new(before.into())));
            assert_eq!(pauses(&queue, 1).await, [pause]);
        }
        let gone = Err(StoreError::Unavailable("it is away".into()));
        let queue = Arc::new(Before(Mutex::new(vec![gone].into())));
        let waiting = waiting(None);
        let mut line = PollingLine::new(&queue, &waiting);
        line.attempt(&waiting).await.expect("it stands in line");
        assert!(line.pause(&waiting).await.is_err());
    }
}
