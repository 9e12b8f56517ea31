//! One who waits, and the future that does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_contract::sync::Mutex;
use tidegate_contract::{Ending, OwnedKey};
use tidegate_core::{Span, Timestamp};

use super::line::Line;
use super::pooled::Pooled;
use crate::ask::Ask;
use crate::clock::timer::{Alarm, Ring};
use crate::decision::{Admission, Decision};
use crate::error::Error;
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

/// How one stands in line.
#[derive(Debug)]
pub(super) enum Manner {
    /// A try: it leaves at once.
    Passing,
    /// Until its turn, its deadline or its future's end.
    Staying,
    /// The same, in the lines of other sets as well.
    Pooled(Pooled),
}

/// One who waits.
pub(crate) struct Waiter {
    pub(super) key: OwnedKey,
    pub(super) since: Timestamp,
    pub(super) priority: u8,
    manner: Manner,
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
        manner: Manner,
    ) -> Result<Arc<Self>, Error> {
        let asked = set.with_view_at(key, |view, _| Ok((Arc::clone(view), view.amounts(ask)?)))?;
        Ok(Arc::new(Self {
            key: OwnedKey::new(key),
            since: set.clock.now(),
            priority: ask.priority,
            manner,
            aim,
            asked,
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

    /// What it is asked again by.
    pub(super) fn idempotency(&self) -> Option<&[u8]> {
        match &self.aim {
            Aim::Lease { idempotency, .. } => idempotency.as_deref(),
            Aim::Charge => None,
        }
    }

    /// Whether it counts as waiting, and others have to look out for it.
    pub(super) const fn stays(&self) -> bool {
        !matches!(self.manner, Manner::Passing)
    }

    const fn pooled(&self) -> Option<&Pooled> {
        match &self.manner {
            Manner::Pooled(pooled) => Some(pooled),
            Manner::Passing | Manner::Staying => None,
        }
    }

    /// Until when its member is passed over.
    pub(super) fn cooling(&self, now: Timestamp) -> Option<Timestamp> {
        self.pooled()?.member.cooling_at(now)
    }

    /// What `offer` answers, unless another line has granted already.
    pub(super) fn unless_served(&self, offer: impl FnOnce() -> Answer) -> Option<Answer> {
        match self.pooled() {
            Some(pooled) => pooled.race.run(offer),
            None => Some(offer()),
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
/// it was given but never told; a lease with an idempotency key stays for the retry.
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

impl Turn {
    /// What a pool's ask is refused, the pool counts: another may have granted.
    fn count(&self, decision: &Decision) {
        let counters = &self.set.counters;
        if decision.admitted() {
            counters.decided(true);
            counters.waited(self.set.clock.now().since(self.waiter.since));
        } else if self.waiter.pooled().is_none() {
            counters.decided(false);
            counters.timed_out();
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
        let decision = answer?;
        self.count(&decision);
        let admission = super::admission(&self.set, self.waiter.key.bytes(), decision);
        Poll::Ready(Ok(match self.waiter.pooled() {
            Some(pooled) => pooled.sign(admission),
            None => admission,
        }))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        if self.waiter.pooled().is_none() {
            self.set.counters.abandoned();
        }
        if let Some(line) = self.waiter.line() {
            line.leave(&self.waiter);
        }
        if let Some(Ok(decision)) = self.waiter.take_answer()
            && let Some(granted) = decision.answer().lease
            && !granted.repeated
            && self.waiter.idempotency().is_none()
        {
            // Nobody is left to tell; the store gives back at expiry.
            let _ = self
                .set
                .end(&self.waiter.key, granted.id, Ending::Cancel, false);
        }
    }
}
