//! Those who wait under one root, in order.
//!
//! Serving goes through the line from its head. Whoever is refused keeps
//! everyone behind who needs a row that refused; others (siblings under the
//! same root) may pass. The earliest of the refusals' exact instants is when
//! the line is rung next; a release serves it at once.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Weak};
use std::task::Waker;

use smallvec::SmallVec;
use tidegate_contract::sync::Mutex;
use tidegate_contract::sync::atomic::Ordering;
use tidegate_contract::{self as contract, KeyPath, OwnedKey};
use tidegate_core::{Timestamp, Verdict};

use super::waiter::{Answer, Waiter};
use crate::clock::timer::{Alarm, Ring};
use crate::decision::Decision;
use crate::error::Error;
use crate::set::Inner;

/// How much earlier a step of priority counts as having come.
pub(super) const PRIORITY_STEP: i64 = 1_000_000;

/// A place in line: when it counts as having come, then the order of coming.
type Place = (i64, u64);

/// The line of one root.
pub(crate) struct Line {
    pub(super) root: OwnedKey,
    set: Weak<Inner>,
    queue: Mutex<Queue>,
    this: Weak<Self>,
}

#[derive(Default)]
struct Queue {
    waiters: BTreeMap<Place, Arc<Waiter>>,
    last_number: u64,
    alarm: Option<Alarm>,
}

/// Who is to be woken, once no lock is held.
type Woken = SmallVec<[Waker; 4]>;

impl Line {
    pub(super) fn new(root: &[u8], set: Weak<Inner>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            root: OwnedKey::new(root),
            set,
            queue: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.lock().waiters.is_empty()
    }

    /// Adds `waiter` at its place. The caller counts it, and serves the line.
    pub(super) fn add(self: &Arc<Self>, waiter: &Arc<Waiter>) {
        let mut queue = self.queue.lock();
        let earlier = i64::from(waiter.priority) * PRIORITY_STEP;
        let came = waiter.since.as_micros().saturating_sub(earlier);
        // Counted from 1: serving begins behind the first place there could be.
        queue.last_number += 1;
        let place = (came, queue.last_number);
        queue.waiters.insert(place, Arc::clone(waiter));
        waiter.stand_in(self);
    }

    /// Gives everyone their turn whose turn it is.
    pub(super) fn serve(&self, now: Timestamp) {
        let Some(set) = self.set.upgrade() else {
            return;
        };
        let woken = self.serve_queue(&set, &mut self.queue.lock(), now);
        woken.into_iter().for_each(Waker::wake);
    }

    fn serve_queue(&self, set: &Arc<Inner>, queue: &mut Queue, now: Timestamp) -> Woken {
        let (mut woken, mut blocked, mut next) = (Woken::new(), Blocked::default(), None);
        let mut at = (i64::MIN, 0);
        loop {
            let mut behind = queue.waiters.range((Excluded(at), Unbounded));
            let Some((&place, waiter)) = behind.next() else {
                break;
            };
            at = place;
            if blocked.whole_line(&self.root) {
                break;
            }
            if blocked.keeps(set, waiter) {
                continue;
            }
            if let Some(until) = waiter.cooling(now) {
                // It keeps nobody back: others may use what its pool may not.
                next = sooner(next, until);
                continue;
            }
            let Some(answer) = waiter.unless_served(|| offer(set, waiter, now)) else {
                continue;
            };
            match refusal(&answer) {
                Some((instant, levels)) => {
                    blocked.add(set, waiter, levels);
                    next = sooner(next, instant);
                }
                None => {
                    let served = Arc::clone(waiter);
                    woken.extend(dismiss(set, queue, place, answer));
                    tell_retries(set, queue, &served, now, &mut woken);
                }
            }
        }
        self.ring_at(set, queue, next);
        woken
    }

    /// Sets the alarm for the earliest instant at which somebody's turn comes.
    fn ring_at(&self, set: &Inner, queue: &mut Queue, next: Option<Timestamp>) {
        let next = next.filter(|&at| at < Timestamp::MAX);
        if queue.alarm.map(|alarm| alarm.at) == next {
            return;
        }
        if let Some(alarm) = queue.alarm.take() {
            set.clock.timer().unset(alarm);
        }
        let this: Weak<dyn Ring> = self.this.clone();
        queue.alarm = next.map(|at| set.clock.timer().set(at, this));
    }

    /// The deadline of `waiter` has come: it is told that it was not its turn.
    pub(super) fn give_up(&self, waiter: &Arc<Waiter>) {
        let Some(set) = self.set.upgrade() else {
            return;
        };
        let now = set.clock.now();
        let mut queue = self.queue.lock();
        // A turn that comes at the very instant of the deadline still counts.
        let mut woken = self.serve_queue(&set, &mut queue, now);
        if let Some(place) = place_of(&queue, waiter) {
            let turn = queue.alarm.map(|alarm| alarm.at);
            let answer = super::not_yet(&set, waiter, turn);
            woken.extend(dismiss(&set, &mut queue, place, answer));
            woken.extend(self.serve_queue(&set, &mut queue, now));
        }
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
        set.lines.sweep(&self.root);
    }

