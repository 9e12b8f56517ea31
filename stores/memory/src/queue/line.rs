//! The queue of one root: who stands in it, and whom a refusal keeps back.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;
use tidegate_store::core::{Timestamp, Verdict};
use tidegate_store::{
    Alarm, Answer, Command, Hold, KeyPath, Op, OwnedCommand, OwnedKey, OwnedPath, Plan, Race,
    Reply, Responder, StoreError, Timer, TimerHandler, Wake,
};

#[cfg(test)]
thread_local! {
    /// How often this thread has compared one that waits with a row or a turn.
    pub(super) static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counted in tests, so that one says how much work a queue is.
#[inline]
fn compared() {
    #[cfg(test)]
    COMPARED.set(COMPARED.get() + 1);
}

/// When a request counts as having come, then the order of coming.
pub(super) type Place = (i64, u64);

pub(super) struct Queue {
    pub(super) waiters: BTreeMap<Place, Waiter>,
    pub(super) last_number: u64,
    pub(super) alarm: Option<SetAlarm>,
    /// Serves it, for as long as it is there.
    pub(super) served_by: Arc<dyn TimerHandler>,
}

impl Queue {
    /// An empty one, which this serves.
    pub(super) fn new(served_by: Arc<dyn TimerHandler>) -> Self {
        Self {
            waiters: BTreeMap::new(),
            last_number: 0,
            alarm: None,
            served_by,
        }
    }

    /// Where one stands that came at `came`: where it stood before, if it did.
    pub(super) fn place_for(&mut self, came: i64, turn: u128) -> Place {
        if let Some(place) = self.find(turn) {
            return place;
        }
        // Counted from 1: serving begins behind the first place there could be.
        self.last_number += 1;
        (came, self.last_number)
    }

    pub(super) fn find(&self, turn: u128) -> Option<Place> {
        let mut waiters = self.waiters.iter();
        let found = waiters.find(|(_, waiter)| {
            compared();
            waiter.turn == turn
        });
        found.map(|(place, _)| *place)
    }

    /// When somebody's turn comes next, as far as is known.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.alarm.as_ref().map(|set| set.alarm.at)
    }

    /// Whether somebody waits for a row that `path` needs.
    pub(super) fn keeps_back(&self, path: &KeyPath<'_>) -> bool {
        let mut waiters = self.waiters.values();
        waiters.any(|waiter| match (waiter.refusal, &waiter.responder) {
            (Some(refusal), _) => refusal.meets(&waiter.path.lend(), path),
            (None, None) => Refusal::ABSENT.meets(&waiter.path.lend(), path),
            // It is kept back itself, by somebody else.
            (None, Some(_)) => false,
        })
    }
}

/// One that waits, or whose place is kept for it.
pub(super) struct Waiter {
    /// The take, as one without patience.
    pub(super) take: OwnedCommand,
    pub(super) path: OwnedPath,
    pub(super) turn: u128,
    pub(super) race: Option<Arc<Race>>,
    pub(super) hold: Option<Arc<dyn Hold>>,
    pub(super) timer: Arc<dyn Timer>,
    /// `None` once it was told to ask again: its limits have changed, or its calendars'
    /// windows are over.
    pub(super) responder: Option<Responder>,
    pub(super) refusal: Option<Refusal>,
    pub(super) deadline: Option<SetAlarm>,
    /// When its rates have to admit it, if it hopes for no refunds.
    pub(super) deadline_of_rates: Option<Timestamp>,
}

impl Waiter {
    /// Whom it waits for, as far as that is known without asking.
    pub(super) fn standing(
        &self,
        blocked: &Rows,
        changed: Option<&KeyPath<'_>>,
        now: Timestamp,
    ) -> Standing {
        let path = self.path.lend();
        if blocked.meet(&path) {
            return Standing::KeptBack;
        }
        // Its place is kept for it: whoever is behind waits for it.
        if self.responder.is_none() {
            return Standing::Refused(Refusal::ABSENT);
        }
        let holds = |refusal: &Refusal| {
            refusal.until > now && !changed.is_some_and(|row| refusal.meets(&path, row))
        };
        match self.refusal.filter(holds) {
            Some(refusal) => Standing::Refused(refusal),
            None => Standing::Unknown,
        }
    }

