//! Requests that wait for their turn at the limits, in the order of a [`Schedule`].
//!
//! Whoever has its turn asks the limits itself, and waits there as anybody does; when it has its
//! answer, or goes away, the next one is woken. So there is no task and no thread: one step for
//! each answer of the limits. Whoever waits there looks now and then whether it waits for limits
//! of its own, which may have been used up since it came, and then lets the others by.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Amount, Span, Timestamp};
use tidegate_store::sync::Mutex;

use super::bounds::Bounds;
use super::priorities::Priorities;
use super::request::FairRequest;
use super::schedule::{Head, Popped, Schedule, Started, WaiterId};
use crate::clock::{Clock, Sleep};
use crate::error::FairError;
use crate::pending::Pending;

/// A queue before a limit set, a pool or anything else that admits: fair between flows
/// (tenants) by what they use, not by how much they ask. Cloning shares it.
///
/// Its requests share something: give it those of one root alone, that is, whose keys begin
/// with the same level.
///
/// ```
/// use std::time::Duration;
/// use tidegate::fair::{FairRequest, FairQueue};
/// use tidegate::{Admission, Limit, LimitSet};
///
/// let set = LimitSet::new([Limit::rate("tpm", 600_000, Duration::from_secs(60))])?;
/// let queue = FairQueue::new();
/// let queued = FairRequest::of("acme").cost(4_000).within(Duration::from_secs(20));
/// match queue.acquire(&set, queued, "openai", &[("tpm", 4_000)]).wait()? {
///     Admission::Granted((mut lease, served)) => {
///         // ... do the work, then tell both what it really used:
///         lease.settle(&[("tpm", 3_120)]).wait()?;
///         served.settle(3_120);
///     }
///     Admission::Refused(decision) => println!("not until {:?}", decision.not_until()),
/// }
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Clone)]
pub struct FairQueue(Arc<Shared>);

/// Makes a fair queue: [`FairQueue::builder`].
#[derive(Clone, Debug)]
#[must_use = "it makes nothing until it is built"]
pub struct FairQueueBuilder {
    bounds: Bounds,
    priorities: Priorities,
    heads: usize,
    clock: Clock,
}

struct Shared {
    schedule: Mutex<Schedule<Arc<Seat>>>,
    /// How many may stand at the limits at once.
    heads: usize,
    clock: Clock,
}

/// One that waits. Locked after the schedule, or alone.
struct Seat(Mutex<Place>);

enum Place {
    Waits(Option<Waker>),
    /// It is its turn.
    Called(Head),
    Late,
    Stopped,
    /// It has been told, or is gone.
    Left,
}

/// Whoever stands at the limits looks so often whether it waits for something of its own by now.
const LOOKS: Duration = Duration::from_millis(100);

type Wakers = SmallVec<[Waker; 2]>;

impl FairQueueBuilder {
    /// How many flows and requests there may be.
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// How priorities share.
    pub fn priorities(mut self, priorities: Priorities) -> Self {
        self.priorities = priorities;
        self
    }

    /// How many requests stand at the limits at once: 1 if not said (and 0 is 1), which is the
    /// fairest. Before a store beyond a network, where each of them takes a round trip, more
    /// start sooner, and a request may be passed over by so many more.
    pub fn heads(mut self, most: usize) -> Self {
        self.heads = most.max(1);
        self
    }

    /// What it reads the time from.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The queue.
    ///
    /// # Errors
    /// [`FairError::Weight`] of a priority.
    pub fn build(self) -> Result<FairQueue, FairError> {
        Ok(FairQueue(Arc::new(Shared {
            schedule: Mutex::new(Schedule::new(self.bounds, self.priorities)?),
            heads: self.heads,
            clock: self.clock,
        })))
    }
}

impl Default for FairQueue {
    fn default() -> Self {
        let usual = Self::builder().build();
        usual.expect("the usual weights are weights")
    }
}

impl FairQueue {
    /// An empty queue on the usual terms.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What makes one on other terms.
    pub fn builder() -> FairQueueBuilder {
        FairQueueBuilder {
            bounds: Bounds::default(),
            priorities: Priorities::default(),
            heads: 1,
            clock: Clock::default(),
        }
    }

