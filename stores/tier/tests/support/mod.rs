//! Nodes on one store: each with a clock of its own, and a wire that can hold answers up,
//! lose them and count trips.
#![allow(dead_code, reason = "each test uses its part")]

pub mod leased;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tidegate_memory::{Bounds, MemoryStore};
use tidegate_store::core::{
    Align, Amount, Bounds as CalendarBounds, Bucket, Log, Payment, Ring, Rule, Slots, Span,
    Timestamp, Window,
};
use tidegate_store::optimistic::{by_the_callers_clock, moved};
use tidegate_store::{
    Alarm, Answer, Command, Decision, Detail, Ending, Execution, Granted, HeldLease, KeyPath,
    Listing, Op, Out, OwnedCommand, Patience, Plan, PlanLimit, Reply, Responder, Seat, Select,
    Store, StoreError, StoreFuture, Table, Terms, Timer, TimerHandler, Verb, response_channel,
};
use tidegate_tier::{Tier, TierTable};

pub const SECOND: u64 = 1_000_000;
pub const START: i64 = 1_700_000_000_000_000;

pub const fn span(micros: u64) -> Span {
    Span::from_micros(micros)
}

/// `capacity` in each `micros` since the epoch.
pub fn window(capacity: Amount, micros: u64) -> Rule {
    Rule::Window(Window::new(capacity, Align::Epoch(span(micros))).expect("a window"))
}

/// `amount` a second, `burst` at once.
pub fn bucket(amount: Amount, burst: Amount) -> Rule {
    Rule::Bucket(Bucket::new(amount, Span::SECOND, burst).expect("a bucket"))
}

pub fn ring(capacity: Amount, micros: u64) -> Rule {
    Rule::Ring(Ring::new(capacity, span(micros), 10).expect("a ring"))
}

pub fn slots(capacity: Amount) -> Rule {
    Rule::Slots(Slots::new(capacity, Span::from_secs(60)).expect("slots"))
}

pub fn log(capacity: Amount, micros: u64) -> Rule {
    Rule::Log(Log::new(capacity, span(micros), 1_000).expect("a log"))
}

pub fn plan(version: u64, levels: usize, rules: &[(usize, Rule)]) -> Arc<Plan> {
    let limit = |(uid, &(level, rule)): (usize, &(usize, Rule))| PlanLimit {
        name: format!("limit {uid}").into(),
        uid: uid as u32,
        rule,
        level,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    };
    let limits = rules.iter().enumerate().map(limit).collect();
    Arc::new(Plan::new(version, levels, limits, Span::from_secs(3_600)))
}

/// The same in `tier`, as the library makes it: with slots beside limits of which no more than
/// so much may be out, and what the store decides by where it is to be exact.
pub fn plan_in(tier: &Tier, version: u64, levels: usize, rules: &[(usize, Rule)]) -> Arc<Plan> {
    let plain = plan(version, levels, rules);
    let mut limits = plain.limits().to_vec();
    for limit in plain.limits() {
        let slots = tier.slots_beside(&limit.name);
        let slots = slots.filter(|_| !limit.rule.is_held());
        limits.extend(slots.map(|(name, units)| PlanLimit {
            name: name.into(),
            uid: limit.uid + 1_000,
            rule: Rule::Slots(Slots::new(units, Span::from_secs(60)).expect("slots")),
            ..limit.clone()
        }));
    }
    for limit in &mut limits {
        let rule = tier.store_rule(&limit.name, limit.rule);
        limit.rule = rule.expect("a rule that is exact");
    }
    Arc::new(Plan::new(version, levels, limits, plain.keep()))
}

/// A clock that stands still until it is moved, and may be set apart from the store's.
#[derive(Debug)]
pub struct NodeClock {
    now: AtomicI64,
    number: AtomicU64,
    alarms: Mutex<BTreeMap<Alarm, Weak<dyn TimerHandler>>>,
}

