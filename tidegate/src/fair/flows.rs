//! The flows of one priority: who waits in each, and whose turn it is.
//!
//! Flows that may start something are in order of the start tag of their first request; that
//! tag is the flow's own, so that a request costs nothing while it waits, and one that leaves
//! changes nobody's tag. A flow is there while it has requests that wait or have not been
//! settled, or owes something.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidegate_core::{Amount, Timestamp};

use super::account::{Account, Period, Virtual, virtual_cost};

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    pub cost: Amount,
    pub weight: u32,
    pub deadline: Timestamp,
    pub item: T,
}

/// A flow that may start something: its tag, the number of its first request, where it is.
type Place = (Virtual, u64, usize);

#[derive(Debug)]
struct Flow<T> {
    name: Arc<[u8]>,
    account: Account,
    /// By number: in order of arrival.
    waiting: BTreeMap<u64, Waiting<T>>,
    /// Where it is among those that may start something.
    place: Option<Place>,
    /// Requests that went to the limits and are not settled.
    unsettled: usize,
    /// Of those, the ones that stand aside: it starts nothing meanwhile.
    aside: usize,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Flows<T> {
    by_name: HashMap<Arc<[u8]>, usize, RandomState>,
    flows: Vec<Option<Flow<T>>>,
    free: Vec<usize>,
    ready: BTreeSet<Place>,
    /// Those that are there for what they owe alone.
    owing: BTreeSet<(Virtual, usize)>,
    /// The start tag of what went to the limits last.
    now: Virtual,
    /// The latest tag there was.
    latest: Virtual,
}

impl<T> Default for Flows<T> {
    fn default() -> Self {
        Self {
            by_name: HashMap::default(),
            flows: Vec::new(),
            free: Vec::new(),
            ready: BTreeSet::new(),
            owing: BTreeSet::new(),
            now: 0,
            latest: 0,
        }
    }
}

impl<T> Flows<T> {
    /// How many flows there are.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether one of them may start something.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The flow of that name, new if need be.
    pub(super) fn enter(&mut self, name: &[u8]) -> usize {
        if let Some(&at) = self.by_name.get(name) {
            return at;
        }
        let name: Arc<[u8]> = name.into();
        let flow = Flow {
            name: Arc::clone(&name),
            account: Account::default(),
            waiting: BTreeMap::new(),
            place: None,
            unsettled: 0,
            aside: 0,
        };
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.flows.push(None);
                self.flows.len() - 1
            }
        };
        self.flows[at] = Some(flow);
        self.by_name.insert(name, at);
        at
    }

    /// How many wait of the flow of that name.
    pub(super) fn waiting_of(&self, name: &[u8]) -> usize {
        let at = self.by_name.get(name);
        at.and_then(|&at| self.flow(at))
            .map_or(0, |flow| flow.waiting.len())
    }

    /// The last in the flow at `at`.
    pub(super) fn push(&mut self, at: usize, number: u64, waiting: Waiting<T>) {
        let now = self.now;
        let Some(flow) = self.flows.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        self.owing.remove(&(flow.account.start(), at));
        if flow.waiting.is_empty() && flow.aside == 0 {
            flow.account.activate(now);
        }
        flow.waiting.insert(number, waiting);
        self.put(at);
    }

    /// The first of the flow whose turn it is, charged in that period; or, of one that is late,
    /// dismissed, and in none.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(usize, Option<Period>, Waiting<T>)> {
        let (start, _, at) = *self.ready.first()?;
        let flow = self.flows[at].as_mut()?;
        let (_, first) = flow.waiting.pop_first()?;
        let mut period = None;
        if first.deadline >= now {
            self.now = self.now.max(start);
            flow.account.charge(virtual_cost(first.cost, first.weight));
            flow.unsettled += 1;
            self.latest = self.latest.max(flow.account.start());
            period = Some(flow.account.period());
        }
        self.put(at);
        Some((at, period, first))
    }

    /// One that waits leaves.
    pub(super) fn cancel(&mut self, at: usize, number: u64) -> Option<T> {
        let flow = self.flows.get_mut(at)?.as_mut()?;
        let left = flow.waiting.remove(&number)?;
        self.put(at);
        Some(left.item)
    }

    /// What was charged as `from`, in that period, has cost `to`.
    pub(super) fn correct(
        &mut self,
        (at, period): (usize, Period),
        weight: u32,
        (from, to): (Amount, Amount),
    ) {
        if let Some(flow) = self.flows.get_mut(at).and_then(Option::as_mut) {
            let (from, to) = (virtual_cost(from, weight), virtual_cost(to, weight));
            flow.account.correct(period, from, to);
            flow.unsettled = flow.unsettled.saturating_sub(1);
            self.latest = self.latest.max(flow.account.start());
            self.put(at);
        }
    }

    /// A request of the flow waits elsewhere, and the flow with it; or no longer.
    pub(super) fn set_aside(&mut self, at: usize, aside: bool) {
        let now = self.now;
        if let Some(flow) = self.flows.get_mut(at).and_then(Option::as_mut) {
            flow.aside = match aside {
                true => flow.aside + 1,
                false => flow.aside.saturating_sub(1),
            };
            if flow.aside == 0 {
                flow.account.activate(now);
            }
            self.put(at);
        }
    }

    /// Nobody waits: nobody owes anybody anything.
    pub(super) fn rest(&mut self) {
        self.now = self.now.max(self.latest);
        self.forget_paid();
    }

    /// Forgets the flow that owes least, if one is there for that alone.
    pub(super) fn forget_one(&mut self) -> bool {
        self.forget_paid();
        let first = self.owing.pop_first();
        first.is_some_and(|(_, at)| self.forget(at))
    }

    /// All that wait leave.
    pub(super) fn drain(&mut self) -> Vec<T> {
        let mut left = Vec::new();
        for at in 0..self.flows.len() {
            if let Some(flow) = &mut self.flows[at] {
                let waiting = std::mem::take(&mut flow.waiting);
                left.extend(waiting.into_values().map(|waiting| waiting.item));
                self.put(at);
            }
        }
        left
    }

    fn flow(&self, at: usize) -> Option<&Flow<T>> {
        self.flows.get(at)?.as_ref()
    }

    /// Puts a flow where it belongs by now.
    fn put(&mut self, at: usize) {
        let Some(flow) = self.flows.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        let first = flow.waiting.first_key_value().filter(|_| flow.aside == 0);
        let place = first.map(|(number, _)| (flow.account.start(), *number, at));
        if flow.place != place {
            if let Some(old) = std::mem::replace(&mut flow.place, place) {
                self.ready.remove(&old);
            }
            self.ready.extend(place);
        }
        if flow.waiting.is_empty() && flow.unsettled == 0 {
            self.owing.insert((flow.account.start(), at));
        }
        self.forget_paid();
    }

    /// Forgets the flows that are like new.
    fn forget_paid(&mut self) {
        while let Some(&(start, at)) = self.owing.first().filter(|(start, _)| *start <= self.now) {
            self.owing.remove(&(start, at));
            self.forget(at);
        }
    }

    fn forget(&mut self, at: usize) -> bool {
        let Some(flow) = self.flows.get_mut(at).and_then(Option::take) else {
            return false;
        };
        self.by_name.remove(&flow.name);
        self.free.push(at);
        true
    }
}