    /// Waits until it is the request's turn at the limits, whatever those are. Given up before
    /// its end, it leaves the queue, and nobody loses a turn.
    ///
    /// ```
    /// # use tidegate::fair::{FairRequest, FairQueue};
    /// # let queue = FairQueue::new();
    /// let turn = queue.dispatch(FairRequest::of("acme").cost(4_000)).wait()?;
    /// // ... ask whatever admits, for as long as `turn.left()`. If it says yes:
    /// let served = turn.started();
    /// // ... and when the work has ended:
    /// served.settle(3_120);
    /// # Ok::<(), tidegate::fair::FairError>(())
    /// ```
    ///
    /// # Errors
    /// [`FairError`]: what is wrong with the request, which bound is reached, that its turn did
    /// not come in time, or that all were sent away.
    pub fn dispatch<'e>(
        &self,
        queued: FairRequest<'e>,
    ) -> Pending<impl Future<Output = Result<Dispatch, FairError>> + Send + use<'e>> {
        let shared = Arc::clone(&self.0);
        Pending::new(async move { Joined::new(shared, &queued)?.await })
    }

    /// Stands in the queue from now on.
    ///
    /// # Errors
    /// As [`dispatch`](Self::dispatch), at once.
    pub(super) fn join(&self, entry: &FairRequest<'_>) -> Result<Joined, FairError> {
        Joined::new(Arc::clone(&self.0), entry)
    }

    /// Answers everyone who waits with [`FairError::Stopped`]: a server closes.
    pub fn stop_waiting(&self) {
        let mut schedule = self.0.schedule.lock();
        let left = schedule.drain();
        let wakers: Vec<Waker> = left
            .iter()
            .filter_map(|seat| seat.put(Place::Stopped))
            .collect();
        drop(schedule);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many requests wait for their turn.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.schedule.lock().waiting()
    }

    /// How many flows it knows: those with requests that wait or run, and those that have had
    /// more than their share.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.0.schedule.lock().flows()
    }
}

impl fmt::Debug for FairQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairQueue")
            .field("waiting", &self.waiting())
            .field("flows", &self.flows())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Changes the schedule, and calls whoever is next by then.
    fn change<T>(&self, change: impl FnOnce(&mut Schedule<Arc<Seat>>) -> T) -> T {
        self.change_at(self.clock.now(), change)
    }

    fn change_at<T>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut Schedule<Arc<Seat>>) -> T,
    ) -> T {
        let mut wakers = Wakers::new();
        let mut schedule = self.schedule.lock();
        let changed = change(&mut schedule);
        self.call(now, &mut schedule, &mut wakers);
        drop(schedule);
        wakers.into_iter().for_each(Waker::wake);
        changed
    }

    fn call(&self, now: Timestamp, schedule: &mut Schedule<Arc<Seat>>, wakers: &mut Wakers) {
        while schedule.heads() < self.heads && schedule.waiting() > 0 {
            match schedule.pop(now) {
                Some(Popped::Head(head, seat)) => wakers.extend(seat.put(Place::Called(head))),
                Some(Popped::Late(seat)) => wakers.extend(seat.put(Place::Late)),
                // Those that wait do so behind others of their flows that stand aside.
                None => return,
            }
        }
    }
}

impl Seat {
    /// Where it is by now, and who is to be told.
    fn put(&self, place: Place) -> Option<Waker> {
        match std::mem::replace(&mut *self.0.lock(), place) {
            Place::Waits(waker) => waker,
            _ => None,
        }
    }
}

/// One that has joined the queue. Dropped, it leaves.
pub(super) struct Joined {
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    ticket: WaiterId,
    within: Duration,
    deadline: Timestamp,
    /// Set once it has to wait.
    ends: Option<Sleep>,
}

impl Joined {
    fn new(shared: Arc<Shared>, entry: &FairRequest<'_>) -> Result<Self, FairError> {
        let seat = Arc::new(Seat(Mutex::new(Place::Waits(None))));
        let now = shared.clock.now();
        let deadline = match entry.within {
            Duration::MAX => Timestamp::MAX,
            within => now + Span::from(within),
        };
        let item = Arc::clone(&seat);
        // As of one instant: one that does not wait is not late for the turn that it comes to.
        let ticket = shared.change_at(now, |schedule| schedule.push(entry, deadline, item))?;
        Ok(Self {
            shared,
            seat,
            ticket,
            within: entry.within,
            deadline,
            ends: None,
        })
    }

    /// Whether it has its turn, or none ever, without waiting.
    pub(super) fn is_called(&self) -> bool {
        !matches!(&*self.seat.0.lock(), Place::Waits(_))
    }

    fn told(&mut self, place: Place) -> Result<Dispatch, FairError> {
        match place {
            Place::Called(head) => Ok(Dispatch {
                shared: Arc::clone(&self.shared),
                head: Some(head),
                deadline: self.deadline,
            }),
            Place::Stopped => Err(FairError::Stopped),
            _ => Err(FairError::WaitedTooLong(self.within)),
        }
    }

    /// Whether its time is over.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let (clock, deadline) = (&self.shared.clock, self.deadline);
        if deadline == Timestamp::MAX {
            return false;
        }
        let ends = self
            .ends
            .get_or_insert_with(|| Sleep::until(clock.clone(), deadline));
        Pin::new(ends).poll(context).is_ready()
    }

    /// What has become of it, unless it waits still.
    fn take(&self) -> Option<Place> {
        let mut place = self.seat.0.lock();
        match &*place {
            Place::Waits(_) => None,
            _ => Some(std::mem::replace(&mut *place, Place::Left)),
        }
    }
}