impl NodeClock {
    pub fn at(micros: i64) -> Arc<Self> {
        Arc::new(Self {
            now: AtomicI64::new(micros),
            number: AtomicU64::new(0),
            alarms: Mutex::default(),
        })
    }

    /// Moves it to there, and fires what is due on the way.
    pub fn pass(&self, micros: u64) {
        let target = self.now() + span(micros);
        loop {
            let due = {
                let mut alarms = self.alarms.lock().expect("no panic");
                match alarms.first_entry() {
                    Some(first) if first.key().at <= target => Some(first.remove_entry()),
                    _ => None,
                }
            };
            let Some((alarm, handler)) = due else { break };
            self.now.fetch_max(alarm.at.as_micros(), Ordering::SeqCst);
            if let Some(handler) = handler.upgrade() {
                handler.fire(self.now());
            }
        }
        self.now.fetch_max(target.as_micros(), Ordering::SeqCst);
    }
}

impl Timer for NodeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::SeqCst))
    }

    fn set(&self, at: Timestamp, handler: Weak<dyn TimerHandler>) -> Alarm {
        let number = self.number.fetch_add(1, Ordering::SeqCst);
        let alarm = Alarm { at, number };
        if at <= self.now() {
            // As by a thread of its own.
            if let Some(handler) = handler.upgrade() {
                handler.fire(self.now());
            }
            return alarm;
        }
        self.alarms.lock().expect("no panic").insert(alarm, handler);
        alarm
    }

    fn unset(&self, alarm: Alarm) {
        self.alarms.lock().expect("no panic").remove(&alarm);
    }
}

/// A store with a clock of its own, which several nodes share.
pub struct Central {
    table: Arc<dyn Table>,
    pub clock: Arc<NodeClock>,
}

impl Central {
    pub fn new(plan: &Arc<Plan>) -> Arc<Self> {
        let table = MemoryStore::new(Bounds::default()).open("limits", plan);
        Arc::new(Self {
            table: table.expect("memory opens"),
            clock: NodeClock::at(START),
        })
    }

    /// Executes a command by the store's clock, and answers by its caller's.
    fn decide(&self, command: &Command<'_>) -> Answer {
        let (asked, now) = (command.now, self.clock.now());
        let to_store = |at: Timestamp| moved(at, asked, now);
        let op = match command.op {
            Op::One(path, verb) => Op::One(path, verb.translated(to_store)),
            op => op,
        };
        let command = Command {
            now,
            op,
            ..*command
        };
        let mut answer = self.execute(&command);
        by_the_callers_clock(&mut answer, now, asked);
        answer
    }

    fn execute(&self, command: &Command<'_>) -> Answer {
        let mut answer = Ok(Reply::Done);
        let execution = self.table.execute(command, Out::new(&mut answer));
        assert!(execution.is_ready(), "memory answers at once");
        answer
    }

    /// What is left at the store of every limit of `key`.
    pub fn left(&self, plan: &Arc<Plan>, key: &[u8]) -> Vec<Amount> {
        let path = KeyPath::new(key, plan.levels()).expect("a key");
        let peek = Op::One(path, Verb::Peek { amounts: &[] });
        let decision = self.execute(&command(plan, self.clock.now(), peek));
        let decision = decision.and_then(Reply::decision).expect("an answer");
        let standings = decision.standings.into_iter().flatten();
        standings.map(|standing| standing.remaining).collect()
    }
}

pub fn command<'c>(plan: &'c Arc<Plan>, now: Timestamp, op: Op<'c>) -> Command<'c> {
    Command {
        plan,
        now,
        calendars: &[],
        op,
        patience: None,
    }
}

/// What the wire does with a command and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// Answers at once.
    Open,
    /// Decides at once, and keeps the answer until it is delivered.
    HoldsAnswers,
    /// Keeps the command, too.
    HoldsCommands,
    /// Decides, and loses the answer.
    LosesAnswers,
    /// The answer is lost before the command is there: that decides when it is delivered.
    Late,
    /// The store says that it does nothing now.
    Busy,
    /// The same for so many commands.
    BusyFor(u8),
    /// Cannot be reached.
    Cut,
}

