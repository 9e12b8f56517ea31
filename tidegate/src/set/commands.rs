//! The commands of a set to its table, and what is made of the answers.

use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use arc_swap::Guard;
use rand::RngExt;
use tidegate_core::{Amount, Span, Timestamp, Verdict};
use tidegate_store::sync::atomic::Ordering;
use tidegate_store::{
    self as store, Answer, AnswerRoom, Command, Detail, Ending, Execution, Hold, KeyError, KeyPath,
    Op, Out, OwnedKey, Partial, Patience, Race, Reply, Seat, StoreError, StoreFuture, Table, Terms,
    Verb,
};

use super::ending::{End, How};
use super::inner::Inner;
use super::subject::Subject;
use super::view::{View, lease_length};
use super::waiters::Waiter;
use crate::admission::Admission;
use crate::decision::Decision;
use crate::error::{DecisionError, LeaseError, RequestError};
use crate::lease::{Lease, Settlement};
use crate::request::Request;
use crate::statistics::Counters;

/// How much earlier a step of priority counts as having come.
const PRIORITY_STEP: u64 = 1_000_000;

/// A command on its way: what is left is the verb.
pub(crate) struct Asking<'a> {
    inner: &'a Inner,
    view: &'a View,
    pub(super) path: KeyPath<'a>,
    pub(super) now: Timestamp,
    patience: Option<&'a Patience>,
    answer: &'a mut Answer,
}

/// What was answered, where it was written, and by what limits.
pub(crate) struct Answered<'a> {
    pub(super) reply: &'a mut Reply,
    pub(super) view: Seen,
    /// When it was asked.
    pub(super) now: Timestamp,
    /// When it was answered.
    answered_at: Timestamp,
}

impl Answered<'_> {
    /// What was granted of a part of what was asked for; `None` if that is not what was answered.
    pub(super) fn partial(&mut self) -> Option<Box<Partial>> {
        match self.reply {
            Reply::Partial(_) => match std::mem::replace(self.reply, Reply::Done) {
                Reply::Partial(partial) => Some(partial),
                _ => None,
            },
            _ => None,
        }
    }

    /// The decision that `reply` is, which was taken from what was answered.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn decided(self, reply: &mut Reply) -> Result<Decision, DecisionError> {
        Decision::of_reply(reply, self.view.keep(), self.answered_at)
    }

    /// The decision that was answered.
    ///
    /// # Errors
    /// It was none.
    pub(super) fn decision(self) -> Result<Decision, DecisionError> {
        Decision::of_reply(self.reply, self.view.keep(), self.answered_at)
    }
}

/// The limits of a key.
pub(crate) enum Seen {
    /// The newest of its set: looked at for as long as a step takes.
    Newest(Guard<Arc<View>>),
    /// The key's own.
    Own(Arc<View>),
}

impl Seen {
    /// To be kept.
    #[inline]
    pub(crate) fn keep(self) -> Arc<View> {
        match self {
            Self::Newest(view) => Guard::into_inner(view),
            Self::Own(view) => view,
        }
    }
}

impl Deref for Seen {
    type Target = View;

    #[inline]
    fn deref(&self) -> &View {
        match self {
            Self::Newest(view) => view,
            Self::Own(view) => view,
        }
    }
}

impl Begun {
    /// What was answered at once; `None` if it comes later, or the limits have changed.
    ///
    /// # Errors
    /// What was answered.
    #[inline(always)]
    pub(crate) fn told<'r>(
        &self,
        answer: &'r mut Answer,
    ) -> Result<Option<&'r mut Reply>, DecisionError> {
        match answer {
            _ if self.later.is_some() => Ok(None),
            Ok(reply) => Ok(Some(reply)),
            Err(StoreError::StalePlan) => Ok(None),
            Err(error) => Err(std::mem::replace(error, StoreError::Mismatch).into()),
        }
    }

    /// What was answered at once.
    #[inline]
    pub(crate) fn at_once(self, reply: &mut Reply) -> Answered<'_> {
        Answered {
            reply,
            view: self.view,
            now: self.now,
            answered_at: self.now,
        }
    }
}

/// The path of `key`, which may be the name of an entity's row: nothing is charged by that
/// ([`Asking::check_reach`]).
///
/// # Errors
/// [`KeyError`].
#[inline]
pub(super) fn path_of(key: &[u8], levels: usize) -> Result<KeyPath<'_>, KeyError> {
    match KeyPath::new(key, levels) {
        Err(KeyError::EmptySegment) => KeyPath::of_row(key, levels),
        path => path,
    }
}

