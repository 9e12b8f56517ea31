//! Requests that wait for their turn: a queue for each root, in the caller's process.
//!
//! A take with patience that is refused stands in the queue of its root, and its answer
//! comes later. Serving goes through the queue from its head. Whoever is refused keeps
//! back everyone behind it that needs a row which refused it; others (siblings under the
//! same root) may pass. A release serves the queue at once; else it is rung at the
//! earliest of the refusals' exact instants. A take without patience that meets the
//! queue does not overtake it.
//!
//! A refusal is remembered until its instant comes or one of its rows is changed: who
//! waits for other rows is not asked for again.

use std::collections::HashMap;
use std::future::Future;
use std::ops::Bound::{Excluded, Unbounded};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tidegate_store::core::{Amount, Span, Timestamp, Verdict};
use tidegate_store::race::Offered as Raced;
use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicUsize, Ordering};
use tidegate_store::{
    Answer, AtomicBucket, AtomicBuckets, Command, Decision, Ending, Execution, Granted, Item,
    KeyPath, Op, Out, OwnedCommand, OwnedKey, OwnedPath, Patience, Plan, Reply, Responder,
    StoreError, StoreFuture, Table, Timer, TimerHandler, Verb, Wake,
};

mod line;
#[cfg(all(test, not(shuttle)))]
mod tests;

use line::{Place, Queue, Refusal, Rows, SetAlarm, Standing, Waiter, idempotency, refusal};

use crate::hash::hash_of;

/// A lease that nobody was told of is taken back so often, if the limits change meanwhile.
const MOST_TAKEN_BACK: usize = 64;

/// Queues whose roots' hashes share their last bits share a lock.
const STRIPES: usize = if cfg!(shuttle) { 1 } else { 32 };

/// A table whose answers are always ready.
pub trait Immediate: Table {
    /// Takes back the atomic bucket of `key`, if it was handed out: its holders ask the table.
    fn recall(&self, key: &[u8]);

    /// The lease that a take with this idempotency key was given on `key`, if it is
    /// held at `now`: a retry is answered by it, whoever waits.
    fn find_repeated(&self, key: &KeyPath<'_>, ask: &[u8], now: Timestamp) -> Option<Granted>;

    /// The limits that the rows of `key` go by.
    fn plan_of(&self, key: &KeyPath<'_>) -> Arc<Plan>;
}

/// A table with a queue for each root before it.
#[derive(Debug)]
pub struct Queued<T: Immediate>(Arc<Shared<T>>);

struct Shared<T: Immediate> {
    table: T,
    /// While nobody waits, nobody looks at the queues.
    waiting: AtomicUsize,
    stripes: Box<[Stripe]>,
    hasher: RandomState,
    this: Weak<Self>,
}

/// Some of the queues, by root. A queue is there while somebody stands in it.
#[derive(Default)]
struct Stripe {
    waiting: AtomicUsize,
    queues: Mutex<Queues>,
}

type Queues = HashMap<OwnedKey, Queue, RandomState>;

/// To be dropped once no lock is held: declared before the guard.
type Wakes = SmallVec<[Wake; 4]>;

/// What an offer came to.
enum Offer {
    Over(Answer),
    Refused(Refusal),
    /// Another table is being asked for the same, alone until then.
    Busy(Duration),
    /// Another table has granted it.
    Elsewhere,
}

impl<T: Immediate> Queued<T> {
    /// `table`, with queues before it.
    #[must_use]
    pub fn new(table: T) -> Self {
        Self(Arc::new_cyclic(|this| Shared {
            table,
            waiting: AtomicUsize::new(0),
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            hasher: RandomState::default(),
            this: Weak::clone(this),
        }))
    }

    /// The table behind the queues.
    #[must_use]
    pub fn table(&self) -> &T {
        &self.0.table
    }

    /// Takes back the lease that `take` was granted and nobody was told of, whatever has
    /// become of the limits since. What fails is given back at its expiry.
    pub fn take_back(&self, take: &OwnedCommand, lease: u128, now: Timestamp) {
        self.0.take_back(take, lease, now);
    }
}

impl<T: Immediate> Clone for Queued<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Immediate> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl<T: Immediate> Table for Queued<T> {
    #[inline]
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let shared = &*self.0;
        if command.patience.is_some() || shared.waiting.load(Ordering::Relaxed) > 0 {
            return shared.execute(command, out);
        }
        let execution = shared.table.execute(command, out);
        // Whoever joined before this was executed was refused before it: it is served.
        if shared.waiting.load(Ordering::SeqCst) > 0 && gives_back(command) {
            shared.serve_after(command);
        }
        execution
    }

    fn atomic_buckets(&self) -> Option<&dyn AtomicBuckets> {
        self.0
            .table
            .atomic_buckets()
            .map(|_| self as &dyn AtomicBuckets)
    }
}

/// A key whose root has a queue is not shared: nobody overtakes.
impl<T: Immediate> AtomicBuckets for Queued<T> {
    fn pin(&self, plan: &Arc<Plan>, key: &[u8], now: Timestamp) -> Option<Arc<AtomicBucket>> {
        let buckets = self.0.table.atomic_buckets()?;
        if self.0.has_queue(key) {
            return None;
        }
        let bucket = buckets.pin(plan, key, now)?;
        if self.0.has_queue(key) {
            self.0.table.recall(key);
        }
        Some(bucket)
    }