struct Held {
    command: OwnedCommand,
    answer: Option<Answer>,
    responder: Responder,
}

/// The store as one node reaches it.
pub struct Link {
    pub central: Arc<Central>,
    wire: Mutex<Wire>,
    held: Mutex<Vec<Held>>,
    /// Commands that were sent.
    pub trips: AtomicUsize,
    /// Of those, requests for a grant.
    pub grants: AtomicUsize,
    /// A request that the store decides is answered at once, or lost: what it admits counts when
    /// it did.
    pub is_strict_at_once: AtomicBool,
    /// Happens once, when the next change of a lease is on its way.
    meanwhile: Mutex<Option<Meanwhile>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

impl Link {
    pub fn new(central: &Arc<Central>) -> Arc<Self> {
        Arc::new(Self {
            central: Arc::clone(central),
            wire: Mutex::new(Wire::Open),
            held: Mutex::default(),
            trips: AtomicUsize::new(0),
            grants: AtomicUsize::new(0),
            is_strict_at_once: AtomicBool::new(false),
            meanwhile: Mutex::default(),
        })
    }

    pub fn set(&self, wire: Wire) {
        *self.wire.lock().expect("no panic") = wire;
    }

    /// Does this once, when the next change of a lease is on its way.
    pub fn meanwhile(&self, act: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().expect("no panic") = Some(Box::new(act));
    }

    pub fn held(&self) -> usize {
        self.held.lock().expect("no panic").len()
    }

    /// Delivers what is held, the oldest first; how many.
    pub fn deliver(&self) -> usize {
        let held = std::mem::take(&mut *self.held.lock().expect("no panic"));
        let count = held.len();
        for one in held {
            self.deliver_one(one);
        }
        count
    }

    /// Delivers the one at `at` alone.
    pub fn deliver_at(&self, at: usize) {
        let one = self.held.lock().expect("no panic").remove(at);
        self.deliver_one(one);
    }

    /// What is held is lost: whoever waits for it is told so.
    pub fn lose(&self) {
        let held = std::mem::take(&mut *self.held.lock().expect("no panic"));
        for one in held {
            let lost = StoreError::Unavailable("the wire is cut".to_owned());
            drop(one.responder.answer(Err(lost)));
        }
    }

    fn deliver_one(&self, one: Held) {
        let answer = one.answer;
        let answer = answer.unwrap_or_else(|| one.command.lend(|c| self.central.decide(c)));
        drop(one.responder.answer(answer));
    }

    fn hold(&self, command: &Command<'_>, answer: Option<Answer>) -> StoreFuture {
        let (responder, later) = response_channel(drop);
        self.held.lock().expect("no panic").push(Held {
            command: OwnedCommand::of(command),
            answer,
            responder,
        });
        later
    }
}

impl Table for Link {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        self.trips.fetch_add(1, Ordering::SeqCst);
        if let Op::One(_, verb) = command.op
            && verb.terms().is_some_and(|terms| terms.least.is_some())
        {
            self.grants.fetch_add(1, Ordering::SeqCst);
        }
        if matches!(command.op, Op::One(_, Verb::Adjust { .. })) {
            let act = self.meanwhile.lock().expect("no panic").take();
            act.into_iter().for_each(|act| act());
        }
        let mut wire = *self.wire.lock().expect("no panic");
        if let Op::One(_, Verb::Take { lease: None, .. }) = command.op
            && self.is_strict_at_once.load(Ordering::SeqCst)
            && matches!(wire, Wire::HoldsAnswers | Wire::HoldsCommands)
        {
            wire = Wire::Open;
        }
        let lost = || Err(StoreError::Unavailable("the wire is cut".to_owned()));
        let busy = || Err(StoreError::Busy("too much is asked".to_owned()));
        // What was sent is answered later.
        let later = || StoreFuture::new(async move { lost() }).into();
        match wire {
            Wire::Open => out.ready(self.central.decide(command)),
            Wire::HoldsAnswers => {
                let answer = self.central.decide(command);
                self.hold(command, Some(answer)).into()
            }
            Wire::HoldsCommands => self.hold(command, None).into(),
            Wire::LosesAnswers => {
                let _ = self.central.decide(command);
                later()
            }
            Wire::Late => {
                drop(self.hold(command, None));
                later()
            }
            Wire::Busy => out.ready(busy()),
            Wire::BusyFor(times) => {
                self.set(if times > 1 {
                    Wire::BusyFor(times - 1)
                } else {
                    Wire::Open
                });
                out.ready(busy())
            }
            Wire::Cut => out.ready(lost()),
        }
    }
}