impl Asking<'_> {
    /// Checks that the key has as many levels as it is to have, and that `amounts` take
    /// something at one of them.
    ///
    /// # Errors
    /// [`RequestError::KeyDepth`], [`RequestError::KeyTooShort`]; [`RequestError::Key`] for the
    /// name of a row.
    #[inline]
    pub(super) fn check_reach(&self, amounts: &[Amount]) -> Result<(), RequestError> {
        self.inner.versions.check_depth(&self.path, self.view)?;
        self.view.check_reach(&self.path, amounts)
    }

    /// Begins to charge amounts for which no lease is held.
    #[inline(always)]
    fn charge_without_lease(self, amounts: &[Amount], detail: Detail) -> Execution {
        self.verb(Verb::Take {
            amounts,
            lease: None,
            detail,
        })
    }

    /// Begins the command. Inlined, so that it is made where it stays: what was just
    /// written piece by piece is slow to copy.
    #[inline(always)]
    pub(super) fn verb(self, verb: Verb<'_>) -> Execution {
        let command = Command {
            plan: &self.view.whole,
            now: self.now,
            calendars: &self.view.calendars(self.now),
            op: Op::One(self.path, verb),
            patience: self.patience,
        };
        self.inner.table.execute(&command, Out::new(self.answer))
    }
}

/// A verb on its way to the table and back. A type for each of those that are asked all
/// the time, whose two halves are then part of the one function that asks.
pub(crate) trait VerbCall {
    type Told;
    /// What it fails with.
    type Failed: From<DecisionError>;

    /// Begins the verb, by a view of the newest limits.
    fn begin(&self, view: &View, asking: Asking<'_>) -> Result<Execution, DecisionError>;

    /// Reads what was answered, where it was written.
    fn read(&self, answered: Answered<'_>) -> Result<Self::Told, Self::Failed>;
}

/// Any other verb: how it begins, and how its answer is read.
impl<T, E: From<DecisionError>, B, R> VerbCall for (B, R)
where
    B: Fn(&View, Asking<'_>) -> Result<Execution, DecisionError>,
    R: Fn(Answered<'_>) -> Result<T, E>,
{
    type Told = T;
    type Failed = E;

    fn begin(&self, view: &View, asking: Asking<'_>) -> Result<Execution, DecisionError> {
        self.0(view, asking)
    }

    fn read(&self, answered: Answered<'_>) -> Result<T, E> {
        self.1(answered)
    }
}

/// Takes without a lease, answered by the verdict alone.
struct Admit<'a>(&'a Request<'a>);

impl VerbCall for Admit<'_> {
    type Told = Verdict;
    type Failed = DecisionError;

    #[inline(always)]
    fn begin(&self, view: &View, asking: Asking<'_>) -> Result<Execution, DecisionError> {
        charge(view, asking, self.0, Detail::Verdict)
    }

    #[inline(always)]
    fn read(&self, answered: Answered<'_>) -> Result<Verdict, DecisionError> {
        Ok(answered.reply.verdict().ok_or(StoreError::Mismatch)?)
    }
}

/// Takes without a lease; counted, if it says where.
struct Check<'a> {
    request: &'a Request<'a>,
    counters: Option<&'a Counters>,
}

impl VerbCall for Check<'_> {
    type Told = Decision;
    type Failed = DecisionError;

    #[inline(always)]
    fn begin(&self, view: &View, asking: Asking<'_>) -> Result<Execution, DecisionError> {
        charge(view, asking, self.request, Detail::Always)
    }

    #[inline(always)]
    fn read(&self, answered: Answered<'_>) -> Result<Decision, DecisionError> {
        if answered.reply.verdict() != Some(Verdict::Admit) {
            return self.refused(answered);
        }
        // Before it is made, so that it is not looked at where it was just written.
        self.counters.inspect(|counters| counters.admitted());
        answered.decision()
    }
}

impl Check<'_> {
    #[cold]
    fn refused(&self, answered: Answered<'_>) -> Result<Decision, DecisionError> {
        let refusal = answered.decision()?;
        self.counters.inspect(|counters| counters.refused(&refusal));
        Ok(refusal)
    }
}