impl Future for Joined {
    type Output = Result<Dispatch, FairError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Place::Waits(waker) = &mut *self.seat.0.lock() {
            *waker = Some(context.waker().clone());
        }
        if let Some(place) = self.take() {
            return Poll::Ready(self.told(place));
        }
        if !self.is_late(context) {
            return Poll::Pending;
        }
        // It may be called at this very moment: then it has its turn.
        let (shared, ticket) = (Arc::clone(&self.shared), self.ticket);
        shared.change(|schedule| schedule.cancel(ticket));
        let place = self.take().unwrap_or(Place::Late);
        self.seat.put(Place::Left);
        Poll::Ready(self.told(place))
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if matches!(&*self.seat.0.lock(), Place::Left) {
            return;
        }
        let (seat, ticket) = (&self.seat, self.ticket);
        self.shared.change(|schedule| {
            schedule.cancel(ticket);
            let place = std::mem::replace(&mut *seat.0.lock(), Place::Left);
            if let Place::Called(head) = place {
                schedule.give_back(head);
            }
        });
    }
}

/// The turn of a request at the limits: nobody else of its queue stands there meanwhile (but for
/// [`heads`](FairQueueBuilder::heads)). Dropped, it is the next one's turn, and its flow is
/// charged nothing.
#[must_use = "it is the next one's turn when this is dropped"]
pub struct Dispatch {
    shared: Arc<Shared>,
    head: Option<Head>,
    deadline: Timestamp,
}

impl Dispatch {
    /// The limits have admitted it: it is the next one's turn.
    pub fn started(mut self) -> FairCharge {
        let head = self.head.take();
        let started = head.map(|head| self.shared.change(|schedule| schedule.admit(head)));
        FairCharge {
            shared: Arc::clone(&self.shared),
            started,
        }
    }

    /// What it waits for at the limits is its flow's alone: it is the next one's turn, and no
    /// other request of this flow has one before this has ended.
    pub fn step_aside(&mut self) {
        if let Some(head) = &mut self.head {
            self.shared.change(|schedule| schedule.step_aside(head));
        }
    }

    /// Waits for what the limits answer, and looks every 100 ms whether it waits for its flow's
    /// alone: then it [steps aside](Self::step_aside). `waits_for_own` says so of limits that
    /// anybody else may have used up meanwhile.
    pub async fn wait_for<T, L: Future<Output = bool>>(
        &mut self,
        answer: impl Future<Output = T>,
        waits_for_own: impl Fn() -> L,
    ) -> T {
        let mut answer = pin!(answer);
        while self.head.as_ref().is_some_and(|head| !head.is_aside()) {
            let clock = self.shared.clock.clone();
            let mut looked = pin!(async {
                let at = clock.now() + Span::from(LOOKS);
                Sleep::until(clock, at).await;
                waits_for_own().await
            });
            let first = poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Ok(answer)),
                Poll::Pending => looked.as_mut().poll(context).map(Err),
            });
            match first.await {
                Ok(answer) => return answer,
                Err(true) => self.step_aside(),
                Err(false) => {}
            }
        }
        answer.await
    }

    /// How long it may wait yet; [`Duration::MAX`]: for ever.
    #[must_use]
    pub fn left(&self) -> Duration {
        match self.deadline {
            Timestamp::MAX => Duration::MAX,
            deadline => deadline.since(self.shared.clock.now()).as_duration(),
        }
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        if let Some(head) = self.head.take() {
            self.shared.change(|schedule| schedule.give_back(head));
        }
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch")
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}

/// A request that has started, until its true cost is known. Dropped, it has cost what it was
/// thought to.
#[must_use = "its flow is charged the estimate when this is dropped"]
pub struct FairCharge {
    shared: Arc<Shared>,
    started: Option<Started>,
}

impl FairCharge {
    /// It has really cost `used`; 0 if it did not run after all.
    pub fn settle(mut self, used: Amount) {
        if let Some(started) = self.started.take() {
            self.shared
                .change(|schedule| schedule.settle(started, used));
        }
    }

    /// What its flow was charged.
    #[must_use]
    pub fn cost(&self) -> Amount {
        self.started.as_ref().map_or(0, Started::cost)
    }
}

impl Drop for FairCharge {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            let cost = started.cost();
            self.shared
                .change(|schedule| schedule.settle(started, cost));
        }
    }
}

impl fmt::Debug for FairCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairCharge")
            .field("cost", &self.cost())
            .finish_non_exhaustive()
    }
}