/// One node.
pub struct Node {
    pub link: Arc<Link>,
    pub clock: Arc<NodeClock>,
    pub plan: Arc<Plan>,
    pub table: TierTable,
    /// What its commands say of calendars.
    pub calendars: Vec<Option<CalendarBounds>>,
}

impl Node {
    /// On `central`, whose clock this one is `ahead` of.
    pub fn new(central: &Arc<Central>, plan: &Arc<Plan>, tier: Tier, ahead: i64) -> Self {
        let link = Link::new(central);
        let clock = NodeClock::at(central.clock.now().as_micros() + ahead);
        tier.check_for(plan).expect("a tier for these limits");
        let (table, timer) = (Arc::clone(&link) as Arc<dyn Table>, Arc::clone(&clock));
        Self {
            table: TierTable::new(table, tier, timer, true, plan),
            link,
            clock,
            plan: Arc::clone(plan),
            calendars: Vec::new(),
        }
    }

    pub fn trips(&self) -> usize {
        self.link.trips.load(Ordering::SeqCst)
    }

    pub fn grants(&self) -> usize {
        self.link.grants.load(Ordering::SeqCst)
    }

    /// Begins a take; its answer comes later.
    pub fn begin(&self, key: &[u8], amounts: &[Amount]) -> StoreFuture {
        let path = KeyPath::new(key, self.plan.levels()).expect("a key");
        let verb = Verb::Take {
            amounts,
            lease: None,
            detail: Detail::Always,
        };
        let mut answer = Ok(Reply::Done);
        let command = Command {
            calendars: &self.calendars,
            ..command(&self.plan, self.clock.now(), Op::One(path, verb))
        };
        let execution = self.table.execute(&command, Out::new(&mut answer));
        match execution.pending() {
            None => StoreFuture::new(async { answer }),
            Some(later) => later,
        }
    }

    /// Takes, where the answer is there.
    pub fn take(&self, key: &[u8], amounts: &[Amount]) -> Result<Decision, StoreError> {
        let answer = told(&mut self.begin(key, amounts)).expect("it is answered");
        answer.and_then(Reply::decision)
    }

    /// Begins any verb.
    pub fn begin_verb(&self, key: &[u8], verb: Verb<'_>) -> StoreFuture {
        let path = KeyPath::new(key, self.plan.levels()).expect("a key");
        let mut answer = Ok(Reply::Done);
        let command = Command {
            calendars: &self.calendars,
            ..command(&self.plan, self.clock.now(), Op::One(path, verb))
        };
        let execution = self.table.execute(&command, Out::new(&mut answer));
        match execution.pending() {
            None => StoreFuture::new(async { answer }),
            Some(later) => later,
        }
    }

    /// Begins to take a lease for `ttl` microseconds.
    pub fn begin_lease(&self, key: &[u8], amounts: &[Amount], ttl: u64) -> StoreFuture {
        let lease = Terms {
            id: u128::from(fastrand::u64(..)),
            expires_at: self.clock.now() + span(ttl),
            idempotency: None,
            least: None,
        };
        self.begin_verb(
            key,
            Verb::Take {
                amounts,
                lease: Some(lease),
                detail: Detail::OnRefusal,
            },
        )
    }