    fn unpin(&self, key: &[u8], bucket: Arc<AtomicBucket>) {
        if let Some(buckets) = self.0.table.atomic_buckets() {
            buckets.unpin(key, bucket);
        }
    }
}

/// Whether anybody that waits may have its turn by this.
fn gives_back(command: &Command<'_>) -> bool {
    match &command.op {
        Op::One(_, verb) => verb.gives_back(),
        Op::Batch(items) => items.iter().any(|(_, verb)| verb.gives_back()),
        Op::Adopt => true,
        Op::ListKeys(_) | Op::ListLeases(_) | Op::ListUsage(..) | Op::Count => false,
    }
}

impl<T: Immediate> Shared<T> {
    fn stripe(&self, root: &[u8]) -> &Stripe {
        &self.stripes[hash_of(&self.hasher, root) as usize % self.stripes.len()]
    }

    fn has_queue(&self, root: &[u8]) -> bool {
        let stripe = self.stripe(root);
        stripe.waiting.load(Ordering::SeqCst) > 0
            && stripe.queues.lock().contains_key(&OwnedKey::new(root))
    }

    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        match command.op {
            Op::One(path, verb) => match (verb, command.patience) {
                (Verb::Take { lease: Some(_), .. }, Some(patience)) => {
                    self.take_in_turn(command, patience, out)
                }
                _ => out.ready(self.one(command, (path, verb))),
            },
            Op::Batch(items) => {
                let answers = items.iter().map(|item| self.one(command, *item));
                out.ready(Ok(Reply::Batch(answers.collect())))
            }
            Op::Adopt => {
                let execution = self.table.execute(command, out);
                self.adopted();
                execution
            }
            Op::ListKeys(_) | Op::ListLeases(_) | Op::ListUsage(..) | Op::Count => {
                self.table.execute(command, out)
            }
        }
    }

    /// One verb without patience.
    fn one(&self, command: &Command<'_>, (path, verb): Item<'_>) -> Answer {
        let one = command.about(Op::One(path, verb));
        if let Some(amounts) = verb.must_fit()
            && self.stripe(path.root()).waiting.load(Ordering::SeqCst) > 0
        {
            return self.take_behind(&one, path, &amounts);
        }
        let answer = self.ask(&one);
        if verb.gives_back() {
            self.serve(&path, command.now);
        }
        answer
    }

    fn ask(&self, command: &Command<'_>) -> Answer {
        let mut answer = Ok(Reply::Done);
        let execution = self.table.execute(command, Out::new(&mut answer));
        match execution.pending() {
            None => answer,
            Some(_) => Err(StoreError::Mismatch),
        }
    }

