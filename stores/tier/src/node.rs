//! All keys of a table: what is asked for, what lands, what is given back.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use tidegate_store::core::{Bounds, Span, Timestamp};
use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tidegate_store::{
    Answer, Command, Detail, KeyPath, Op, Out, OwnedPath, Plan, Reply, StoreError, Table, Terms,
    Timer, TimerHandler, Verb, Wake,
};

use crate::counters::{Counters, TierStatistics, count};
use crate::grants::{Grant, Landed, Wish};
use crate::key::{Closing, Key, Waiter};
use crate::leases::is_in_doubt;
use crate::node_id;
use crate::outstanding::Outstanding;
use crate::returns::{MOST_AT_A_LOOK, Return, Returns};
use crate::settings::Tier;
use crate::strict;
use crate::task;
use crate::under_way::{Sent, UnderWay};

/// What is over, or in doubt, is looked after so often at least.
const LONGEST_PACE: Span = Span::SECOND;

/// In so many parts at most, and each part for so long at least.
const MOST_PARTS: usize = 16;
const SHORTEST_PART: Span = Span::from_millis(10);

/// The most keys of which something is held. Requests for others are the store's.
const MOST_KEYS: u64 = 65_536;

/// Locks of their own: more than there are threads that ask at once.
const SHARDS: usize = 64;

/// It stays in its shard while somebody else has it, too. Who has its lock takes no shard's.
pub(crate) type SharedKey = Arc<Mutex<Key>>;

type Shard = HashMap<Box<[u8]>, SharedKey, foldhash::fast::RandomState>;

/// See the [module](self).
pub(crate) struct Node {
    pub(crate) table: Arc<dyn Table>,
    pub(crate) tier: Tier,
    pub(crate) counters: Counters,
    pub(crate) timer: Arc<dyn Timer>,
    /// Two clocks measure a grant: the store's and this one.
    pub(crate) has_own_clock: bool,
    shards: Box<[Mutex<Shard>]>,
    hasher: foldhash::fast::RandomState,
    returns: Returns,
    pub(crate) newest: Mutex<Arc<Plan>>,
    /// Somebody looks after what is over.
    is_armed: AtomicBool,
    /// Something is over, or may come to be, since the last round began.
    is_wanted: AtomicBool,
    /// Which part of the keys is looked after next.
    next_part: AtomicUsize,
    /// Since when nothing more is held.
    closed: Mutex<Option<Timestamp>>,
    /// What the store has not answered yet.
    pub(crate) under_way: UnderWay,
    pub(crate) this: Weak<Self>,
}

/// A grant that is to be asked for.
pub(crate) struct Asking {
    pub(crate) path: OwnedPath,
    pub(crate) plan: Arc<Plan>,
    pub(crate) calendars: Box<[Option<Bounds>]>,
    pub(crate) wish: Wish,
    pub(crate) outstanding: Outstanding,
    /// It takes slots that this node gives out.
    pub(crate) has_slots: bool,
    /// For how long the store holds it, and for how long it is spent.
    pub(crate) lengths: (Span, Span),
    /// What is ended before that.
    pub(crate) ended: Closing,
}

impl Asking {
    /// Of `key`, of which what has ended is ended first.
    pub(crate) fn new(
        key: &mut Key,
        calendars: Box<[Option<Bounds>]>,
        wish: Wish,
        (now, hold): (Timestamp, Span),
    ) -> Self {
        let ended = key.grants.take_ended(now);
        Self {
            ended: key.close(ended),
            has_slots: key.takes_slots(&wish.amounts),
            lengths: key.lengths_for(&wish, hold),
            path: key.path.clone(),
            plan: Arc::clone(&key.plan),
            calendars,
            wish,
            outstanding: key.outstanding.clone(),
        }
    }
}

/// One that was.
struct Asked {
    path: OwnedPath,
    plan: Arc<Plan>,
    outstanding: Outstanding,
    id: u128,
    /// Before it was sent.
    at: Timestamp,
    has_slots: bool,
    /// From then on nothing of it is spent.
    end: Timestamp,
    /// Then the store's lease ends by itself.
    expires_at: Timestamp,
}

impl Asked {
    /// What ends it, should it have been granted.
    fn lost(&self, now: Timestamp) -> Return {
        let lost = Return::lost(&self.path, self.id);
        let lost = match self.has_slots {
            true => lost.of_slots_until(self.expires_at),
            false => lost,
        };
        // What comes too early to end it is told again: units do not come back by themselves.
        lost.in_doubt(now)
    }
}

