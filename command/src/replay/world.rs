//! The event loop: the real engine on a clock that stands still between events.
//!
//! At one instant things happen in this order: requests end, and who waited
//! for what they give back starts; then who gives up gives up; then requests
//! arrive, in the order of the trace. Deadlines are kept here rather than by
//! the engine, so that what ends at a deadline's very microsecond still helps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{
    Admission, BuildError, DecisionError, Error, Lease, LimitSet, ManualClock, Request, Timestamp,
};
use tidegate_policy::Policy;

use super::decision::{Charges, Decision, Outcome, Run};
use super::usage::Meter;
use super::woken::{Woken, waker};
use crate::subject::Subject;
use crate::trace::{self, Trace};
use tidegate_server::trouble::{self, Trouble};

/// The engine's own bound on keys, if the policy has none and the trace few.
const KEYS: usize = 1 << 20;

type Turn = Pin<Box<dyn Future<Output = Result<Admission, DecisionError>>>>;

/// Plays a trace through a policy.
pub fn play(
    trace: Trace,
    policy: &Policy,
    limits: Vec<Subject>,
    charges: Charges,
    wait: Option<Duration>,
    mut tick: impl FnMut(),
) -> trouble::Outcome<Run> {
    let time = ManualClock::starting_at(Timestamp::from_micros(trace.start));
    let set = build(policy, &trace, &time).map_err(Trouble::failure)?;
    let wait = wait.map(|wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
    let mut world = World::new(set, time, &trace, &limits, &charges, wait);
    world.run(&mut tick).map_err(trouble)?;
    let World {
        decisions,
        meter,
        now,
        ..
    } = world;
    let usage = meter.finish(now);
    Ok(Run {
        trace,
        limits,
        charges,
        decisions,
        usage,
    })
}

fn build(policy: &Policy, trace: &Trace, time: &ManualClock) -> Result<LimitSet, BuildError> {
    let keys = KEYS.max(trace.keys.len().saturating_mul(policy.levels.len().max(1)));
    let builder = match policy.partial_keys {
        true => LimitSet::builder().partial_keys(),
        false => LimitSet::builder(),
    };
    // How many may wait is bounded by the trace unless the policy bounds it.
    let of_root = policy.max_waiting_per_root;
    let of_root = of_root.or_else(|| policy.max_waiting.is_none().then_some(trace.requests.len()));
    let builder = match of_root {
        Some(most) => builder.max_waiting_per_root(most),
        None => builder,
    };
    builder
        .name(&policy.name)
        .limits(policy.limits.iter().cloned())
        .levels(policy.levels.iter().cloned())
        .max_keys(policy.max_keys.unwrap_or(keys))
        .max_keys_per_root(policy.max_keys_per_root.unwrap_or(keys))
        .max_waiting(policy.max_waiting.unwrap_or(trace.requests.len()))
        .clock(time.clock())
        .build()
}

fn trouble(error: Error) -> Trouble {
    Trouble::failure(format!("the replay stopped: {error}"))
}

/// Everything, at one instant.
struct World<'a> {
    set: LimitSet,
    time: ManualClock,
    trace: &'a Trace,
    limits: &'a [Subject],
    charges: &'a Charges,
    wait: Option<u64>,
    /// Microseconds since the first request.
    now: u64,
    /// The next request to arrive.
    next: usize,
    decisions: Vec<Decision>,
    running: BinaryHeap<Reverse<(u64, usize)>>,
    leases: HashMap<usize, Lease>,
    waiting: BTreeMap<usize, Waiter>,
    deadlines: VecDeque<(u64, usize)>,
    woken: Arc<Woken>,
    /// For each key, the limit that was last seen to stop somebody.
    stopped: HashMap<u32, usize>,
    meter: Meter<'a>,
}

/// A request in the queue.
struct Waiter {
    turn: Turn,
    waker: Waker,
    /// The limit that made it wait.
    binding: Option<usize>,
}

impl<'a> World<'a> {
    fn new(
        set: LimitSet,
        time: ManualClock,
        trace: &'a Trace,
        limits: &'a [Subject],
        charges: &'a Charges,
        wait: Option<u64>,
    ) -> Self {
        Self {
            set,
            time,
            trace,
            limits,
            charges,
            wait,
            now: 0,
            next: 0,
            decisions: vec![Decision::UNDECIDED; trace.requests.len()],
            running: BinaryHeap::new(),
            leases: HashMap::new(),
            waiting: BTreeMap::new(),
            deadlines: VecDeque::new(),
            woken: Arc::default(),
            stopped: HashMap::new(),
            meter: Meter::new(limits),
        }
    }