    /// Everyone is told that there will be no turn.
    pub(super) fn stop(&self) {
        let Some(set) = self.set.upgrade() else {
            return;
        };
        let mut queue = self.queue.lock();
        let places: Vec<Place> = queue.waiters.keys().copied().collect();
        let told = places
            .into_iter()
            .map(|place| dismiss(&set, &mut queue, place, Err(Error::Stopped)));
        let woken: Vec<Waker> = told.flatten().collect();
        self.ring_at(&set, &mut queue, None);
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    /// `waiter` leaves without an answer; whoever it kept back may go.
    pub(super) fn leave(&self, waiter: &Arc<Waiter>) {
        let Some(set) = self.set.upgrade() else {
            return;
        };
        let mut queue = self.queue.lock();
        let Some(place) = place_of(&queue, waiter) else {
            return;
        };
        let answer = Err(Error::Stopped);
        dismiss(&set, &mut queue, place, answer);
        drop(waiter.take_answer());
        let woken = self.serve_queue(&set, &mut queue, set.clock.now());
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
        set.lines.sweep(&self.root);
    }
}

/// The earliest instant of the line's refusals has come.
impl Ring for Line {
    fn ring(self: Arc<Self>, now: Timestamp) {
        self.queue.lock().alarm = None;
        self.serve(now);
        if let Some(set) = self.set.upgrade() {
            set.lines.sweep(&self.root);
        }
    }
}

fn sooner(next: Option<Timestamp>, instant: Timestamp) -> Option<Timestamp> {
    Some(next.map_or(instant, |next| next.min(instant)))
}

/// Asks the store for `waiter`.
fn offer(set: &Arc<Inner>, waiter: &Waiter, now: Timestamp) -> Answer {
    set.with_view_at(waiter.key.bytes(), |view, path| {
        let amounts = waiter.amounts(view);
        let answer = set.take(view, path, &amounts, waiter.wanted(view), now)?;
        if answer.verdict == Verdict::Never {
            return Err(never_fits(view, &amounts, &answer));
        }
        Ok(Decision::new(answer, Arc::clone(view)))
    })
}

/// Retries of an ask that was served find its lease, wherever they stand.
fn tell_retries(
    set: &Arc<Inner>,
    queue: &mut Queue,
    served: &Waiter,
    now: Timestamp,
    woken: &mut Woken,
) {
    let Some(ask) = served.idempotency() else {
        return;
    };
    let is_retry = |waiter: &Waiter| waiter.key == served.key && waiter.idempotency() == Some(ask);
    let waiters = queue.waiters.iter();
    let retries: Vec<Place> = waiters
        .filter(|(_, waiter)| is_retry(waiter))
        .map(|(place, _)| *place)
        .collect();
    for place in retries {
        let retry = queue.waiters.get(&place);
        let answer = retry.and_then(|retry| retry.unless_served(|| offer(set, retry, now)));
        if let Some(answer) = answer.filter(|answer| refusal(answer).is_none()) {
            woken.extend(dismiss(set, queue, place, answer));
        }
    }
}

/// A limit was lowered below what somebody waits for.
pub(super) fn never_fits(
    view: &crate::set::View,
    amounts: &[u64],
    answer: &contract::Decision,
) -> Error {
    let position = answer.binding.unwrap_or(0);
    let limit = &view.plan.limits()[position];
    Error::NeverFits {
        limit: limit.name.to_string(),
        asked: amounts[position],
        capacity: limit.rule.capacity(),
    }
}

/// When to ask again, and at which levels an answer keeps its waiter in line.
fn refusal(answer: &Answer) -> Option<(Timestamp, u8)> {
    let decision = answer.as_ref().ok()?;
    let (instant, answer) = (decision.not_until()?, decision.answer());
    let sooner = answer.refund_at.unwrap_or(Timestamp::MAX);
    Some((instant.min(sooner), answer.refused_levels))
}

/// Takes the waiter at `place` out of line and tells it its answer.
fn dismiss(set: &Inner, queue: &mut Queue, place: Place, answer: Answer) -> Option<Waker> {
    let waiter = queue.waiters.remove(&place)?;
    if waiter.stays() {
        set.waiting.fetch_sub(1, Ordering::Relaxed);
    }
    let (waker, deadline) = waiter.tell(answer);
    if let Some(alarm) = deadline {
        set.clock.timer().unset(alarm);
    }
    waker
}

fn place_of(queue: &Queue, waiter: &Arc<Waiter>) -> Option<Place> {
    let mut places = queue.waiters.iter();
    places
        .find(|(_, w)| Arc::ptr_eq(w, waiter))
        .map(|(place, _)| *place)
}

/// The rows that somebody further ahead was refused at.
#[derive(Default)]
struct Blocked(SmallVec<[OwnedKey; 4]>);

impl Blocked {
    fn add(&mut self, set: &Inner, waiter: &Waiter, levels: u8) {
        let depth = set.view.load().plan.levels();
        let Ok(path) = KeyPath::new(waiter.key.bytes(), depth) else {
            return;
        };
        for level in (0..path.depth()).filter(|level| levels >> level & 1 == 1) {
            self.0.push(OwnedKey::new(path.prefix(level)));
        }
    }

    fn whole_line(&self, root: &OwnedKey) -> bool {
        self.0.contains(root)
    }

    fn keeps(&self, set: &Inner, waiter: &Waiter) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let depth = set.view.load().plan.levels();
        let Ok(path) = KeyPath::new(waiter.key.bytes(), depth) else {
            return false;
        };
        let mut rows = (0..path.depth()).map(|level| path.prefix(level));
        rows.any(|row| self.0.iter().any(|blocked| blocked.bytes() == row))
    }
}
