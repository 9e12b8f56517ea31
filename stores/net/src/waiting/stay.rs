//! The way of a request that waits.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_store::core::{Timestamp, Verdict};
use tidegate_store::race::RoundTrip;
use tidegate_store::{
    Answer, KeyCommand, Plan, Race, Reply, Responder, StoreError, StoreFuture, TimerHandler,
    response_channel,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::request::Waiting;
use crate::driver::too_late;
use crate::underway::Tasks;

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
        match is_refusal(&reply) {
            true => Self::Refused(reply),
            false => Self::Told(reply),
        }
    }
}

/// Whether it is refused for now.
pub(super) fn is_refusal(reply: &Reply) -> bool {
    match reply {
        Reply::Decision(decision) => matches!(decision.verdict, Verdict::NotUntil(_)),
        _ => false,
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
    fn attempt(
        &mut self,
        waiting: &Waiting,
    ) -> impl Future<Output = Result<Try, StoreError>> + Send;

    /// Whether the next try is one that the server holds until its turn: then it takes as long as
    /// its patience, and ends when nobody waits for it any more. Whoever is dropped so gives up
    /// its place.
    fn is_held(&self, waiting: &Waiting) -> bool {
        let _ = waiting;
        false
    }

    /// Whether a try whose answer was lost may be made again: what it has done, the
    /// next one finds.
    fn may_ask_again(&self) -> bool;

    /// Until another try makes sense. It may be dropped.
    fn pause(&mut self, waiting: &Waiting) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Gives the place back, if there is one. What fails, the server forgets by itself.
    fn leave(&mut self, waiting: &Waiting) -> impl Future<Output = ()> + Send;

    /// Executes what gives the lease back, if there is one.
    fn cancel(
        &mut self,
        cancel: &KeyCommand<'_>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The limits that decide now, if any do yet.
    fn newest_plan(&self) -> Option<Arc<Plan>>;
}

/// So many tries in a row whose answers were lost; then the store cannot tell.
const MOST_LOST: u32 = 2;

/// The pause after one, and by how much more it differs from one who waits to another:
/// a server that is back is not asked by all of them at once.
const AFTER_A_LOSS: Duration = Duration::from_millis(50);
const SPREAD_MS: u128 = 100;

/// Waits by `line`, on the runtime of the store.
pub fn stay(tasks: &Tasks, waiting: Waiting, line: impl Line) -> StoreFuture {
    let (lost, is_lost) = oneshot::channel();
    let (responder, answer) = response_channel(move |reply| {
        // Whoever waits for this knows whether it was a lease.
        let _ = lost.send(reply);
    });
    tasks.spawn(run(waiting, line, responder, is_lost));
    answer
}

/// Waits, and answers; then gives back what nobody was there to be told, and what was
/// taken by a try that failed, if it was: whoever asked does not wait for that.
/// What may be asked for again by an idempotency key stays until it expires.
async fn run(
    mut waiting: Waiting,
    mut line: impl Line,
    responder: Responder,
    lost: oneshot::Receiver<Reply>,
) {
    let Some(answer) = until_answered(&waiting, &mut line, &responder).await else {
        // Where another table was quicker, whoever waits takes its answer, and goes. To be
        // told meanwhile that there is none here would be a failure of the store.
        return responder.gone().await;
    };
    let granted = answer.as_ref().ok().and_then(Reply::new_lease).is_some();
    // Every other error is an answer: no try has taken anything.
    let is_unknown = matches!(
        answer,
        Err(StoreError::Unavailable(_) | StoreError::Busy(_))
    );
    let is_stale = matches!(answer, Err(StoreError::StalePlan));
    let leaves = answer.is_err();
    drop(responder.answer(answer));
    // It ends when somebody has taken the answer, or nobody ever will.
    let is_lost = granted && lost.await.is_ok();
    // Who asks again by an idempotency key may have it by now, or will look for it.
    let is_surplus = match is_unknown {
        true => !waiting.is_idempotent(),
        false => is_lost && !waiting.patience().retried,
    };
    if is_surplus {
        take_back(&waiting, &mut line).await;
    }
    // By newer limits it asks again, with its place; or cannot, and gives it up.
    if leaves && (!is_stale || waiting.is_left().await) {
        line.leave(&waiting).await;
    }
}

/// A lease that nobody was told of is taken back so often, if the limits change meanwhile.
const MOST_TAKEN_BACK: usize = 64;

/// Gives back the lease that a try was granted, whatever has become of the limits since.
async fn take_back(waiting: &Waiting, line: &mut impl Line) {
    for _ in 0..MOST_TAKEN_BACK {
        let plan = line.newest_plan();
        let plan = plan.as_ref().unwrap_or(waiting.plan());
        // What fails is given back at its expiry.
        if line.cancel(&waiting.cancel(plan)).await != Err(StoreError::StalePlan) {
            break;
        }
    }
}

/// What holds a request has changed.
struct Changed(Notify);

impl TimerHandler for Changed {
    fn fire(self: Arc<Self>, _: Timestamp) {
        self.0.notify_one();
    }
}

/// Ends when nothing holds the request any more, or its patience has ended; `false` if
/// nobody waits for it.
async fn released(waiting: &Waiting, responder: &Responder) -> bool {
    let Some(hold) = &waiting.patience().hold else {
        return true;
    };
    let changed = Arc::new(Changed(Notify::new()));
    let again = || Arc::<Changed>::downgrade(&changed) as Weak<dyn TimerHandler>;
    let caller = waiting.patience().turn as u64;
    while let Some(until) = hold.until(waiting.now(), caller, &again) {
        let left = until.since(waiting.now()).as_duration().min(waiting.left());
        if left.is_zero() {
            break;
        }
        tokio::select! {
            () = responder.gone() => return false,
            () = changed.0.notified() => {}
            () = tokio::time::sleep(left) => {}
        }
    }
    true
}

/// A try, alone among the tables that the same request waits at; `None` if another of
/// them has granted it, or nobody waits any more.
async fn trip(race: Option<&Arc<Race>>, responder: &Responder) -> Option<Option<RoundTrip>> {
    let Some(race) = race else {
        return Some(None);
    };
    loop {
        let trip = poll_fn(|context| race.poll_round_trip(context));
        tokio::select! {
            () = responder.gone() => return None,
            // Each hedge lets one more in beside those that take long.
            entered = timeout(race.hedge(), trip) => {
                if let Ok(trip) = entered {
                    return trip.map(Some);
                }
            }
        }
    }
}

/// `None` if nobody is there any more, or another table has granted. It comes within the
/// patience of who asked, and a deadline.
async fn until_answered(
    waiting: &Waiting,
    line: &mut impl Line,
    responder: &Responder,
) -> Option<Answer> {
    let mut lost = 0;
    loop {
        if !released(waiting, responder).await {
            line.leave(waiting).await;
            return None;
        }
        let Some(trip) = trip(waiting.patience().race.as_ref(), responder).await else {
            line.leave(waiting).await;
            return None;
        };
        if waiting.is_outdated() {
            // It keeps its place, and asks again with the windows of today.
            return Some(Err(StoreError::StalePlan));
        }
        let budget = waiting.budget(line.deadline());
        let asked = match line.is_held(waiting) {
            false => Some(timeout(budget, line.attempt(waiting)).await),
            true => tokio::select! {
                () = responder.gone() => None,
                asked = timeout(budget, line.attempt(waiting)) => Some(asked),
            },
        };
        let Some(asked) = asked else {
            // What it was granted just then is on its way here, or back.
            if !waiting.is_idempotent() && !waiting.patience().retried {
                take_back(waiting, line).await;
            }
            return None;
        };
        let paused = match asked.unwrap_or_else(|_| Err(too_late(line.deadline()))) {
            Ok(Try::Told(reply)) => {
                // One that was given it before has it, too: no other table grants it another.
                if reply.has_lease() && trip.is_some_and(|trip| !trip.won()) {
                    // Another table was quicker: nobody is told of this one.
                    if reply.new_lease().is_some() {
                        take_back(waiting, line).await;
                    }
                    return None;
                }
                return Some(Ok(reply));
            }
            Ok(Try::Refused(reply)) => {
                drop(trip);
                lost = 0;
                if waiting.left().is_zero() || waiting.is_too_late(&reply) {
                    line.leave(waiting).await;
                    return Some(Ok(reply));
                }
                pause(waiting, line, responder).await
            }
            // It keeps its place, for who asks again.
            Err(StoreError::StalePlan) => return Some(Err(StoreError::StalePlan)),
            // Nothing was done, and it has time.
            Err(StoreError::Busy(_)) if waiting.left() > after_a_loss(waiting) => {
                drop(trip);
                tokio::time::sleep(after_a_loss(waiting)).await;
                match responder.is_gone() {
                    true => Ok(Paused::NobodyThere),
                    false => Ok(Paused::Over),
                }
            }
            Err(StoreError::Unavailable(words)) if line.may_ask_again() && lost < MOST_LOST => {
                drop(trip);
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
    responder: &Responder,
) -> Result<Paused, StoreError> {
    tokio::select! {
        () = responder.gone() => Ok(Paused::NobodyThere),
        paused = line.pause(waiting) => paused.map(|()| Paused::Over),
        () = tokio::time::sleep(waiting.left()) => Ok(Paused::Over),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::fixture;
    use super::*;
    use crate::Driver;

    /// A store whose connections others have; how often it was asked.
    struct Occupied(Arc<AtomicUsize>);

    impl Line for Occupied {
        fn deadline(&self) -> Duration {
            Duration::from_secs(60)
        }

        async fn attempt(&mut self, _: &Waiting) -> Result<Try, StoreError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Err(StoreError::Busy("others have them".to_owned()))
        }

        fn may_ask_again(&self) -> bool {
            false
        }

        async fn pause(&mut self, _: &Waiting) -> Result<(), StoreError> {
            Ok(())
        }

        async fn leave(&mut self, _: &Waiting) {}

        async fn cancel(&mut self, _: &KeyCommand<'_>) -> Result<(), StoreError> {
            Ok(())
        }

        fn newest_plan(&self) -> Option<Arc<Plan>> {
            None
        }
    }

    /// It was the only one of a pool's members that was asked, also while it paused, though
    /// nothing was under way.
    #[tokio::test]
    async fn a_store_that_is_busy_keeps_no_other_of_a_pool_from_being_asked() {
        let race = Race::new(Duration::from_secs(600));
        let waiting = fixture::waiting(Some(Arc::clone(&race)));
        let driver = Driver::new("test", Duration::from_secs(60)).expect("a thread");
        let asked = Arc::<AtomicUsize>::default();
        let _answer = stay(&driver.tasks(), waiting, Occupied(Arc::clone(&asked)));
        let often = async |times| {
            while asked.load(Ordering::SeqCst) < times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        often(1).await;
        let other = poll_fn(|context| race.poll_round_trip(context));
        tokio::select! {
            biased;
            trip = other => assert!(trip.is_some()),
            () = often(9) => panic!("no other is asked"),
        }
    }
}