/// Takes a lease; counted, if it says where.
struct Acquire<'a> {
    set: &'a Arc<Inner>,
    key: &'a [u8],
    request: &'a Request<'a>,
    id: u128,
    counters: Option<&'a Counters>,
}

impl VerbCall for Acquire<'_> {
    type Told = Admission;
    type Failed = DecisionError;

    #[inline(always)]
    fn begin(&self, view: &View, asking: Asking<'_>) -> Result<Execution, DecisionError> {
        let amounts = view.amounts(self.request)?;
        asking.check_reach(&amounts)?;
        let detail = match self.request.standings {
            true => Detail::Always,
            false => Detail::OnRefusal,
        };
        lease(view, asking, self.request, (self.id, &amounts), detail)
    }

    #[inline(always)]
    fn read(&self, answered: Answered<'_>) -> Result<Admission, DecisionError> {
        match &*answered.reply {
            Reply::Decision(decision) if let Some(granted) = decision.lease => {
                let (shadowed, is_told) = (decision.shadowed, !decision.standings.is_empty());
                self.granted(answered, granted, (shadowed, is_told))
            }
            _ => self.refused(answered),
        }
    }
}

impl Acquire<'_> {
    /// With the lease that was given. Counted before it is made, so that it is not looked
    /// at where it was just written.
    #[inline(always)]
    fn granted(
        &self,
        answered: Answered<'_>,
        granted: store::Granted,
        (shadowed, is_told): (bool, bool),
    ) -> Result<Admission, DecisionError> {
        self.counters.inspect(|counters| counters.admitted());
        let of = (Arc::clone(self.set), OwnedKey::new(self.key));
        let asked_at = answered.now;
        if is_told {
            let lease = Lease::new(of, granted, shadowed, asked_at, None);
            return Ok(Admission::Granted(lease.decided(answered.decision()?)));
        }
        let view = Some(answered.view.keep());
        let lease = Lease::new(of, granted, shadowed, asked_at, view);
        Ok(Admission::Granted(lease))
    }

    #[cold]
    fn refused(&self, answered: Answered<'_>) -> Result<Admission, DecisionError> {
        let refusal = answered.decision()?;
        self.counters.inspect(|counters| counters.refused(&refusal));
        Ok(Admission::Refused(refusal))
    }
}

impl VerbCall for End<'_> {
    type Told = Settlement;
    type Failed = LeaseError;

    #[inline(always)]
    fn begin(&self, view: &View, asking: Asking<'_>) -> Result<Execution, DecisionError> {
        self.how.begin(view, asking, self.id, self.remember)
    }

    #[inline(always)]
    fn read(&self, answered: Answered<'_>) -> Result<Settlement, LeaseError> {
        match answered.reply {
            Reply::Settled(settled) => Ok(Settlement::new(settled, answered.view.keep())),
            _ => Err(StoreError::Mismatch.into()),
        }
    }
}

/// A command that was given to the table.
pub(crate) struct Begun {
    pub(crate) view: Seen,
    now: Timestamp,
    /// The answer, if it was not there at once.
    later: Option<StoreFuture>,
    /// How often capacities had been set before.
    capacities: u64,
}

/// A request that waits, if it must, from before its first ask to its answer.
pub(crate) struct Patient<'c> {
    patience: Patience,
    visit: Waiter<'c>,
}

/// How a request for a lease waits.
pub(crate) struct Manner {
    /// When it came.
    pub(crate) since: Timestamp,
    /// Which of several sets grants, if it waits at them.
    pub(crate) race: Option<Arc<Race>>,
    /// What may hold it meanwhile.
    pub(crate) hold: Option<Arc<dyn Hold>>,
}

impl Manner {
    /// By itself, from `since` on.
    pub(crate) const fn alone(since: Timestamp) -> Self {
        Self {
            since,
            race: None,
            hold: None,
        }
    }
}

impl Inner {
    /// Asks the table by the newest limits, again if they change meanwhile.
    // No `async fn`: that moves what it is given once more.
    #[inline(always)]
    pub(super) fn ask<A: VerbCall>(
        &self,
        subject: Subject<'_>,
        patient: Option<&Patient<'_>>,
        verb: A,
    ) -> impl Future<Output = Result<A::Told, A::Failed>> {
        let key = subject.key;
        async move {
            // What is answered at once is carried through no future.
            let begun = {
                let mut answer = AnswerRoom::new();
                let begun = self.begin(subject, patient, &verb, &mut answer)?;
                match begun.told(&mut answer)? {
                    Some(reply) => return verb.read(begun.at_once(reply)),
                    None => begun,
                }
            };
            Box::pin(self.go_on(begun, key, patient, verb)).await
        }
    }