    /// A take that does not wait, and overtakes nobody who does.
    fn take_behind(&self, command: &Command<'_>, path: KeyPath<'_>, amounts: &[Amount]) -> Answer {
        if let Some(repeated) = self.repeated(command) {
            return Ok(repeated);
        }
        let mut wakes = Wakes::new();
        let mut queues = self.stripe(path.root()).queues.lock();
        let root = OwnedKey::new(path.root());
        self.serve_queue(&mut queues, &root, None, command.now, &mut wakes);
        match queues.get(&root).filter(|queue| queue.keeps_back(&path)) {
            None => self.ask(command),
            Some(queue) => self.not_yet(command, path, amounts, queue.next()),
        }
    }

    /// What one is told that waits, or does not overtake those who do: not yet. If only
    /// because others are first, then not before their next turn.
    fn not_yet(
        &self,
        command: &Command<'_>,
        path: KeyPath<'_>,
        amounts: &[Amount],
        turn: Option<Timestamp>,
    ) -> Answer {
        let peek = Op::One(path, Verb::Peek { amounts });
        let mut decision = self.ask(&command.about(peek))?.decision()?;
        if decision.verdict.admitted() {
            let soonest = command.now + Span::from_micros(1);
            decision.verdict = Verdict::NotUntil(turn.map_or(soonest, |turn| turn.max(soonest)));
        }
        Ok(Reply::Decision(decision))
    }

    fn take_in_turn(
        &self,
        command: &Command<'_>,
        patience: &Patience,
        mut out: Out<'_>,
    ) -> Execution {
        let Op::One(path, verb) = command.op else {
            return out.ready(Err(StoreError::Mismatch));
        };
        let take = command.about(command.op);
        let nobody = self.waiting.load(Ordering::SeqCst) == 0;
        if patience.race.is_none()
            && patience.hold.is_none()
            && (nobody || !self.has_queue(path.root()))
        {
            // Nothing is made for one that need not wait.
            let execution = self.table.execute(&take, out.lend());
            if refusal(out.answer(), command.plan, patience.deadline_of_rates()).is_none() {
                return execution;
            }
        }
        if let Some(repeated) = self.repeated(&take) {
            return out.ready(Ok(repeated));
        }
        if let Verb::Take { amounts, .. } = verb {
            // Also behind others, where the table is not asked to take.
            let answer = self.not_yet(&take, path, amounts, None);
            let is_hopeless = |decision: &Decision| {
                let deadline = patience.deadline_of_rates();
                decision.verdict == Verdict::Never
                    || deadline.is_some_and(|at| decision.is_too_late_for(command.plan, at))
            };
            if let Ok(Reply::Decision(decision)) = &answer
                && is_hopeless(decision)
            {
                return out.ready(answer);
            }
        }
        self.join(&take, path, patience)
    }

    /// The lease that a retry was given before, if it is held: it waits for nobody.
    fn repeated(&self, command: &Command<'_>) -> Option<Reply> {
        let (path, ask) = idempotency(command)?;
        let mut again = Decision::bare(Verdict::Admit, None);
        again.lease = Some(self.table.find_repeated(&path, ask, command.now)?);
        Some(Reply::Decision(again))
    }

