//! One who waits, and the future that does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_contract::sync::Mutex;
use tidegate_contract::{Ending, KeyPath, OwnedKey};
use tidegate_core::{Span, Timestamp};

use super::line::Line;
use crate::ask::Ask;
use crate::clock::timer::{Alarm, Ring};
use crate::decision::{Admission, Decision};
use crate::error::Error;
use crate::lease::Lease;
use crate::set::{Amounts, Inner, View, Wanted};

/// What one who waits is told in the end.
pub(super) type Answer = Result<Decision, Error>;

/// What one who waits wants.
#[derive(Debug)]
pub(super) enum Aim {
    Charge,
    Lease {
        ttl: Option<Span>,
        idempotency: Option<Box<[u8]>>,
    },
}

/// One who waits.
pub(crate) struct Waiter {
    pub(super) key: OwnedKey,
    pub(super) since: Timestamp,
    pub(super) priority: u8,
    /// It stays until its turn; a try leaves at once, and does not count.
    pub(super) stays: bool,
    aim: Aim,
    /// The view the ask was resolved by, and what it takes by it.
    asked: (Arc<View>, Amounts),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The line it stands in, while it does.
    line: Option<Arc<Line>>,
    deadline: Option<Alarm>,
    answer: Option<Answer>,
    waker: Option<Waker>,
}

impl Waiter {
    pub(super) fn new(
        set: &Arc<Inner>,
        key: &[u8],
        ask: &Ask<'_>,
        aim: Aim,
        stays: bool,
    ) -> Result<Arc<Self>, Error> {
        let view = set.view.load_full();
        KeyPath::new(key, view.plan.levels())?;
        let amounts = view.amounts(ask)?;
        Ok(Arc::new(Self {
            key: OwnedKey::new(key),
            since: set.clock.now(),
            priority: ask.priority,
            stays,
            aim,
            asked: (view, amounts),
            state: Mutex::default(),
        }))
    }

    /// What it takes by `view`.
    pub(super) fn amounts(&self, view: &Arc<View>) -> Amounts {
        let (asked_by, amounts) = &self.asked;
        if Arc::ptr_eq(asked_by, view) {
            return amounts.clone();
        }
        Inner::carry(view, asked_by, amounts)
    }

    pub(super) fn wanted(&self, view: &View) -> Wanted<'_> {
        match &self.aim {
            Aim::Charge => super::CHARGE,
            Aim::Lease { ttl, idempotency } => Wanted::Lease {
                ttl: ttl.unwrap_or_else(|| view.lease_ttl()),
                idempotency: idempotency.as_deref(),
            },
        }
    }

    pub(super) fn stand_in(&self, line: &Arc<Line>) {
        self.state.lock().line = Some(Arc::clone(line));
    }

    /// Keeps the alarm of its deadline while it stands in line; whether it does.
    pub(super) fn keep_deadline(&self, alarm: Alarm) -> bool {
        let mut state = self.state.lock();
        let stands = state.line.is_some();
        if stands {
            state.deadline = Some(alarm);
        }
        stands
    }

    /// Tells the answer; the waker is for the caller to wake once it holds no lock.
    pub(super) fn tell(&self, answer: Answer) -> (Option<Waker>, Option<Alarm>) {
        let mut state = self.state.lock();
        state.line = None;
        state.answer = Some(answer);
        (state.waker.take(), state.deadline.take())
    }

    pub(super) fn take_answer(&self) -> Option<Answer> {
        self.state.lock().answer.take()
    }

    fn line(&self) -> Option<Arc<Line>> {
        self.state.lock().line.clone()
    }

    fn poll(&self, waker: &Waker) -> Poll<Answer> {
        let mut state = self.state.lock();
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }
}

/// Its deadline has come.
impl Ring for Waiter {
    fn ring(self: Arc<Self>, _: Timestamp) {
        if let Some(line) = self.line() {
            line.give_up(&self);
        }
    }
}

/// The future of one who waits. Dropped, it gives back its place and whatever
/// it was given but never told.
#[must_use = "nobody waits until it is polled"]
pub(crate) struct Turn {
    set: Arc<Inner>,
    waiter: Arc<Waiter>,
    told: bool,
}

impl Turn {
    pub(super) const fn new(set: Arc<Inner>, waiter: Arc<Waiter>) -> Self {
        Self {
            set,
            waiter,
            told: false,
        }
    }
}

impl Future for Turn {
    type Output = Result<Admission, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(answer) = self.waiter.poll(context.waker()) else {
            return Poll::Pending;
        };
        self.told = true;
        let (set, waiter) = (&self.set, &self.waiter);
        let decision = answer?;
        set.counters.decided(decision.admitted());
        let Some(granted) = decision.answer().lease else {
            set.counters.timed_out();
            return Poll::Ready(Ok(Admission::Refused(decision)));
        };
        set.counters.waited(set.clock.now().since(waiter.since));
        let lease = Lease::new(Arc::clone(set), waiter.key.clone(), granted);
        Poll::Ready(Ok(Admission::Granted(lease)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        self.set.counters.abandoned();
        if let Some(line) = self.waiter.line() {
            line.leave(&self.waiter);
        }
        if let Some(Ok(decision)) = self.waiter.take_answer()
            && let Some(granted) = decision.answer().lease
            && !granted.repeated
        {
            // Nobody is left to tell; the store gives back at expiry.
            let _ = self
                .set
                .end(&self.waiter.key, granted.id, Ending::Cancel, false);
        }
    }
}
