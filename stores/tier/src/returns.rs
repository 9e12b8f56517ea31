//! What is given back to the store, again if it does not answer.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_store::core::{Amount, Bounds, Span, Timestamp};
use tidegate_store::sync::Mutex;
use tidegate_store::{Ending, OwnedPath, Plan, PlanLimit, StoreError, Verb};

use crate::calendars::Calendars;
use crate::doubt::{Doubt, LASTS, LONGEST_PAUSE};
use crate::grants::Grant;

/// The most that wait to be given back again: of units, of slots, and of those whose answers were
/// lost, none of which puts out others. The oldest is then left to expire; of those whose answers
/// were lost the newest, for the oldest may have found something to take.
const MOST_KEPT: usize = 16_384;

/// So long it is tried while the store does not answer, or longer if it may be there for longer.
const TRIED_FOR: Span = Span::from_secs(3_600);

/// So often it is tried where the store answers that it fails.
const MOST_TRIES: u8 = 8;

/// So long a node that is closed tries at once what the store has no room for, and so often at most.
const CLOSES_FOR: Span = Span::from_secs(5);
const MOST_AT_ONCE: u8 = 200;

/// So many at most are tried at one look: requests of callers are not to wait behind them.
pub(crate) const MOST_AT_A_LOOK: usize = 512;

/// What is not answered is tried so rarely at last.
const LONGEST_WAIT: Span = Span::from_secs(4);

/// One lease to end.
#[derive(Clone, Debug)]
pub(crate) struct Return {
    pub(crate) path: OwnedPath,
    id: u128,
    /// What was spent, and by the limits of which plan; `None`: nobody knows whether it was
    /// granted at all.
    spent: Option<(Box<[Amount]>, Arc<Plan>)>,
    /// Where what was spent beyond what was granted is charged.
    calendars: Calendars,
    tries: u8,
    /// When it was tried first without an answer.
    unanswered_since: Option<Timestamp>,
    /// How often it waited for the next try: each time for twice as long.
    waits: u8,
    /// Not before then.
    next: Timestamp,
    /// It holds slots, and ends then by itself.
    until: Option<Timestamp>,
    /// Whether it may be granted late: that it is unknown now does not say that it is over.
    doubt: Doubt,
}

impl Return {
    /// Of a grant of which something is left.
    pub(crate) fn of(path: &OwnedPath, grant: &Grant) -> Self {
        Self {
            spent: Some((grant.units.spent().into(), Arc::clone(&grant.plan))),
            until: grant.has_slots.then(|| grant.may_last_until()),
            ..Self::lost(path, grant.id)
        }
    }

    /// Of a lease of which so much was used by the limits of `plan`, more than was granted maybe.
    pub(crate) fn charging(
        (path, calendars): (&OwnedPath, &Calendars),
        id: u128,
        (used, plan): (Box<[Amount]>, &Arc<Plan>),
    ) -> Self {
        Self {
            spent: Some((used, Arc::clone(plan))),
            calendars: calendars.clone(),
            ..Self::lost(path, id)
        }
    }

    /// Of a grant whose answer was lost.
    pub(crate) fn lost(path: &OwnedPath, id: u128) -> Self {
        Self {
            path: path.clone(),
            id,
            spent: None,
            calendars: Calendars::default(),
            tries: 0,
            unanswered_since: None,
            waits: 0,
            next: Timestamp::default(),
            until: None,
            doubt: Doubt::default(),
        }
    }

    /// The same of a lease that holds slots, and is there until then at most.
    pub(crate) const fn of_slots_until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// The store may execute late that it is granted: it lasts for as much longer.
    pub(crate) fn in_doubt(mut self, now: Timestamp) -> Self {
        self.doubt.begin(now, LONGEST_PAUSE);
        self.until = self.until.map(|until| until + LASTS);
        self
    }