    fn run(&mut self, tick: &mut impl FnMut()) -> Result<(), Error> {
        while let Some(at) = self.next_event() {
            self.now = at;
            self.time.set(self.instant(at));
            self.end_due()?;
            self.serve_woken()?;
            self.give_up_due()?;
            while self.arrival().is_some_and(|request| request.arrived == at) {
                self.arrive()?;
                tick();
            }
        }
        Ok(())
    }

    fn next_event(&self) -> Option<u64> {
        let arrival = self.arrival().map(|request| request.arrived);
        let end = self.running.peek().map(|Reverse((at, _))| *at);
        let deadline = self.deadlines.front().map(|(at, _)| *at);
        let alarm = if self.waiting.is_empty() {
            None
        } else {
            self.time.next_alarm()
        };
        let alarm = alarm.map(|at| self.since_start(at));
        [arrival, end, deadline, alarm].into_iter().flatten().min()
    }

    fn arrival(&self) -> Option<&'a trace::Request> {
        self.trace.requests.get(self.next)
    }

    fn instant(&self, at: u64) -> Timestamp {
        Timestamp::from_micros(self.trace.start.saturating_add_unsigned(at))
    }

    fn since_start(&self, at: Timestamp) -> u64 {
        let micros = at.as_micros().saturating_sub(self.trace.start);
        u64::try_from(micros).unwrap_or(0).max(self.now)
    }

    // -- arriving ------------------------------------------------------------

    fn arrive(&mut self) -> Result<(), Error> {
        let number = self.next;
        self.next += 1;
        if self.takes_nothing(number) {
            return self.begin(number, None, Outcome::Admitted, None);
        }
        if self.wait.is_some() {
            return self.queue(number);
        }
        let (key, named) = (self.key(number), self.named(number));
        match self.set.try_acquire(key, Request::named(&named)).wait() {
            Ok(Admission::Granted(lease)) => {
                self.begin(number, Some(lease), Outcome::Admitted, None)
            }
            Ok(Admission::Refused(decision)) => {
                let binding = decision.binding().and_then(|name| self.position(name));
                self.refuse(number, binding);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for its turn, which may be now.
    fn queue(&mut self, number: usize) -> Result<(), Error> {
        let waker = waker(number, &self.woken);
        let mut turn = self.turn(number);
        match turn.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(Admission::Granted(lease))) => {
                self.begin(number, Some(lease), Outcome::Admitted, None)?;
                self.serve_woken()
            }
            Poll::Ready(Ok(Admission::Refused(decision))) if decision.is_never() => {
                let binding = decision.binding().and_then(|name| self.position(name));
                self.refuse(number, binding);
                Ok(())
            }
            Poll::Ready(
                Ok(Admission::Refused(_))
                | Err(DecisionError::QueueFull(_) | DecisionError::RootQueueFull(_)),
            ) => {
                let binding = self.binding(number)?;
                self.refuse(number, binding);
                Ok(())
            }
            Poll::Ready(Err(error)) => Err(error.into()),
            Poll::Pending => {
                let binding = self.binding(number)?;
                self.waiting.insert(
                    number,
                    Waiter {
                        turn,
                        waker,
                        binding,
                    },
                );
                let deadline = self.now.saturating_add(self.wait.unwrap_or(0));
                self.deadlines.push_back((deadline, number));
                Ok(())
            }
        }
    }

    fn turn(&self, number: usize) -> Turn {
        let set = self.set.clone();
        let key = self.key(number).to_owned();
        let named: Vec<(String, u64)> = self
            .named(number)
            .into_iter()
            .map(|(name, n)| (name.to_owned(), n))
            .collect();
        Box::pin(async move {
            let named: Vec<(&str, u64)> = named.iter().map(|(name, n)| (&**name, *n)).collect();
            let request = Request::named(&named).within(Duration::MAX);
            set.acquire(key.as_str(), request).await
        })
    }

    fn refuse(&mut self, number: usize, binding: Option<usize>) {
        self.decisions[number] = Decision {
            ran: None,
            outcome: Outcome::Refused,
            binding,
        };
    }

    // -- waiting ---------------------------------------------------------------

    /// Starts whoever's turn has come; that may end others, and so on.
    fn serve_woken(&mut self) -> Result<(), Error> {
        while let Some(number) = self.woken.take() {
            let Some(waiter) = self.waiting.get_mut(&number) else {
                continue;
            };
            let turn = waiter
                .turn
                .as_mut()
                .poll(&mut Context::from_waker(&waiter.waker));
            let Poll::Ready(admission) = turn else {
                continue;
            };
            let binding = waiter.binding;
            self.waiting.remove(&number);
            match admission? {
                Admission::Granted(lease) => {
                    self.begin(number, Some(lease), Outcome::Waited, binding)?;
                }
                Admission::Refused(_) => self.refuse(number, binding),
            }
        }
        Ok(())
    }

    fn give_up_due(&mut self) -> Result<(), Error> {
        while self
            .deadlines
            .front()
            .is_some_and(|(at, _)| *at <= self.now)
        {
            let Some((_, number)) = self.deadlines.pop_front() else {
                break;
            };
            if self.waiting.contains_key(&number) {
                let binding = self.binding(number)?;
                self.refuse(number, binding);
                // Dropping its turn gives up its place, and the next moves up.
                self.waiting.remove(&number);
                self.serve_woken()?;
            }
        }
        Ok(())
    }

    /// The limit that stops a request now; if none does, it stands behind
    /// others of its key, and what stops those stops it.
    fn binding(&mut self, number: usize) -> Result<Option<usize>, Error> {
        let peeked = self
            .set
            .peek(self.key(number), Request::named(&self.named(number)))
            .wait()?;
        let binding = peeked.binding().and_then(|name| self.position(name));
        let key = self.trace.requests[number].key;
        if let Some(limit) = binding {
            self.stopped.insert(key, limit);
        }
        Ok(self.stopped.get(&key).copied())
    }

    // -- starting and ending -----------------------------------------------------

    fn begin(
        &mut self,
        number: usize,
        lease: Option<Lease>,
        outcome: Outcome,
        binding: Option<usize>,
    ) -> Result<(), Error> {
        let service = self.charges.service_us(&self.trace.requests[number]);
        let end = self.now.saturating_add(service);
        self.decisions[number] = Decision {
            ran: Some((self.now, end)),
            outcome,
            binding,
        };
        self.look(number)?;
        let Some(mut lease) = lease else {
            return Ok(());
        };
        if service == 0 {
            return self.end(number, lease);
        }
        // Who serves for longer than the lease lasts renews it meanwhile.
        if lease.expires_at() <= self.instant(end) {
            lease
                .renew(Duration::from_micros(service.saturating_add(1)))
                .wait()?;
        }
        self.leases.insert(number, lease);
        self.running.push(Reverse((end, number)));
        Ok(())
    }

    fn end_due(&mut self) -> Result<(), Error> {
        while let Some(Reverse((at, number))) = self.running.peek().copied() {
            if at > self.now {
                break;
            }
            self.running.pop();
            if let Some(lease) = self.leases.remove(&number) {
                self.end(number, lease)?;
            }
        }
        Ok(())
    }

    /// Reports what was really used.
    fn end(&mut self, number: usize, mut lease: Lease) -> Result<(), Error> {
        let charged = self
            .limits
            .iter()
            .enumerate()
            .filter(|(_, limit)| limit.is_charged());
        let used = charged.map(|(at, limit)| (limit.name.as_str(), self.amounts(at, number)));
        let taken = used.filter(|(_, (reserved, _))| *reserved > 0);
        let settled: Vec<(&str, u64)> = taken.map(|(name, (_, used))| (name, used)).collect();
        lease.settle(&settled).wait()?;
        self.look(number)
    }

    /// Takes note of what is in use for the key of a request.
    fn look(&mut self, number: usize) -> Result<(), Error> {
        let key = self.key(number);
        let peeked = self.set.peek(key, 1).wait()?;
        for (name, standing) in peeked.standings() {
            if let Some(limit) = self.position(name) {
                let used = standing.limit - standing.remaining + standing.debt;
                let full_at = standing.full_at.map(|at| self.since_start(at));
                self.meter.look(limit, key, self.now, used, full_at);
            }
        }
        Ok(())
    }

    // -- amounts -----------------------------------------------------------------

    fn key(&self, number: usize) -> &'a str {
        &self.trace.keys[self.trace.requests[number].key as usize]
    }

    /// What a limit is charged at the start and in the end.
    fn amounts(&self, limit: usize, number: usize) -> (u64, u64) {
        let request = &self.trace.requests[number];
        (
            self.charges.reserved(limit, request),
            self.charges.used(limit, request),
        )
    }

    /// What is asked of each rate and budget; the others are taken at 1.
    fn named(&self, number: usize) -> Vec<(&'a str, u64)> {
        let charged = self
            .limits
            .iter()
            .enumerate()
            .filter(|(_, limit)| limit.is_charged());
        charged
            .map(|(at, limit)| (limit.name.as_str(), self.amounts(at, number).0))
            .collect()
    }

    /// A request for nothing needs nobody's leave.
    fn takes_nothing(&self, number: usize) -> bool {
        self.limits.iter().all(Subject::is_charged)
            && self.named(number).iter().all(|(_, amount)| *amount == 0)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.limits.iter().position(|limit| limit.name == name)
    }
}