impl Node {
    pub(crate) fn new(
        table: Arc<dyn Table>,
        tier: Tier,
        timer: Arc<dyn Timer>,
        has_own_clock: bool,
        plan: &Arc<Plan>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            table,
            tier,
            timer,
            has_own_clock,
            counters: Counters::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: foldhash::fast::RandomState::default(),
            returns: Returns::default(),
            newest: Mutex::new(Arc::clone(plan)),
            is_armed: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            next_part: AtomicUsize::new(0),
            closed: Mutex::new(None),
            under_way: UnderWay::default(),
            this: Weak::clone(this),
        })
    }

    /// The keys beside which `path` is kept.
    fn shard(&self, path: &KeyPath<'_>) -> &Mutex<Shard> {
        let hash = self.hasher.hash_one(path.bytes());
        &self.shards[hash as usize % SHARDS]
    }

    /// The key, if it is kept.
    pub(crate) fn kept(&self, path: &KeyPath<'_>) -> Option<SharedKey> {
        self.shard(path).lock().get(path.bytes()).map(Arc::clone)
    }

    /// The key, kept from here on; `None` where there is no room for another.
    pub(crate) fn key(&self, path: &KeyPath<'_>, plan: &Arc<Plan>) -> Option<SharedKey> {
        let mut shard = self.shard(path).lock();
        if let Some(key) = shard.get(path.bytes()) {
            return Some(Arc::clone(key));
        }
        if self.counters.keys.load(Ordering::Relaxed) >= MOST_KEYS {
            return None;
        }
        count(&self.counters.keys);
        let key = Arc::new(Mutex::new(Key::new(path, plan, &self.tier)));
        shard.insert(path.bytes().into(), Arc::clone(&key));
        drop(shard);
        self.arm();
        Some(key)
    }

    /// See [`Tier::low_water`].
    #[inline]
    pub(crate) const fn low_water(&self) -> u8 {
        self.tier.low_water_hundredths()
    }

    /// The limits are these from here on.
    pub(crate) fn note(&self, plan: &Arc<Plan>) {
        let mut newest = self.newest.lock();
        if plan.version() > newest.version() {
            *newest = Arc::clone(plan);
        }
    }

    /// Asks for a grant. Where the store answers at once, whatever follows is done, too.
    pub(crate) fn ask(&self, mut asking: Asking) {
        let Some(this) = self.this.upgrade() else {
            return;
        };
        self.arm();
        loop {
            self.end_all(&asking.path.lend(), std::mem::take(&mut asking.ended));
            let now = self.timer.now();
            let asked = Asked {
                path: asking.path,
                plan: asking.plan,
                outstanding: asking.outstanding,
                id: node_id::fresh(asking.has_slots),
                at: now,
                has_slots: asking.has_slots,
                end: now + asking.lengths.1,
                expires_at: now + asking.lengths.0,
            };
            count(&self.counters.asked);
            let terms = Terms {
                id: asked.id,
                expires_at: asked.expires_at,
                idempotency: None,
                least: Some(&asking.wish.least),
            };
            let verb = Verb::Take {
                amounts: &asking.wish.amounts,
                lease: Some(terms),
                detail: Detail::Always,
            };
            let command = Command {
                plan: &asked.plan,
                now,
                calendars: &asking.calendars,
                op: Op::One(asked.path.lend(), verb),
                patience: None,
            };
            let mut answer = Ok(Reply::Done);
            let execution = self.table.execute(&command, Out::new(&mut answer));
            let Some(later) = execution.pending() else {
                match self.land(asked, answer, self.was_sent_at_once()) {
                    Some(next) => asking = next,
                    None => return,
                }
                continue;
            };
            let landing = Landing {
                asked: Some(asked),
                _sent: this.under_way.begin(),
                node: this,
            };
            return task::run(&self.timer, async move { landing.land(later.await) });
        }
    }

    /// Whether a command was sent whose answer is ready at once: where the store is beyond a
    /// network, that is how its [`Table`] says that it was not.
    pub(crate) const fn was_sent_at_once(&self) -> bool {
        !self.has_own_clock
    }

    /// An answer has come. Answers the next grant to ask for, if requests wait for one.
    fn land(&self, asked: Asked, answer: Answer, was_sent: bool) -> Option<Asking> {
        let (now, mut wakes) = (self.timer.now(), Vec::new());
        let Some(shared) = self.kept(&asked.path.lend()) else {
            self.end(asked.lost(now));
            return None;
        };
        let mut key = shared.lock();
        let (landed, error) = self.landed(&asked, answer);
        let mut closing = Closing::default();
        let is_granted = matches!(&landed, Landed::Granted(_));
        let is_of_others = !matches!(&landed, Landed::Failed) && !key.is_alike(&asked.plan);
        let landed = match landed {
            Landed::Granted(grant) if is_of_others => {
                closing.extend(key.close([*grant]));
                Landed::Failed
            }
            // It refuses nobody by the limits that there are now.
            _ if is_of_others => Landed::Failed,
            landed => landed,
        };
        let is_full = matches!(&landed, Landed::Full);
        let is_scarce = asked.has_slots
            && match &landed {
                Landed::Granted(grant) => key.has_fewer_slots(grant),
                Landed::Refused(_) | Landed::Full => true,
                Landed::Failed => false,
            };
        let id = asked.id;
        let back = key.grants.land(landed, now, self.tier.idle_span());
        let is_late = !is_of_others && back.iter().any(|grant| grant.id == id);
        closing.extend(key.close(back));
        if is_late {
            count(&self.counters.late);
        }
        match &error {
            Some(error) => key.fail(error, &mut wakes),
            None => {
                let of = (is_granted, is_late);
                key.serve(now, of, &self.counters, &mut wakes);
            }
        }
        if is_scarce {
            key.strict_until = now + self.tier.idle_span();
        }
        // Others are to have what comes back: this node's requests wait among them.
        let is_for_others = is_scarce || (asked.has_slots && !key.queued.is_none());
        if is_for_others {
            let slots = key.grants.take_slots();
            closing.extend(key.close(slots));
        }
        if is_for_others || is_full {
            let leases = key.take_those_for_leases().into_iter();
            wakes.extend(leases.map(Waiter::goes_to_the_store));
        }
        let strict = match is_full {
            true => std::mem::take(&mut key.waiters),
            false => VecDeque::new(),
        };
        if self.is_closed() {
            let all = key.grants.take_all();
            closing.extend(key.close(all));
        }
        let next = next_for(&mut key, (now, self.tier.hold_span()), &mut wakes);
        drop(key);
        self.close_up(&shared, closing);
        self.decide_strictly(&asked.path, strict, &mut wakes);
        if error.is_some_and(|error| is_in_doubt(&error, was_sent)) {
            // It may have been granted all the same.
            let lost = asked.lost(now);
            match self.kept_for_later(|| self.returns.add(lost.clone())) {
                None => self.arm(),
                Some(_) => self.end(lost),
            }
        }
        drop(wakes);
        next
    }

    /// What an answer is for the key's grants, and for those who wait.
    fn landed(&self, asked: &Asked, answer: Answer) -> (Landed, Option<StoreError>) {
        match answer {
            Ok(Reply::Partial(mut partial)) => {
                count(&self.counters.granted);
                let since = (asked.at, self.has_own_clock);
                let taken = partial.amounts.clone();
                asked.outstanding.bound(&mut partial);
                let mut grant = Grant::new(asked.id, &asked.plan, *partial, since);
                grant.taken = taken;
                grant.is_scarce = !asked.outstanding.is_none();
                if asked.has_slots {
                    grant = grant.of_slots(asked.end);
                }
                (Landed::Granted(Box::new(grant)), None)
            }
            Ok(Reply::Decision(refusal)) if asked.outstanding.is_full(&refusal) => {
                (Landed::Full, None)
            }
            Ok(Reply::Decision(decision)) if !decision.verdict.admitted() => {
                (Landed::Refused(Box::new(decision)), None)
            }
            Ok(_) => (Landed::Failed, Some(StoreError::Mismatch)),
            Err(error) => (Landed::Failed, Some(error)),
        }
    }

    /// Has the store decide those who waited.
    fn decide_strictly(
        &self,
        path: &OwnedPath,
        waiters: impl IntoIterator<Item = Waiter>,
        wakes: &mut Vec<Wake>,
    ) {
        let with = (&self.timer, &self.under_way);
        for waiter in waiters {
            wakes.extend(strict::decide(&*self.table, with, path, waiter));
        }
    }

    /// Tells the store of grants that were closed. Where it cannot answer, again later.
    pub(crate) fn close_up(&self, shared: &SharedKey, closing: Closing) {
        if self.end_those(closing) {
            self.settle_up(shared);
        }
    }

    /// The same of the key of this path.
    fn end_all(&self, path: &KeyPath<'_>, closing: Closing) {
        if self.end_those(closing)
            && let Some(shared) = self.kept(path)
        {
            self.settle_up(&shared);
        }
    }

    /// Whether leases that were given may be held still.
    pub(crate) fn end_those(&self, closing: Closing) -> bool {
        let returned = &self.counters.returned;
        returned.fetch_add(closing.returned, Ordering::Relaxed);
        closing.ends.into_iter().for_each(|one| self.end(one));
        closing.has_slots
    }

    pub(crate) fn end(&self, one: Return) {
        let Some(this) = self.this.upgrade() else {
            return;
        };
        let mut next = Some(one);
        while let Some(one) = next {
            let plan = Arc::clone(&self.newest.lock());
            let (mut answer, calendars) = (Ok(Reply::Done), one.calendars(&plan));
            let execution = one.lend(&plan, |verb| {
                let command = Command {
                    plan: &plan,
                    now: self.timer.now(),
                    calendars: &calendars,
                    op: Op::One(one.path.lend(), verb),
                    patience: None,
                };
                self.table.execute(&command, Out::new(&mut answer))
            });
            next = match execution.pending() {
                None => this.ended(one, &answer),
                Some(later) => {
                    let (sent, this) = (this.under_way.begin(), Arc::clone(&this));
                    task::run(&self.timer, async move {
                        if let Some(one) = this.ended(one, &later.await) {
                            this.end(one);
                        }
                        drop(sent);
                    });
                    None
                }
            };
        }
    }

    /// What is to be ended again at once, if anything: of a node that is closed what the store had no
    /// room for, for nobody looks after it later.
    fn ended(&self, one: Return, answer: &Answer) -> Option<Return> {
        let Err(error) = answer else { return None };
        let (now, pace) = (self.timer.now(), self.pace());
        let later = || self.returns.failed(one.clone(), error, now, pace);
        match self.kept_for_later(later) {
            None => {
                self.arm();
                None
            }
            Some(closed) => one.again_at_once(error, (closed, now)),
        }
    }

    /// Keeps what is to be tried later, unless the node is closed, and since when it is: what is kept
    /// before that it tries itself.
    fn kept_for_later(&self, keep: impl FnOnce()) -> Option<Timestamp> {
        let closed = self.closed.lock();
        if closed.is_none() {
            keep();
        }
        *closed
    }

    /// Sees to it that somebody looks after what is over.
    pub(crate) fn arm(&self) {
        self.is_wanted.store(true, Ordering::SeqCst);
        if !self.is_armed.swap(true, Ordering::SeqCst) {
            self.set_timer();
        }
    }

    fn set_timer(&self) {
        let (round, parts) = self.round();
        let this: Weak<dyn TimerHandler> = Weak::<Self>::clone(&self.this);
        let part = Span::from_micros(round.as_micros() / parts as u64);
        self.timer.set(self.timer.now() + part, this);
    }

    /// In how long every key is looked after once, and in how many parts: what lies idle is not
    /// given back all at once, or requests would wait at the store behind it.
    fn round(&self) -> (Span, usize) {
        let round = self.pace().min(LONGEST_PACE);
        let parts = round.as_micros() / SHORTEST_PART.as_micros();
        (round, (parts as usize).clamp(1, MOST_PARTS))
    }

    /// So often what is over is given back, and what the store did not take back is tried again.
    fn pace(&self) -> Span {
        let shorter = self.tier.idle_span().min(self.tier.hold_span());
        Span::from_micros(shorter.as_micros() / 2)
    }

    /// Gives back what of these keys is over or lies idle, and forgets those of which nothing is
    /// left and that nobody has pinned. Whether there is anything left to look after.
    fn sweep(&self, shards: &[Mutex<Shard>], now: Timestamp) -> bool {
        let mut is_needed = false;
        for shard in shards {
            let (mut over, mut lending) = (Closing::default(), Vec::new());
            shard.lock().retain(|_, shared| {
                let mut key = shared.lock();
                key.expire(now);
                key.leases.try_again(now);
                let grants = key.grants.take_over(now, self.tier.idle_span());
                over.extend(key.close(grants));
                if !key.leases.is_empty() {
                    lending.push(Arc::clone(shared));
                }
                is_needed |= key.is_needed(now);
                let stays = key.is_needed(now) || Arc::strong_count(shared) > 1;
                if !stays {
                    key.count_spent(&self.counters);
                    self.counters.keys.fetch_sub(1, Ordering::Relaxed);
                }
                stays
            });
            self.end_those(over);
            lending.iter().for_each(|key| self.settle_up(key));
        }
        is_needed
    }

    /// What was counted, and is held.
    pub(crate) fn statistics(&self) -> TierStatistics {
        for shard in &self.shards {
            for key in shard.lock().values() {
                key.lock().count_spent(&self.counters);
            }
        }
        TierStatistics {
            returning: self.under_way.count() + self.returns.count(),
            ..self.counters.read()
        }
    }

    /// Gives back all that is held now.
    pub(crate) fn give_all_back(&self) {
        for shard in &self.shards {
            let mut all = Vec::new();
            for shared in shard.lock().values() {
                let mut key = shared.lock();
                let grants = key.grants.take_all();
                all.push((Arc::clone(shared), key.close(grants)));
            }
            for (shared, closing) in all {
                self.close_up(&shared, closing);
            }
        }
    }

    /// Ends when the store has answered all that it was sent.
    pub(crate) fn answered(&self) -> impl Future<Output = ()> + Send + use<> {
        self.under_way.none()
    }

    fn is_closed(&self) -> bool {
        self.closed.lock().is_some()
    }

    /// Gives all back, and what comes from here on.
    pub(crate) fn close(&self) {
        let now = self.timer.now();
        self.closed.lock().get_or_insert(now);
        self.give_all_back();
        // What the store did not answer to is tried once more.
        for one in self.returns.take_due(Timestamp::MAX, usize::MAX) {
            self.end(one);
        }
    }
}