    /// Stands in the queue, and is served if it is its turn.
    fn join(&self, take: &Command<'_>, path: KeyPath<'_>, patience: &Patience) -> Execution {
        let root = OwnedKey::new(path.root());
        let owned = OwnedCommand::of(take);
        let cancelled = (Weak::clone(&self.this), owned.clone());
        let (timer, retried) = (Arc::clone(&patience.timer), patience.retried);
        let (responder, answer) = tidegate_store::response_channel(move |reply| {
            let (this, take) = cancelled;
            let lease = reply.new_lease().filter(|_| !retried);
            if let (Some(shared), Some(lease)) = (this.upgrade(), lease) {
                shared.take_back(&take, lease, timer.now());
            }
        });
        let ahead = i64::try_from(patience.ahead.as_micros()).unwrap_or(i64::MAX);
        let came = patience.since.as_micros().saturating_sub(ahead);
        let waiter = Waiter {
            take: owned,
            path: OwnedPath::of(&path),
            turn: patience.turn,
            race: patience.race.clone(),
            hold: patience.hold.clone(),
            timer: Arc::clone(&patience.timer),
            responder: Some(responder),
            refusal: None,
            deadline: None,
            deadline_of_rates: patience.deadline_of_rates(),
        };
        let leave = Leave {
            shared: Weak::clone(&self.this),
            root: root.clone(),
            turn: patience.turn,
        };
        patience.seat.keep({
            let leave = leave.clone();
            move || leave.now()
        });
        let mut wakes = Wakes::new();
        let stripe = self.stripe(path.root());
        let mut queues = stripe.queues.lock();
        let queue = queues.entry(root.clone()).or_insert_with(|| {
            Queue::new(Arc::new(NextTurn {
                shared: Weak::clone(&self.this),
                root: root.clone(),
            }))
        });
        let place = queue.place_for(came, patience.turn);
        if queue.waiters.insert(place, waiter).is_none() {
            stripe.waiting.fetch_add(1, Ordering::SeqCst);
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        self.table.recall(path.root());
        self.serve_queue(&mut queues, &root, None, take.now, &mut wakes);
        self.set_deadline(&mut queues, &root, place, patience);
        drop(queues);
        drop(wakes);
        let leave = Some(leave);
        StoreFuture::new(InQueue { answer, leave }).into()
    }

    /// One that still waits gives up when its patience ends.
    fn set_deadline(
        &self,
        queues: &mut Queues,
        root: &OwnedKey,
        place: Place,
        patience: &Patience,
    ) {
        let waiter = queues
            .get_mut(root)
            .and_then(|queue| queue.waiters.get_mut(&place))
            .filter(|waiter| waiter.turn == patience.turn);
        let (Some(waiter), Some(longest)) = (waiter, patience.longest) else {
            return;
        };
        let rung: Arc<dyn TimerHandler> = Arc::new(GiveUp {
            shared: Weak::clone(&self.this),
            root: root.clone(),
            turn: patience.turn,
        });
        let at = patience.since + Span::from(longest);
        waiter.deadline = Some(SetAlarm::new(&patience.timer, at, rung));
    }

    /// Something of `path` was changed: gives everyone their turn whose turn it is.
    fn serve(&self, path: &KeyPath<'_>, now: Timestamp) {
        let stripe = self.stripe(path.root());
        if stripe.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut wakes = Wakes::new();
        let mut queues = stripe.queues.lock();
        let root = OwnedKey::new(path.root());
        self.serve_queue(&mut queues, &root, Some(path), now, &mut wakes);
    }

    #[cold]
    fn serve_after(&self, command: &Command<'_>) {
        match command.op {
            Op::One(path, _) => self.serve(&path, command.now),
            Op::Batch(items) => {
                let changed = items.iter().filter(|(_, verb)| verb.gives_back());
                changed.for_each(|(path, _)| self.serve(path, command.now));
            }
            Op::Adopt => self.adopted(),
            Op::ListKeys(_) | Op::ListLeases(_) | Op::ListUsage(..) | Op::Count => {}
        }
    }

    fn serve_queue(
        &self,
        queues: &mut Queues,
        root: &OwnedKey,
        changed: Option<&KeyPath<'_>>,
        now: Timestamp,
        wakes: &mut Wakes,
    ) {
        let Some(queue) = queues.get_mut(root) else {
            return;
        };
        let (mut blocked, mut next) = (Rows::default(), None);
        // What was granted under idempotency keys: their retries find it.
        let mut retries: SmallVec<[(OwnedKey, Box<[u8]>); 1]> = SmallVec::new();
        let (mut timer, caller) = (None, self.caller(root));
        let mut at = (i64::MIN, 0);
        loop {
            let mut behind = queue.waiters.range_mut((Excluded(at), Unbounded));
            let Some((&place, waiter)) = behind.next() else {
                break;
            };
            at = place;
            if blocked.holds(root.bytes()) {
                break;
            }
            if waiter.responder.as_ref().is_some_and(Responder::is_gone) {
                self.dismiss(queue, root, place);
                continue;
            }
            if let Some(until) = held_until(waiter, &queue.served_by, now, caller) {
                // It keeps nobody back: others may use what it may not. What changes
                // meanwhile, it has not seen.
                waiter.refusal = None;
                next = sooner(next, until);
                timer = Some(Arc::clone(&waiter.timer));
                continue;
            }
            if waiter.take.is_outdated(now) {
                wakes.extend(waiter.asks_again());
            }
            let refused = match waiter.standing(&blocked, changed, now) {
                Standing::KeptBack => continue,
                Standing::Refused(refusal) => refusal,
                Standing::Unknown => match self.offer(waiter, root, now) {
                    Offer::Refused(refusal) => refusal,
                    Offer::Busy(left) => {
                        // It keeps its place, and nobody back.
                        let again = now + Span::from(left) + Span::from_micros(1);
                        next = sooner(next, again);
                        timer = Some(Arc::clone(&waiter.timer));
                        continue;
                    }
                    Offer::Over(Err(StoreError::StalePlan)) => {
                        // Its limits have changed, and nobody has told it: its place is kept.
                        wakes.extend(waiter.asks_again());
                        Refusal::ABSENT
                    }
                    Offer::Over(answer) => {
                        let waiter = self.dismiss(queue, root, place);
                        if let Some(waiter) = waiter {
                            retries.extend(waiter.asked());
                            wakes.extend(waiter.told(answer));
                        }
                        continue;
                    }
                    // Whoever waits there has its answer: here it leaves.
                    Offer::Elsewhere => {
                        let waiter = self.dismiss(queue, root, place);
                        wakes.extend(waiter.map(|waiter| Wake::run(move || drop(waiter))));
                        continue;
                    }
                },
            };
            waiter.refusal = Some(refused);
            next = sooner(next, refused.until);
            timer = Some(Arc::clone(&waiter.timer));
            blocked.add(&waiter.path.lend(), refused.levels);
        }
        for (key, ask) in retries {
            self.answer_retries(queue, root, (&key, &ask), now, wakes);
        }
        self.ring_at(queue, next, timer);
        if queue.waiters.is_empty() {
            queues.remove(root);
        }
    }

    /// Retries of a request that was granted have its lease, wherever they stand.
    fn answer_retries(
        &self,
        queue: &mut Queue,
        root: &OwnedKey,
        (key, ask): (&OwnedKey, &[u8]),
        now: Timestamp,
        wakes: &mut Wakes,
    ) {
        let waiters = queue.waiters.iter();
        let same = |waiter: &Waiter| {
            let asked = waiter.asked();
            asked.is_some_and(|(its_key, its_ask)| its_key == *key && *its_ask == *ask)
        };
        let retries = waiters.filter(|(_, waiter)| same(waiter));
        let places: Vec<Place> = retries.map(|(place, _)| *place).collect();
        for place in places {
            let Some(waiter) = queue.waiters.get_mut(&place) else {
                continue;
            };
            if let Offer::Over(answer) = self.offer(waiter, root, now) {
                let waiter = self.dismiss(queue, root, place);
                wakes.extend(waiter.and_then(|waiter| waiter.told(answer)));
            }
        }
    }

    /// Asks the table for one that waits, unless another table is being asked for the
    /// same.
    fn offer(&self, waiter: &mut Waiter, root: &OwnedKey, now: Timestamp) -> Offer {
        waiter.take.shift(now);
        let take = &waiter.take;
        let Some(race) = &waiter.race else {
            return take
                .lend(|take| Offer::of(self.ask(take), take.plan, waiter.deadline_of_rates));
        };
        let offer = || {
            let answer = take.lend(|take| self.ask(take));
            // One that was given it before has it, too: no other table grants it another.
            let granted = matches!(&answer, Ok(reply) if reply.has_lease());
            (answer, granted)
        };
        let again = || self.again(root, &waiter.timer);
        match race.offer(offer, self.caller(root), again) {
            Raced::Made(answer) => {
                take.lend(|take| Offer::of(answer, take.plan, waiter.deadline_of_rates))
            }
            Raced::Busy(left) => Offer::Busy(left),
            Raced::Over => Offer::Elsewhere,
        }
    }

    /// What serves the queue of `root` again.
    fn again(&self, root: &OwnedKey, timer: &Arc<dyn Timer>) -> Box<dyn FnOnce() + Send> {
        let (this, root, timer) = (Weak::clone(&self.this), root.clone(), Arc::clone(timer));
        Box::new(move || {
            if let Some(shared) = this.upgrade() {
                shared.serve_root(&root, timer.now());
            }
        })
    }

    /// What a race or a hold knows the queue of `root` by.
    fn caller(&self, root: &OwnedKey) -> u64 {
        let here = std::ptr::from_ref(self).addr() as u64;
        here ^ hash_of(&self.hasher, root.bytes())
    }

    fn serve_root(&self, root: &OwnedKey, now: Timestamp) {
        let mut wakes = Wakes::new();
        let mut queues = self.stripe(root.bytes()).queues.lock();
        self.serve_queue(&mut queues, root, None, now, &mut wakes);
    }

    /// Sets the alarm for the earliest instant at which somebody's turn comes.
    fn ring_at(&self, queue: &mut Queue, next: Option<Timestamp>, timer: Option<Arc<dyn Timer>>) {
        let next = next.filter(|&at| at < Timestamp::MAX);
        if queue.alarm.as_ref().map(|set| set.alarm.at) == next {
            return;
        }
        let rung = &queue.served_by;
        queue.alarm = next
            .zip(timer)
            .map(|(at, timer)| SetAlarm::new(&timer, at, Arc::clone(rung)));
    }

    fn dismiss(&self, queue: &mut Queue, root: &OwnedKey, place: Place) -> Option<Waiter> {
        let waiter = queue.waiters.remove(&place)?;
        let stripe = self.stripe(root.bytes());
        stripe.waiting.fetch_sub(1, Ordering::SeqCst);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Some(waiter)
    }

    /// One leaves: nobody waits any more for its answer, or its patience has ended.
    fn leave(&self, root: &OwnedKey, turn: u128, is_late: bool, now: Option<Timestamp>) {
        let mut wakes = Wakes::new();
        let mut queues = self.stripe(root.bytes()).queues.lock();
        if let (true, Some(now)) = (is_late, now) {
            // A turn that comes at the very instant of the deadline still counts.
            self.serve_queue(&mut queues, root, None, now, &mut wakes);
        }
        let Some(queue) = queues.get_mut(root) else {
            return;
        };
        let Some(place) = queue.find(turn) else {
            return;
        };
        let turn = queue.next();
        let Some(mut waiter) = self.dismiss(queue, root, place) else {
            return;
        };
        let now = now.unwrap_or_else(|| waiter.timer.now());
        if is_late {
            waiter.take.shift(now);
            let held = held_until(&waiter, &queue.served_by, now, self.caller(root));
            let answer = waiter.take.lend(|take| match take.op {
                Op::One(path, Verb::Take { amounts, .. }) => {
                    self.not_yet(take, path, amounts, turn)
                }
                _ => Err(StoreError::Mismatch),
            });
            let answer = match (answer, held) {
                (Ok(Reply::Decision(decision)), Some(until)) => {
                    Ok(Reply::Decision(decision.not_before(until)))
                }
                (answer, _) => answer,
            };
            wakes.extend(waiter.told(answer));
        } else {
            wakes.push(Wake::run(move || drop(waiter)));
        }
        self.serve_queue(&mut queues, root, None, now, &mut wakes);
    }

    /// The limits have changed: whoever waits asks again by the newer ones, and keeps
    /// its place meanwhile.
    fn adopted(&self) {
        for stripe in &self.stripes {
            let mut wakes = Wakes::new();
            let mut queues = stripe.queues.lock();
            let waiters = queues.values_mut().flat_map(|q| q.waiters.values_mut());
            wakes.extend(waiters.filter_map(Waiter::asks_again));
            drop(queues);
        }
    }

    fn take_back(&self, take: &OwnedCommand, id: u128, now: Timestamp) {
        take.lend(|take| {
            let Op::One(path, _) = take.op else { return };
            let verb = Verb::End {
                id,
                ending: Ending::Cancel,
                remember: false,
            };
            let mut plan = Arc::clone(take.plan);
            for _ in 0..MOST_TAKEN_BACK {
                let end = Command {
                    plan: &plan,
                    now,
                    // They stand in the order of the take's limits. What is given back
                    // needs none: it goes where it was charged.
                    calendars: &[],
                    ..take.about(Op::One(path, verb))
                };
                if self.ask(&end) != Err(StoreError::StalePlan) {
                    break;
                }
                plan = self.table.plan_of(&path);
            }
            self.serve(&path, now);
        });
    }
}

impl Offer {
    fn of(answer: Answer, plan: &Plan, deadline_of_rates: Option<Timestamp>) -> Self {
        match refusal(&answer, plan, deadline_of_rates) {
            Some(refusal) => Self::Refused(refusal),
            None => Self::Over(answer),
        }
    }
}

/// Until when one is passed over that waits in a queue which this serves.
fn held_until(
    waiter: &Waiter,
    served_by: &Arc<dyn TimerHandler>,
    now: Timestamp,
    caller: u64,
) -> Option<Timestamp> {
    let again = || Arc::downgrade(served_by);
    waiter.hold.as_ref()?.until(now, caller, &again)
}

fn sooner(next: Option<Timestamp>, at: Timestamp) -> Option<Timestamp> {
    Some(next.map_or(at, |next| next.min(at)))
}

/// The earliest instant of a queue's refusals, or a change of what holds one in it.
struct NextTurn<T: Immediate> {
    shared: Weak<Shared<T>>,
    root: OwnedKey,
}

impl<T: Immediate> TimerHandler for NextTurn<T> {
    fn fire(self: Arc<Self>, now: Timestamp) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        // It has rung: the same instant may be set again.
        if let Some(queue) = shared
            .stripe(self.root.bytes())
            .queues
            .lock()
            .get_mut(&self.root)
        {
            queue.alarm = None;
        }
        shared.serve_root(&self.root, now);
    }
}