    /// Begins to take a lease for `ttl` microseconds that waits for its turn, for as long as it takes.
    pub fn begin_waiting(&self, key: &[u8], amounts: &[Amount], ttl: u64) -> StoreFuture {
        let (path, now) = (
            KeyPath::new(key, self.plan.levels()).expect("a key"),
            self.clock.now(),
        );
        let lease = Terms {
            id: u128::from(fastrand::u64(..)),
            expires_at: now + span(ttl),
            idempotency: None,
            least: None,
        };
        let verb = Verb::Take {
            amounts,
            lease: Some(lease),
            detail: Detail::OnRefusal,
        };
        let patience = Patience {
            turn: u128::from(fastrand::u64(..)),
            ahead: Span::ZERO,
            longest: None,
            since: now,
            for_refunds: false,
            race: None,
            hold: None,
            retried: false,
            timer: Arc::clone(&self.clock) as Arc<dyn Timer>,
            seat: Seat::default(),
        };
        let mut answer = Ok(Reply::Done);
        let command = Command {
            patience: Some(&patience),
            ..command(&self.plan, now, Op::One(path, verb))
        };
        let execution = self.table.execute(&command, Out::new(&mut answer));
        match execution.pending() {
            None => StoreFuture::new(async { answer }),
            Some(later) => later,
        }
    }

    /// Takes a lease, where the answer is there; `None`: it was refused.
    pub fn lease(&self, key: &[u8], amounts: &[Amount], ttl: u64) -> Option<Granted> {
        let answer = told(&mut self.begin_lease(key, amounts, ttl)).expect("it is answered");
        let decision = answer.and_then(Reply::decision).expect("a decision");
        decision.lease
    }

    /// What a verb of a lease is answered, where the answer is there.
    pub fn of_lease(&self, key: &[u8], verb: Verb<'_>) -> Answer {
        told(&mut self.begin_verb(key, verb)).expect("it is answered")
    }

    /// The leases that a listing shows of this key.
    pub fn listed(&self, key: &[u8]) -> Vec<HeldLease> {
        let now = self.clock.now();
        let listing = Listing {
            select: Select::Key(key),
            after: None,
            most: 100,
            now,
            levels: self.plan.levels(),
        };
        let mut answer = Ok(Reply::Done);
        let command = command(&self.plan, now, Op::ListLeases(listing));
        let execution = self.table.execute(&command, Out::new(&mut answer));
        assert!(execution.is_ready());
        match answer {
            Ok(Reply::Leases(page)) => page.items,
            other => panic!("{other:?}"),
        }
    }

    /// Begins to end a lease.
    pub fn end(&self, key: &[u8], id: u128) -> StoreFuture {
        let verb = Verb::End {
            id,
            ending: Ending::Release,
            remember: true,
        };
        self.begin_verb(key, verb)
    }

    /// Begins to renew one.
    pub fn begin_renewal(&self, key: &[u8], id: u128, ttl: u64) -> StoreFuture {
        let until = self.clock.now() + span(ttl);
        self.begin_verb(key, Verb::Renew { id, until })
    }

    /// Begins to change one, so that it holds so much.
    pub fn begin_adjustment(&self, key: &[u8], id: u128, to: &[Option<Amount>]) -> StoreFuture {
        let verb = Verb::Adjust {
            id,
            to,
            overdraw: false,
            detail: Detail::OnRefusal,
        };
        self.begin_verb(key, verb)
    }

    pub fn release(&self, key: &[u8], id: u128) -> Answer {
        let verb = Verb::End {
            id,
            ending: Ending::Release,
            remember: true,
        };
        self.of_lease(key, verb)
    }

    pub fn renew(&self, key: &[u8], id: u128, ttl: u64) -> Answer {
        let until = self.clock.now() + span(ttl);
        self.of_lease(key, Verb::Renew { id, until })
    }

    pub fn admits(&self, key: &[u8], amounts: &[Amount]) -> bool {
        self.take(key, amounts)
            .expect("an answer")
            .verdict
            .admitted()
    }
}

/// What a request was answered by now.
pub fn told(later: &mut StoreFuture) -> Option<Answer> {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::Pin::new(later).poll(&mut context) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
