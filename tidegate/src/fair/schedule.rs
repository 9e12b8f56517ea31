//! The order of a fair queue: pure, with no clock, no lock and no waiting.

use tidegate_core::{Amount, Timestamp};

use super::account::Period;
use super::bounds::{Bounds, PRIORITIES};
use super::flows::{Flows, Waiting};
use super::priorities::{Priorities, Standing};
use super::request::FairRequest;
use crate::error::FairError;

/// Who is next, of requests that carry a `T`. Each operation takes O(log n) of the flows and of
/// the requests of one flow.
///
/// A request is [pushed](Self::push), [popped](Self::pop) as the [`Head`] that stands at the
/// limits, then [admitted](Self::admit) or [given back](Self::give_back), and in the end
/// [settled](Self::settle) for what it has really cost.
///
/// ```
/// use tidegate::Timestamp;
/// use tidegate::fair::{Bounds, FairRequest, Popped, Priorities, Schedule};
///
/// let mut schedule = Schedule::new(Bounds::default(), Priorities::default())?;
/// for (flow, cost) in [("big", 100), ("big", 100), ("small", 10)] {
///     schedule.push(&FairRequest::of(flow).cost(cost), Timestamp::MAX, flow)?;
/// }
/// let mut order = Vec::new();
/// while let Some(Popped::Head(head, flow)) = schedule.pop(Timestamp::from_micros(0)) {
///     order.push(flow);
///     let started = schedule.admit(head);
///     schedule.settle(started, 10);
/// }
/// assert_eq!(order, ["big", "small", "big"]);
/// # Ok::<(), tidegate::fair::FairError>(())
/// ```
#[derive(Debug)]
pub struct Schedule<T> {
    bounds: Bounds,
    standing: Standing,
    flows: [Flows<T>; PRIORITIES],
    waiting: usize,
    /// How many stand at the limits, by priority, not counting those that stand aside.
    heads: [usize; PRIORITIES],
    /// The number of the request that comes next.
    next: u64,
}

/// A request that waits, for [`Schedule::cancel`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaiterId {
    priority: usize,
    flow: usize,
    number: u64,
}

/// A request that stands at the limits. Its flow was charged what it is thought to cost.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "its flow is charged until it is given back"]
pub struct Head {
    charge: Charge,
    aside: bool,
}

/// A request that was admitted.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "its flow is remembered until it is settled"]
pub struct Started(Charge);

/// What a flow was charged, and its priority: each with the period of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Charge {
    priority: (usize, Period),
    flow: (usize, Period),
    cost: Amount,
    weight: u32,
}

/// What comes out of a [`Schedule`].
#[derive(PartialEq, Eq, Debug)]
pub enum Popped<T> {
    /// It is its turn.
    Head(Head, T),
    /// Its deadline is over; nothing was charged.
    Late(T),
}

impl Head {
    /// What it is thought to cost.
    #[must_use]
    pub const fn cost(&self) -> Amount {
        self.charge.cost
    }

    pub(super) const fn is_aside(&self) -> bool {
        self.aside
    }
}

impl Started {
    /// What it was charged.
    #[must_use]
    pub const fn cost(&self) -> Amount {
        self.0.cost
    }
}

impl<T> Schedule<T> {
    /// An empty one.
    ///
    /// # Errors
    /// [`FairError::Weight`] of a priority.
    pub fn new(bounds: Bounds, priorities: Priorities) -> Result<Self, FairError> {
        Ok(Self {
            bounds,
            standing: Standing::new(priorities)?,
            flows: Default::default(),
            waiting: 0,
            heads: [0; PRIORITIES],
            next: 0,
        })
    }

    /// The last of its flow. Popped after `deadline` it is late.
    ///
    /// # Errors
    /// [`FairError`], to this request alone: what is wrong with it, or which bound is reached.
    pub fn push(
        &mut self,
        entry: &FairRequest<'_>,
        deadline: Timestamp,
        item: T,
    ) -> Result<WaiterId, FairError> {
        entry.check()?;
        let (priority, name) = (usize::from(entry.priority), entry.flow.bytes());
        self.check_room(priority, name)?;
        let flows = &mut self.flows[priority];
        let (flow, number, was_ready) = (flows.enter(name), self.next, flows.is_ready());
        let waiting = Waiting {
            cost: entry.cost,
            weight: entry.weight,
            deadline,
            item,
        };
        flows.push(flow, number, waiting);
        (self.next, self.waiting) = (number + 1, self.waiting + 1);
        self.activate(priority, was_ready);
        Ok(WaiterId {
            priority,
            flow,
            number,
        })
    }