    /// Gives a command to the table, by the newest limits.
    #[inline(always)]
    pub(crate) fn begin(
        &self,
        subject: Subject<'_>,
        patient: Option<&Patient<'_>>,
        verb: &impl VerbCall,
        answer: &mut Answer,
    ) -> Result<Begun, DecisionError> {
        let capacities = patient.map_or(0, |_| self.versions.capacities());
        let key = subject.key;
        let (view, now) = (self.view_of(subject)?, self.clock.now());
        let asking = Asking {
            inner: self,
            view: &view,
            path: path_of(key, view.plan.levels())?,
            now,
            patience: patient.map(|patient| &patient.patience),
            answer,
        };
        let later = verb.begin(&view, asking)?.pending();
        Ok(Begun {
            view,
            now,
            later,
            capacities,
        })
    }

    /// What comes of an answer that was not there at once, or is to be asked for again.
    #[cold]
    pub(crate) async fn go_on<A: VerbCall>(
        &self,
        mut begun: Begun,
        key: &[u8],
        patient: Option<&Patient<'_>>,
        verb: A,
    ) -> Result<A::Told, A::Failed> {
        let mut answer = Err(StoreError::StalePlan);
        loop {
            let is_later = begun.later.is_some();
            if let Some(later) = begun.later.take() {
                begun.view = Seen::Own(begun.view.keep());
                let of = (key, begun.view.plan.levels());
                answer = self.wait_for(later, of, begun.capacities, patient).await?;
            }
            match &mut answer {
                Ok(reply) => {
                    let answered_at = match is_later {
                        true => self.clock.now(),
                        false => begun.now,
                    };
                    return verb.read(Answered {
                        answered_at,
                        ..begun.at_once(reply)
                    });
                }
                Err(StoreError::StalePlan) => std::hint::spin_loop(),
                Err(error) => {
                    let error = std::mem::replace(error, StoreError::Mismatch);
                    return Err(DecisionError::from(error).into());
                }
            }
            begun = self.begin(key.into(), patient, &verb, &mut answer)?;
        }
    }

    /// Waits for an answer about a key of so many levels, as a waiter of its root if it is
    /// patient.
    ///
    /// # Errors
    /// [`DecisionError::QueueFull`], [`DecisionError::RootQueueFull`],
    /// [`DecisionError::Stopped`].
    async fn wait_for(
        &self,
        mut answer: StoreFuture,
        (key, levels): (&[u8], usize),
        capacities: u64,
        patient: Option<&Patient<'_>>,
    ) -> Result<Answer, DecisionError> {
        let Some(patient) = patient else {
            return Ok(answer.await);
        };
        // It may have had its turn at once, beside others that wait.
        let look = poll_fn(|context| Poll::Ready(Pin::new(&mut answer).poll(context)));
        if let Poll::Ready(answer) = look.await {
            return Ok(answer);
        }
        patient.visit.join(path_of(key, levels)?.root())?;
        if capacities != self.versions.capacities() {
            // Who changed one since may not have seen that somebody waits.
            self.ask_again();
        }
        Box::pin(patient.visit.wait(answer)).await
    }

    /// The newest limits of `subject`: what was kept of them, if it is the newest still.
    #[inline(always)]
    fn view_of(&self, subject: Subject<'_>) -> Result<Seen, DecisionError> {
        match subject.view {
            Some(view) if self.is_newest(&view) => Ok(Seen::Own(view)),
            _ => self.view_at(subject.key),
        }
    }

    /// Whether `view` is the newest of any key.
    #[inline(always)]
    pub(super) fn is_newest(&self, view: &View) -> bool {
        self.is_version(view) && view.is_of_any_key()
    }

    /// Whether the limits have not changed since `view`.
    #[inline(always)]
    pub(super) fn is_version(&self, view: &View) -> bool {
        view.version() == self.version.load(Ordering::Acquire)
    }

    /// The newest limits of `key`.
    #[inline(always)]
    pub(super) fn view_at(&self, key: &[u8]) -> Result<Seen, DecisionError> {
        let view = self.view.load();
        if view.has_own_limits() {
            let path = path_of(key, view.plan.levels())?;
            if let Some(own) = view.at(&path) {
                return Ok(Seen::Own(own));
            }
        }
        Ok(Seen::Newest(view))
    }