impl TimerHandler for Node {
    /// Looks after the next part of the keys, and after what is to be given back with the first.
    fn fire(self: Arc<Self>, now: Timestamp) {
        let (_, parts) = self.round();
        let part = self.next_part.load(Ordering::Relaxed);
        if part == 0 {
            self.is_wanted.store(false, Ordering::SeqCst);
            for one in self.returns.take_due(now, MOST_AT_A_LOOK) {
                self.end(one);
            }
        }
        let size = SHARDS.div_ceil(parts);
        let shards = self.shards.chunks(size).nth(part);
        if self.sweep(shards.unwrap_or_default(), now) {
            self.is_wanted.store(true, Ordering::SeqCst);
        }
        let next = (part + 1) % parts;
        self.next_part.store(next, Ordering::Relaxed);
        let goes_on = next > 0 || self.returns.count() > 0;
        if goes_on || self.is_wanted.load(Ordering::SeqCst) {
            return self.set_timer();
        }
        self.is_armed.store(false, Ordering::SeqCst);
        // What was wanted meanwhile found it armed.
        if self.is_wanted.load(Ordering::SeqCst) {
            self.arm();
        }
    }
}

/// The grant that the first who waits needs, unless one is on its way. One whose calendar's
/// boundaries are over makes its request again.
fn next_for(
    key: &mut Key,
    (now, hold): (Timestamp, Span),
    wakes: &mut Vec<Wake>,
) -> Option<Asking> {
    if key.grants.is_asking() {
        return None;
    }
    let is_over = |calendars: &[Option<Bounds>]| {
        let mut ends = calendars.iter().flatten();
        ends.any(|bounds| bounds.next_end <= now)
    };
    while key
        .waiters
        .front()
        .is_some_and(|first| is_over(&first.calendars))
    {
        let first = key.waiters.pop_front()?;
        wakes.push(first.responder.answer(Err(StoreError::StalePlan)));
    }
    let first = key.waiters.front()?;
    let (amounts, calendars) = (first.amounts.clone(), first.calendars.clone());
    let wish = key.ask(&amounts)?;
    Some(Asking::new(key, calendars, wish, (now, hold)))
}

/// Sees to it that what was asked for lands, whatever becomes of the answer.
struct Landing {
    node: Arc<Node>,
    asked: Option<Asked>,
    _sent: Sent,
}

impl Landing {
    fn land(mut self, answer: Answer) {
        self.go_on(answer);
    }

    fn go_on(&mut self, answer: Answer) {
        let next = self
            .asked
            .take()
            .and_then(|asked| self.node.land(asked, answer, true));
        if let Some(next) = next {
            self.node.ask(next);
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.go_on(Err(StoreError::Unavailable(
            "the store is closed".to_owned(),
        )));
    }
}