    /// The request whose turn it is. Its flow is charged.
    pub fn pop(&mut self, now: Timestamp) -> Option<Popped<T>> {
        let is_ready = |priority: usize| self.flows[priority].is_ready();
        let is_at_limits = |priority: usize| self.heads[priority] > 0;
        let priority = self.standing.next(is_ready, is_at_limits)?;
        let (flow, period, first) = self.flows[priority].pop(now)?;
        self.waiting -= 1;
        let Some(period) = period else {
            self.rest(priority);
            return Some(Popped::Late(first.item));
        };
        self.heads[priority] += 1;
        let charge = Charge {
            priority: (priority, self.standing.charge(priority, first.cost)),
            flow: (flow, period),
            cost: first.cost,
            weight: first.weight,
        };
        let head = Head {
            charge,
            aside: false,
        };
        Some(Popped::Head(head, first.item))
    }

    /// The limits have admitted it.
    pub fn admit(&mut self, head: Head) -> Started {
        let charge = self.leave_limits(head);
        self.standing.started(charge.priority.0, charge.cost);
        Started(charge)
    }

    /// The limits have not admitted it: its flow is charged nothing.
    pub fn give_back(&mut self, head: Head) {
        let charge = self.leave_limits(head);
        self.correct(charge, 0);
    }

    /// It has really cost `used`: the flow's virtual time moves by the difference.
    pub fn settle(&mut self, started: Started, used: Amount) {
        self.correct(started.0, used);
    }

    /// It waits for something that is its flow's alone, and the rest of its flow with it: it is
    /// in nobody's way.
    pub fn step_aside(&mut self, head: &mut Head) {
        if !std::mem::replace(&mut head.aside, true) {
            let (priority, _) = head.charge.priority;
            self.heads[priority] -= 1;
            self.flows[priority].set_aside(head.charge.flow.0, true);
            self.rest(priority);
        }
    }

    /// One that waits leaves; `None` if it does not wait any more.
    pub fn cancel(&mut self, id: WaiterId) -> Option<T> {
        let left = self.flows[id.priority].cancel(id.flow, id.number)?;
        self.waiting -= 1;
        self.rest(id.priority);
        Some(left)
    }

    /// All that wait leave.
    pub fn drain(&mut self) -> Vec<T> {
        let left: Vec<T> = self.flows.iter_mut().flat_map(Flows::drain).collect();
        self.waiting -= left.len();
        (0..PRIORITIES).for_each(|priority| self.rest(priority));
        left
    }

    /// How many requests wait.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many stand at the limits, and not aside.
    #[must_use]
    pub fn heads(&self) -> usize {
        self.heads.iter().sum()
    }

    /// How many flows it knows: those that have requests that wait or are not settled, or have
    /// had more than their share. One at two priorities counts twice.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.iter().map(Flows::len).sum()
    }

    fn check_room(&mut self, priority: usize, name: &[u8]) -> Result<(), FairError> {
        let bounds = self.bounds;
        if self.waiting >= bounds.waiting {
            return Err(FairError::QueueFull(bounds.waiting));
        }
        if self.flows[priority].waiting_of(name) >= bounds.waiting_of_flow {
            return Err(FairError::FlowFull(bounds.waiting_of_flow));
        }
        let is_known = self.flows[priority].contains(name);
        let has_room = || self.flows() < bounds.flows;
        if is_known || has_room() || self.flows.iter_mut().any(Flows::forget_one) {
            return Ok(());
        }
        Err(FairError::FlowsFull(bounds.flows))
    }

    /// Whoever has stood at the limits stands there no more.
    fn leave_limits(&mut self, head: Head) -> Charge {
        let (priority, _) = head.charge.priority;
        match head.aside {
            true => {
                let was_ready = self.flows[priority].is_ready();
                self.flows[priority].set_aside(head.charge.flow.0, false);
                self.activate(priority, was_ready);
            }
            false => self.heads[priority] -= 1,
        }
        self.rest(priority);
        head.charge
    }

    fn correct(&mut self, charge: Charge, used: Amount) {
        let (priority, _) = charge.priority;
        let cost = (charge.cost, used);
        self.flows[priority].correct(charge.flow, charge.weight, cost);
        self.standing.correct(charge.priority, cost);
        self.rest(priority);
    }

    fn activate(&mut self, priority: usize, was_ready: bool) {
        if !was_ready && self.flows[priority].is_ready() {
            self.standing.activate(priority);
        }
    }

    /// While nobody waits for the limits at a priority, nobody owes anybody anything there.
    fn rest(&mut self, priority: usize) {
        let is_idle =
            |priority: usize| self.heads[priority] == 0 && !self.flows[priority].is_ready();
        if !is_idle(priority) {
            return;
        }
        if (0..PRIORITIES).all(is_idle) {
            self.standing.rest();
        }
        self.flows[priority].rest();
    }
}