/// The end of somebody's patience.
struct GiveUp<T: Immediate> {
    shared: Weak<Shared<T>>,
    root: OwnedKey,
    turn: u128,
}

impl<T: Immediate> TimerHandler for GiveUp<T> {
    fn fire(self: Arc<Self>, now: Timestamp) {
        if let Some(shared) = self.shared.upgrade() {
            shared.leave(&self.root, self.turn, true, Some(now));
        }
    }
}

/// What gives a place back.
struct Leave<T: Immediate> {
    shared: Weak<Shared<T>>,
    root: OwnedKey,
    turn: u128,
}

impl<T: Immediate> Clone for Leave<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Weak::clone(&self.shared),
            root: self.root.clone(),
            turn: self.turn,
        }
    }
}

impl<T: Immediate> Leave<T> {
    fn now(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.leave(&self.root, self.turn, false, None);
        }
    }
}

/// The answer of one that waits. Dropped before it came, its place is given back, and a
/// lease that nobody was told of.
struct InQueue<T: Immediate> {
    answer: StoreFuture,
    leave: Option<Leave<T>>,
}

impl<T: Immediate> Future for InQueue<T> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let polled = Pin::new(&mut self.answer).poll(context);
        if polled.is_ready() {
            self.leave = None;
        }
        polled
    }
}

impl<T: Immediate> Drop for InQueue<T> {
    fn drop(&mut self) {
        if let Some(leave) = self.leave.take() {
            leave.now();
        }
    }
}