    /// Its key, and what it is asked again by.
    pub(super) fn asked(&self) -> Option<(OwnedKey, Box<[u8]>)> {
        self.take.lend(|take| {
            let (path, ask) = idempotency(take)?;
            Some((OwnedKey::new(path.bytes()), ask.into()))
        })
    }

    /// Tells it to ask again, if it is there; its place is kept meanwhile.
    pub(super) fn asks_again(&mut self) -> Option<Wake> {
        let responder = self.responder.take()?;
        Some(responder.answer(Err(StoreError::StalePlan)))
    }

    /// Tells it its answer, if it is there.
    pub(super) fn told(self, answer: Answer) -> Option<Wake> {
        self.responder.map(|responder| responder.answer(answer))
    }
}

/// What is known of one that waits.
pub(super) enum Standing {
    /// Somebody before it needs a row of its, and was refused it.
    KeptBack,
    /// It was refused, and keeps back whoever needs the same rows.
    Refused(Refusal),
    /// The table is to be asked.
    Unknown,
}

/// What it was told last: not before an instant, by the rows of these levels.
#[derive(Clone, Copy)]
pub(super) struct Refusal {
    pub(super) until: Timestamp,
    pub(super) levels: u8,
}

impl Refusal {
    /// Of one that is away: nothing is known of it.
    pub(super) const ABSENT: Self = Self {
        until: Timestamp::MAX,
        levels: u8::MAX,
    };

    /// Whether one of the rows of `changed` has refused the path `own`.
    pub(super) fn meets(&self, own: &KeyPath<'_>, changed: &KeyPath<'_>) -> bool {
        let depth = own.depth().min(changed.depth());
        let refused = |level: &usize| self.levels >> level & 1 == 1;
        let mut levels = (0..depth).filter(refused);
        levels.any(|level| {
            compared();
            own.row(level) == changed.row(level)
        })
    }
}

/// When to ask again, and the levels at which it was refused. `None` for an answer that
/// ends the wait: also for a refusal by a rate of `plan` that lasts beyond the deadline.
pub(super) fn refusal(
    answer: &Answer,
    plan: &Plan,
    deadline_of_rates: Option<Timestamp>,
) -> Option<Refusal> {
    let Ok(Reply::Decision(decision)) = answer else {
        return None;
    };
    let Verdict::NotUntil(at) = decision.verdict else {
        return None;
    };
    if deadline_of_rates.is_some_and(|deadline| decision.is_too_late_for(plan, deadline)) {
        return None;
    }
    Some(Refusal {
        until: decision.refund_at.map_or(at, |refund| refund.min(at)),
        levels: decision.refused_levels,
    })
}

/// Rows at which somebody further ahead was refused.
#[derive(Default)]
pub(super) struct Rows(pub(super) HashSet<OwnedKey, RandomState>);

impl Rows {
    pub(super) fn add(&mut self, path: &KeyPath<'_>, levels: u8) {
        let refused = (0..path.depth()).filter(|level| levels >> level & 1 == 1);
        let rows = refused.map(|level| OwnedKey::new(&path.row(level)));
        self.0.extend(rows);
    }

    pub(super) fn holds(&self, row: &[u8]) -> bool {
        compared();
        !self.0.is_empty() && self.0.contains(&OwnedKey::new(row))
    }

    pub(super) fn meet(&self, path: &KeyPath<'_>) -> bool {
        path.rows().any(|key| self.holds(&key))
    }
}

/// An alarm, and what is rung.
pub(super) struct SetAlarm {
    pub(super) alarm: Alarm,
    pub(super) timer: Arc<dyn Timer>,
    pub(super) _rung: Arc<dyn TimerHandler>,
}

impl Drop for SetAlarm {
    fn drop(&mut self) {
        self.timer.unset(self.alarm);
    }
}

impl SetAlarm {
    pub(super) fn new(timer: &Arc<dyn Timer>, at: Timestamp, rung: Arc<dyn TimerHandler>) -> Self {
        Self {
            alarm: timer.set(at, Arc::downgrade(&rung)),
            timer: Arc::clone(timer),
            _rung: rung,
        }
    }
}

/// The key of a take, and what it is asked again by.
pub(super) fn idempotency<'c>(command: &Command<'c>) -> Option<(KeyPath<'c>, &'c [u8])> {
    match command.op {
        Op::One(path, verb) => Some((path, verb.terms()?.idempotency?)),
        _ => None,
    }
}