    /// A verb that is answered by a decision.
    #[inline]
    pub(super) fn decide(
        &self,
        key: &[u8],
        begin: impl Fn(&View, Asking<'_>) -> Result<Execution, DecisionError>,
    ) -> impl Future<Output = Result<Decision, DecisionError>> {
        let read = |answered: Answered<'_>| answered.decision();
        self.ask(key.into(), None, (begin, read))
    }

    /// Takes what `request` says without a lease; counted, if it says where.
    #[inline]
    pub(crate) fn check<'a>(
        &'a self,
        key: &'a [u8],
        request: &'a Request<'a>,
        counters: Option<&'a Counters>,
    ) -> impl Future<Output = Result<Decision, DecisionError>> {
        self.ask(key.into(), None, Check { request, counters })
    }

    /// The same, for the verdict alone.
    #[inline]
    pub(super) fn admit(
        &self,
        key: &[u8],
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Verdict, DecisionError>> {
        self.ask(key.into(), None, Admit(request))
    }

    /// Takes a lease, and waits for it as long as `request` says; not counted. Whether the
    /// answer came later.
    pub(crate) async fn acquire_uncounted(
        self: &Arc<Self>,
        key: &[u8],
        request: &Request<'_>,
        manner: Manner,
    ) -> Result<(Admission, bool), DecisionError> {
        let patient = request.is_patient().then(|| {
            let turn = rand::rng().random();
            let patience = Patience {
                turn,
                ahead: Span::from_micros(u64::from(request.priority) * PRIORITY_STEP),
                longest: request.patience(),
                since: manner.since,
                for_refunds: request.for_refunds,
                race: manner.race,
                hold: manner.hold,
                retried: request.retried,
                timer: Arc::clone(&self.timer),
                seat: Seat::default(),
            };
            let visit = self.waiters.waiter(turn);
            Patient { patience, visit }
        });
        let call = self.acquire_call(key, request, None);
        let admission = self.ask(key.into(), patient.as_ref(), call).await?;
        let waited = patient.is_some_and(|patient| patient.visit.has_joined());
        Ok((admission, waited))
    }

    /// To take a lease as `request` says.
    #[inline]
    fn acquire_call<'a>(
        self: &'a Arc<Self>,
        key: &'a [u8],
        request: &'a Request<'a>,
        counters: Option<&'a Counters>,
    ) -> Acquire<'a> {
        Acquire {
            set: self,
            key,
            request,
            id: rand::rng().random(),
            counters,
        }
    }

    /// Whether it holds the lease that `request` was given before, by its idempotency key. That
    /// is what a request for more than there ever is finds: a store looks for the lease first,
    /// and refuses then, so that nothing is taken. `None`: every limit lets such a request
    /// through, so nobody can tell, and nothing is asked.
    pub(crate) async fn has_granted(
        &self,
        key: &[u8],
        request: &Request<'_>,
    ) -> Result<Option<bool>, DecisionError> {
        request.check_idempotency()?;
        let id = rand::rng().random();
        let begin = |view: &View, asking: Asking<'_>| {
            let amounts = view
                .too_much(&asking.path)
                .ok_or(RequestError::NothingRequested)?;
            lease(view, asking, request, (id, &amounts), Detail::Verdict)
        };
        let has_lease = |answered: Answered<'_>| match &*answered.reply {
            Reply::Decision(decision) => Ok(decision.lease.is_some()),
            _ => Ok(false),
        };
        match self.ask(key.into(), None, (begin, has_lease)).await {
            Err(DecisionError::Request(RequestError::NothingRequested)) => Ok(None),
            told => told.map(Some),
        }
    }

    /// As [`acquire_uncounted`](Self::acquire_uncounted), counted.
    // No `async fn`, as `ask`.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        subject: Subject<'_>,
        request: Request<'_>,
    ) -> impl Future<Output = Result<Admission, DecisionError>> {
        let key = subject.key;
        async move {
            if request.is_patient() {
                // Apart, so that what waiting takes is not carried along by who does not.
                return Box::pin(self.acquire_patiently(key, &request)).await;
            }
            let call = self.acquire_call(key, &request, Some(&self.counters));
            // As `ask` does, here: each future that a lease comes through moves it.
            let begun = {
                let mut answer = AnswerRoom::new();
                let begun = self.begin(subject, None, &call, &mut answer)?;
                match begun.told(&mut answer)? {
                    Some(reply) => return call.read(begun.at_once(reply)),
                    None => begun,
                }
            };
            Box::pin(self.go_on(begun, key, None, call)).await
        }
    }

    async fn acquire_patiently(
        self: &Arc<Self>,
        key: &[u8],
        request: &Request<'_>,
    ) -> Result<Admission, DecisionError> {
        let since = self.clock.now();
        let mut left = Left(Some(self));
        let taken = self
            .acquire_uncounted(key, request, Manner::alone(since))
            .await;
        left.0 = None;
        let (admission, waited) = taken?;
        self.counters.answered(admission.refusal());
        if waited {
            let wait = self.clock.now().since(since);
            let longest = request.patience().unwrap_or(Duration::MAX);
            match admission {
                Admission::Granted(_) => self.counters.waited(wait),
                Admission::Refused(_) if wait >= Span::from(longest) => self.counters.timed_out(),
                // It was told at once that there is nothing to wait for.
                Admission::Refused(_) => {}
            }
        }
        Ok(admission)
    }

    /// Forgets a key.
    pub(super) async fn reset(&self, key: &[u8]) -> Result<(), DecisionError> {
        let begin = |_: &View, asking: Asking<'_>| Ok(asking.verb(Verb::Reset));
        self.ask(key.into(), None, (begin, |_: Answered<'_>| Ok(())))
            .await
    }

    /// Ends a lease that its holder need not have at hand. A retry gets the first answer.
    pub(crate) async fn end_by_id(
        &self,
        key: &[u8],
        id: u128,
        how: How<'_>,
    ) -> Result<Settlement, LeaseError> {
        let end = End {
            id,
            how: &how,
            remember: true,
        };
        self.ask(key.into(), None, end).await
    }

    /// Ends a lease that nobody holds any more: it is under way when this returns, and
    /// nobody waits for the answer. What fails is given back at its expiry.
    pub(crate) fn end_unseen(&self, key: &[u8], id: u128, how: How<'_>) {
        // Again, if the limits change meanwhile.
        for _ in 0..MOST_UNSEEN {
            let Ok(view) = self.view_at(key) else { return };
            let Ok(path) = KeyPath::new(key, view.plan.levels()) else {
                return;
            };
            let mut answer = Ok(Reply::Done);
            let asking = Asking {
                inner: self,
                view: &view,
                path,
                now: self.clock.now(),
                patience: None,
                answer: &mut answer,
            };
            drop(how.begin(&view, asking, id, false));
            if answer != Err(StoreError::StalePlan) {
                return;
            }
        }
    }

    /// Moves a lease's expiry; answers the new one.
    pub(crate) async fn renew(
        &self,
        key: &[u8],
        id: u128,
        ttl: Duration,
    ) -> Result<Timestamp, LeaseError> {
        let ttl = lease_length(ttl)?;
        let begin = |_: &View, asking: Asking<'_>| {
            let until = asking.now + ttl;
            Ok(asking.verb(Verb::Renew { id, until }))
        };
        let read = |answered: Answered<'_>| Ok(answered.now + ttl);
        self.ask(key.into(), None, (begin, read)).await
    }

    /// The most that the limit called `name` grants `key` at once, as of now.
    pub(crate) fn capacity_for(&self, key: &[u8], name: &str) -> Option<Amount> {
        let view = self.view.load();
        let position = view.find(name)?;
        let path = KeyPath::new(key, view.plan.levels()).ok();
        match path.and_then(|path| view.at(&path)) {
            Some(own) if own.is_absent(position) => None,
            // It has the capacities of the moment, too, where the key has nothing of its own.
            Some(own) => Some(own.plan.limits()[position].rule.capacity()),
            None if view.is_absent(position) => None,
            None => Some(view.capacity(position)),
        }
    }

    /// How long a lease of `key` lasts whose request does not say.
    pub(crate) fn lease_length(&self, key: &[u8]) -> Span {
        let view = self.view.load();
        let path = KeyPath::new(key, view.plan.levels()).ok();
        let own = path.and_then(|path| view.at(&path));
        own.as_deref().unwrap_or(&view).lease_ttl
    }

    /// Changes how much a lease has taken; answers its fence, too.
    pub(crate) async fn adjust(
        &self,
        key: &[u8],
        id: u128,
        to: &Request<'_>,
        overdraw: bool,
    ) -> Result<(Decision, Option<u64>), LeaseError> {
        let begin = |view: &View, asking: Asking<'_>| {
            let mut uses = view.no_uses();
            view.put_uses(to, asking.path.depth(), &mut uses)?;
            let to = uses;
            view.check_targets(&asking.path, &to)?;
            Ok(asking.verb(Verb::Adjust {
                id,
                to: &to,
                overdraw,
                detail: Detail::Always,
            }))
        };
        let read = |answered: Answered<'_>| {
            let mut fence = None;
            if let Reply::Decision(answer) = &*answered.reply {
                fence = answer.lease.map(|lease| lease.fence);
            }
            Ok((answered.decision()?, fence))
        };
        self.ask(key.into(), None, (begin, read)).await
    }

    /// A command about the whole table.
    pub(super) async fn about(&self, op: Op<'_>) -> Result<Reply, StoreError> {
        self.about_at(&self.table, op).await
    }

    /// The same, of `table`: the set's own, or that around which its tier is.
    pub(super) async fn about_at(
        &self,
        table: &Arc<dyn Table>,
        op: Op<'_>,
    ) -> Result<Reply, StoreError> {
        let mut answer = Ok(Reply::Done);
        let later = {
            let view = self.view.load();
            let command = Command {
                plan: &view.plan,
                now: self.clock.now(),
                calendars: &[],
                op,
                patience: None,
            };
            table.execute(&command, Out::new(&mut answer)).pending()
        };
        Ok(match later {
            None => answer?,
            Some(later) => later.await?,
        })
    }
}

