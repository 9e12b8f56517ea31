//! The way of an ask that waits.

use std::future::Future;
use std::time::Duration;

use tidegate_contract::core::{Timestamp, Verdict};
use tidegate_contract::{Reply, Sent, StoreError};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::ask::Waiting;
use crate::driver::{closed, too_late};
use crate::underway::Tasks;

/// The answer, and where it is said that somebody has it: one that is dropped with
/// whoever waited for it says nothing.
type Told = (Result<Reply, StoreError>, oneshot::Sender<()>);

/// Whom it tells.
type Tell = oneshot::Sender<Told>;

/// What a try came to.
#[derive(Debug)]
pub enum Try {
    /// The answer.
    Told(Reply),
    /// Refused for now.
    Refused(Reply),
}

impl Try {
    /// What a reply to a take comes to: "not until" is a refusal for now.
    #[must_use]
    pub fn of(reply: Reply) -> Self {
        match &reply {
            Reply::Decision(decision) if matches!(decision.verdict, Verdict::NotUntil(_)) => {
                Self::Refused(reply)
            }
            _ => Self::Told(reply),
        }
    }
}

/// When one who was refused may be admitted, as far as its limits say, by its
/// caller's clock.
#[must_use]
pub fn next_try(reply: &Reply) -> Option<Timestamp> {
    match reply {
        Reply::Decision(decision) => match decision.verdict {
            Verdict::NotUntil(at) => Some(decision.refund_at.map_or(at, |refund| refund.min(at))),
            _ => None,
        },
        _ => None,
    }
}

/// What a store does for one who waits. Each of these, but for
/// [`pause`](Self::pause), ends within the store's deadline, or within twice that
/// where a turn to ask has to be waited for first.
pub trait Line: Send + 'static {
    /// How long a command may take.
    fn deadline(&self) -> Duration;

    /// Asks once. Who is refused, and waits on, has a place afterwards, or gets one
    /// by the next try.
    fn ask(&mut self, waiting: &Waiting) -> impl Future<Output = Result<Try, StoreError>> + Send;

    /// Whether a try whose answer was lost may be made again: what it has done, the
    /// next one finds.
    fn may_ask_again(&self) -> bool;

    /// Until another try makes sense. It may be dropped.
    fn pause(&mut self, waiting: &Waiting) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Gives the place back, if there is one. What fails, the server forgets by itself.
    fn leave(&mut self, waiting: &Waiting) -> impl Future<Output = ()> + Send;

    /// Gives the lease back, if there is one.
    fn cancel(&mut self, waiting: &Waiting) -> impl Future<Output = ()> + Send;
}

/// So many tries in a row whose answers were lost; then the store cannot tell.
const MOST_LOST: u32 = 2;

/// The pause after one, and by how much more it differs from one who waits to another:
/// a server that is back is not asked by all of them at once.
const AFTER_A_LOSS: Duration = Duration::from_millis(50);
const SPREAD_MS: u128 = 100;

/// Waits by `line`, on the runtime of the store.
pub fn stay(tasks: Option<Tasks>, waiting: Waiting, line: impl Line) -> Sent {
    let (tell, told) = oneshot::channel();
    if let Some(tasks) = tasks {
        tasks.spawn(run(waiting, line, tell));
    }
    Box::pin(async move {
        let Ok((answer, taken)) = told.await else {
            return Err(closed());
        };
        // Whoever tells it may have gone with the store.
        let _ = taken.send(());
        answer
    })
}

/// Waits, and tells the answer; then gives back what nobody was there to be told, and
/// what was taken by a try that failed, if it was: whoever asked does not wait for that.
/// What may be asked for again by an idempotency key stays until it expires.
async fn run(waiting: Waiting, mut line: impl Line, mut tell: Tell) {
    let Some(answer) = until_told(&waiting, &mut line, &mut tell).await else {
        return;
    };
    let granted = answer.as_ref().is_ok_and(is_new_lease);
    let failed = answer
        .as_ref()
        .is_err_and(|error| *error != StoreError::StalePlan);
    let (take, taken) = oneshot::channel();
    let is_lost = tell.send((answer, take)).is_err() || taken.await.is_err();
    // Who asks again by an idempotency key may have it by now, or will look for it.
    let is_surplus = match failed {
        true => !waiting.is_idempotent(),
        false => is_lost && granted && !waiting.patience().retried,
    };
    if is_surplus {
        line.cancel(&waiting).await;
    }
    if failed {
        line.leave(&waiting).await;
    }
}

/// `None` if nobody is there any more. It comes within the patience of who asked, and
/// a deadline.
async fn until_told(
    waiting: &Waiting,
    line: &mut impl Line,
    tell: &mut Tell,
) -> Option<Result<Reply, StoreError>> {
    let mut lost = 0;
    loop {
        let budget = waiting.budget(line.deadline());
        let asked = timeout(budget, line.ask(waiting)).await;
        let paused = match asked.unwrap_or_else(|_| Err(too_late(line.deadline()))) {
            Ok(Try::Told(reply)) => return Some(Ok(reply)),
            Ok(Try::Refused(reply)) => {
                lost = 0;
                if waiting.left().is_zero() {
                    line.leave(waiting).await;
                    return Some(Ok(reply));
                }
                pause(waiting, line, tell).await
            }
            // It keeps its place, for who asks again.
            Err(StoreError::StalePlan) => return Some(Err(StoreError::StalePlan)),
            // Nothing was done, and it has time.
            Err(StoreError::Busy(_)) if waiting.left() > after_a_loss(waiting) => {
                tokio::time::sleep(after_a_loss(waiting)).await;
                match tell.is_closed() {
                    true => Ok(Paused::NobodyThere),
                    false => Ok(Paused::Over),
                }
            }
            Err(StoreError::Unavailable(words)) if line.may_ask_again() && lost < MOST_LOST => {
                lost += 1;
                let pause = after_a_loss(waiting);
                if waiting.budget(line.deadline()) <= pause {
                    return Some(Err(StoreError::Unavailable(words)));
                }
                tokio::time::sleep(pause).await;
                Ok(Paused::Over)
            }
            Err(error) => Err(error),
        };
        match paused {
            Ok(Paused::Over) => {}
            Ok(Paused::NobodyThere) => {
                line.leave(waiting).await;
                return None;
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

fn after_a_loss(waiting: &Waiting) -> Duration {
    let spread = waiting.patience().turn % SPREAD_MS;
    AFTER_A_LOSS + Duration::from_millis(spread as u64)
}

enum Paused {
    Over,
    NobodyThere,
}

async fn pause(
    waiting: &Waiting,
    line: &mut impl Line,
    tell: &mut Tell,
) -> Result<Paused, StoreError> {
    tokio::select! {
        () = tell.closed() => Ok(Paused::NobodyThere),
        paused = line.pause(waiting) => paused.map(|()| Paused::Over),
        () = tokio::time::sleep(waiting.left()) => Ok(Paused::Over),
    }
}

fn is_new_lease(reply: &Reply) -> bool {
    match reply {
        Reply::Decision(decision) => decision.lease.is_some_and(|lease| !lease.repeated),
        _ => false,
    }
}
