//! One request in the queues of several tables at once: at most one of them asks for it
//! at a time, and at most one grants it.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::store_future::Wake;
use crate::sync::Mutex;

/// See the [module](self). A table that does not look at it is no danger: a request that waits
/// at several takes one answer and drops the others, which are then given back.
pub struct Race {
    /// For how long one table is asked alone.
    hedge: Duration,
    state: Mutex<RaceState>,
}

#[derive(Default)]
struct RaceState {
    /// How many round trips are under way for it, and since when the latest is.
    round_trips: usize,
    since: Option<Instant>,
    won: bool,
    /// Whom to tell when no round trip is under way any more. One of each caller: it looks at
    /// all it has.
    wakers: Vec<Waker>,
    callbacks: Vec<(u64, Callback)>,
}

type Callback = Box<dyn FnOnce() + Send>;

/// What became of an offer that is made at once.
#[derive(Debug)]
pub enum Offered<T> {
    /// It was made, and came to this.
    Made(T),
    /// Another table is being asked over a network, alone until then.
    Busy(Duration),
    /// Another table has granted it.
    Over,
}

/// A round trip for it is under way. Dropped, it was refused, or nobody knows: other tables
/// may be asked.
#[must_use = "dropped, other tables are asked"]
pub struct RoundTrip(Option<Arc<Race>>);

impl Race {
    /// A race in which a round trip is under way alone for `hedge`; then one more may begin
    /// beside it.
    #[must_use]
    pub fn new(hedge: Duration) -> Arc<Self> {
        Arc::new(Self {
            hedge,
            state: Mutex::default(),
        })
    }

    /// Makes an offer that is answered at once, under the race's lock: no two are made
    /// together, and none is lost because another was being made. `offer` says whether
    /// it was granted. While a round trip is under way nothing is offered, and `again` is
    /// called when none is any more: once for each `caller`.
    pub fn offer<T>(
        &self,
        offer: impl FnOnce() -> (T, bool),
        caller: u64,
        again: impl FnOnce() -> Box<dyn FnOnce() + Send>,
    ) -> Offered<T> {
        let mut state = self.state.lock();
        if state.won {
            return Offered::Over;
        }
        if let Some(left) = state.busy(self.hedge) {
            if state.callbacks.iter().all(|(known, _)| *known != caller) {
                state.callbacks.push((caller, again()));
            }
            return Offered::Busy(left);
        }
        let (offered, granted) = offer();
        state.won = granted;
        Offered::Made(offered)
    }

    /// A round trip, alone or beside one that has taken longer than the hedge (poll again
    /// then); `None` if another table has granted.
    pub fn poll_round_trip(self: &Arc<Self>, context: &Context<'_>) -> Poll<Option<RoundTrip>> {
        let mut state = self.state.lock();
        if state.won {
            return Poll::Ready(None);
        }
        if state.busy(self.hedge).is_some() {
            state.wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        state.round_trips += 1;
        state.since = Some(real_time());
        Poll::Ready(Some(RoundTrip(Some(Arc::clone(self)))))
    }

    /// For how long one table is asked alone.
    #[must_use]
    pub const fn hedge(&self) -> Duration {
        self.hedge
    }

    /// Whether a table has granted.
    #[must_use]
    pub fn is_won(&self) -> bool {
        self.state.lock().won
    }
}

impl RoundTrip {
    /// It was granted there. Answers whether that is the first grant: another is given
    /// back by its caller, and is reported to none.
    #[must_use]
    pub fn won(mut self) -> bool {
        self.0.take().is_some_and(|race| race.end_round_trip(true))
    }
}

impl Drop for RoundTrip {
    fn drop(&mut self) {
        if let Some(race) = self.0.take() {
            race.end_round_trip(false);
        }
    }
}

impl Race {
    /// Ends a round trip; answers whether it is the first that has granted.
    fn end_round_trip(&self, granted: bool) -> bool {
        let mut state = self.state.lock();
        state.round_trips -= 1;
        let first = granted && !state.won;
        state.won |= granted;
        let wake = state.wake();
        drop(state);
        drop(wake);
        first
    }
}

/// How long a round trip takes has nothing to do with the clock that decides.
#[expect(clippy::disallowed_methods, reason = "a network's time is real")]
fn real_time() -> Instant {
    Instant::now()
}

impl RaceState {
    /// How long it stays busy.
    fn busy(&self, hedge: Duration) -> Option<Duration> {
        let since = self.since.filter(|_| self.round_trips > 0)?;
        let left = (since + hedge).saturating_duration_since(real_time());
        (!left.is_zero()).then_some(left)
    }

    fn wake(&mut self) -> Wake {
        let wakers = std::mem::take(&mut self.wakers);
        let callbacks = std::mem::take(&mut self.callbacks);
        if wakers.is_empty() && callbacks.is_empty() {
            return Wake::default();
        }
        Wake::run(move || {
            wakers.into_iter().for_each(Waker::wake);
            callbacks.into_iter().for_each(|(_, callback)| callback());
        })
    }
}

impl fmt::Debug for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Race")
            .field("won", &self.is_won())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RoundTrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RoundTrip")
    }
}