/// A lease that nobody holds is ended again so often, if the limits change meanwhile.
const MOST_UNSEEN: usize = 64;

impl How<'_> {
    #[inline(always)]
    fn begin(
        &self,
        view: &View,
        asking: Asking<'_>,
        id: u128,
        remember: bool,
    ) -> Result<Execution, DecisionError> {
        let depth = asking.path.depth();
        let end = |ending: Ending<'_>| {
            asking.verb(Verb::End {
                id,
                ending,
                remember,
            })
        };
        Ok(match self {
            Self::Settle(used) => {
                let mut uses = view.no_uses();
                view.put_uses(used, depth, &mut uses)?;
                end(Ending::Settle(&uses))
            }
            Self::Return(used) => {
                let mut uses = view.no_uses();
                view.put_uses(used, depth, &mut uses)?;
                for (position, used) in uses.iter_mut().enumerate() {
                    // Of what the key does not have any more, what was taken stays.
                    if used.is_none() && !view.is_absent(position) {
                        *used = Some(0);
                    }
                }
                end(Ending::Settle(&uses))
            }
            Self::Release => end(Ending::Release),
            Self::Cancel => end(Ending::Cancel),
            Self::Fail => end(Ending::Fail(&view.refunds_on_failure())),
        })
    }
}

/// One that waits and is given up by its caller is counted.
struct Left<'a>(Option<&'a Arc<Inner>>);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if let Some(inner) = self.0 {
            inner.counters.abandoned();
        }
    }
}

/// A take of `amounts` as the lease `id`.
#[inline(always)]
fn lease(
    view: &View,
    asking: Asking<'_>,
    request: &Request<'_>,
    (id, amounts): (u128, &[Amount]),
    detail: Detail,
) -> Result<Execution, DecisionError> {
    let terms = Terms {
        id,
        expires_at: asking.now + view.ttl(request)?,
        idempotency: request.idempotency,
        least: None,
    };
    Ok(asking.verb(Verb::Take {
        amounts,
        lease: Some(terms),
        detail,
    }))
}

/// A charge without lease.
#[inline(always)]
fn charge(
    view: &View,
    asking: Asking<'_>,
    request: &Request<'_>,
    detail: Detail,
) -> Result<Execution, DecisionError> {
    if let Some(amount) = view.lone_amount(request) {
        return Ok(asking.charge_without_lease(&[amount], detail));
    }
    let mut amounts = view.amounts(request)?;
    view.leave_out_held(request, &mut amounts)?;
    view.check_unheld(&amounts)?;
    asking.check_reach(&amounts)?;
    Ok(asking.charge_without_lease(&amounts, detail))
}