    /// Whether it may be there still at `now`, or come, and is worth another try after `error`: where
    /// the store does not answer, after `pause`.
    fn has_hope(&mut self, error: &StoreError, now: Timestamp, pause: Span) -> bool {
        match error {
            StoreError::UnknownLease => {
                self.doubt.settle(now);
                self.doubt.put_off(now);
                return self.doubt.lasts();
            }
            StoreError::LeaseEnded(_) | StoreError::Mismatch => return false,
            _ => {}
        }
        // Others may wait for slots.
        let doublings = if self.until.is_some() {
            0
        } else {
            self.waits.min(16)
        };
        let waits = pause.as_micros() << doublings;
        let waits = waits.min(LONGEST_WAIT.as_micros().max(pause.as_micros()));
        self.next = now + Span::from_micros(waits);
        self.waits = self.waits.saturating_add(1);
        if matches!(
            error,
            StoreError::Unavailable(_) | StoreError::Busy(_) | StoreError::Full(_)
        ) {
            let until = *self.unanswered_since.get_or_insert(now) + TRIED_FOR;
            return now < self.until.map_or(until, |own| own.max(until));
        }
        self.tries = self.tries.saturating_add(1);
        match self.until {
            Some(until) => now < until,
            None => self.tries < MOST_TRIES,
        }
    }

    /// The same once nobody is there to try it later: at once, where the store has only had no room
    /// for it.
    pub(crate) fn again_at_once(
        mut self,
        error: &StoreError,
        (closed, now): (Timestamp, Timestamp),
    ) -> Option<Self> {
        self.tries = self.tries.saturating_add(1);
        let is_time = self.tries < MOST_AT_ONCE && now < closed + CLOSES_FOR;
        (is_time && matches!(error, StoreError::Busy(_))).then_some(self)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next && (!self.doubt.lasts() || self.doubt.is_due(now))
    }

    /// What is said of the calendars of `plan`.
    pub(crate) fn calendars(&self, plan: &Plan) -> Box<[Option<Bounds>]> {
        self.calendars.in_order_of(plan)
    }

    /// The verb that ends it, by the limits of `plan`.
    pub(crate) fn lend<T>(&self, plan: &Plan, act: impl FnOnce(Verb<'_>) -> T) -> T {
        let used: Vec<Option<Amount>> = match &self.spent {
            None => Vec::new(),
            Some((spent, by)) => {
                let used = |limit: &PlanLimit| {
                    let position = by.position(limit.uid)?;
                    let spent = spent.get(position).copied().unwrap_or(0);
                    (!limit.rule.is_held()).then_some(spent)
                };
                plan.limits().iter().map(used).collect()
            }
        };
        act(Verb::End {
            id: self.id,
            ending: match self.spent {
                Some(_) => Ending::Settle(&used),
                None => Ending::Cancel,
            },
            remember: false,
        })
    }
}

/// Those that are to be tried again.
#[derive(Debug, Default)]
pub(crate) struct Returns(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    units: VecDeque<Return>,
    slots: VecDeque<Return>,
    lost: VecDeque<Return>,
}

impl Returns {
    /// Tries it again after `pause`, if `error`, which was the answer at `now`, leaves a hope.
    pub(crate) fn failed(&self, mut one: Return, error: &StoreError, now: Timestamp, pause: Span) {
        if one.has_hope(error, now, pause) {
            self.add(one);
        }
    }

    pub(crate) fn add(&self, one: Return) {
        let mut kept = self.0.lock();
        if one.spent.is_none() {
            if kept.lost.len() < MOST_KEPT {
                kept.lost.push_back(one);
            }
            return;
        }
        let all = match one.until {
            Some(_) => &mut kept.slots,
            None => &mut kept.units,
        };
        if all.len() >= MOST_KEPT {
            all.pop_front();
        }
        all.push_back(one);
    }

    /// Those that are to be tried at `now`, so many at most.
    pub(crate) fn take_due(
        &self,
        now: Timestamp,
        mut most: usize,
    ) -> impl Iterator<Item = Return> + use<> {
        let mut kept = self.0.lock();
        let mut take = |all: &mut VecDeque<Return>| {
            let both = std::mem::take(all).into_iter();
            let (due, later): (VecDeque<_>, _) = both.partition(|one| {
                let is_due = most > 0 && one.is_due(now);
                most -= usize::from(is_due);
                is_due
            });
            *all = later;
            due
        };
        let (slots, units) = (take(&mut kept.slots), take(&mut kept.units));
        let lost = take(&mut kept.lost);
        slots.into_iter().chain(units).chain(lost)
    }

    pub(crate) fn count(&self) -> u64 {
        let kept = self.0.lock();
        (kept.slots.len() + kept.units.len() + kept.lost.len()) as u64
    }
}
