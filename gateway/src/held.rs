//! What a call holds until it is settled.
//!
//! An end is told at once where the store answers at once, else by a task of its own: a caller that
//! goes away in the middle takes nothing with it. Dropped without a word, what was not sent is given back, and what was sent counts as used.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use smallvec::SmallVec;
use tidegate::{Error, LeaseId, Outcome, RequestError, Span};
use tidegate_service::{
    ActivePolicy, Amounts, Answer, Call, Caller, GrantedLease, Kind, Number, OfLease, Report,
    ServiceError, Uses,
};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tracing::warn;

use crate::fair::{Charged, units};
use crate::inner::{Inner, TOLD_WITHIN};
use crate::learning::{Debits, Measured, Sent, Went};
use crate::reservations::Reservation;

/// No lease is renewed more often than this; and the shortest pause before a store is asked once more.
const SHORTEST: Duration = Duration::from_millis(100);

/// The longest pause before a lease is ended, or takes more, once more while the store is away.
const LONGEST: Duration = Duration::from_secs(5);

/// For so long after its expiry the end of a lease is tried again while the store is away: a policy
/// remembers it for as long, unless its `remember` says less.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A lease of a call, or none where the store could not tell, or the call takes nothing.
pub struct Held {
    gateway: Arc<Inner>,
    caller: Caller,
    active: Arc<ActivePolicy>,
    key: Arc<[u8]>,
    counted: Sent,
    /// What was taken of each limit that wants an amount.
    amounts: Vec<(String, u64)>,
    /// What was debited for others when its answer began.
    debits: Debits,
    lease: Option<LeaseId>,
    member: Option<String>,
    renewal: Option<AbortHandle>,
    _reservation: Option<Reservation>,
    /// When it was sent, if it was.
    sent_at: Option<Instant>,
    /// It has said already how it went, as far as concurrency goes.
    has_told: bool,
    /// What its caller's part was charged, where callers queue.
    charged: Option<Charged>,
    /// When the caller took of the answer last, once it has begun.
    taken_at: Arc<Mutex<Option<Instant>>>,
    more: Arc<More>,
}

/// What a lease is to hold instead, once that is more than was taken.
#[derive(Default)]
struct More {
    to: Mutex<Vec<(String, u64)>>,
    told: Notify,
}

/// Whose limits a call counts against.
pub struct Whose {
    pub caller: Caller,
    pub active: Arc<ActivePolicy>,
    pub key: Arc<[u8]>,
    pub member: Option<String>,
}

/// How it ends.
enum End {
    /// So much was used, by limit.
    Settle(Vec<Used>, Report),
    /// As much as was taken.
    Release(Report),
    /// Nothing: it did not start.
    Cancel(Report),
}

/// What was used of a limit.
struct Used {
    limit: String,
    units: u64,
    /// What the headers of the answer can have counted of it.
    early: u64,
}

impl Held {
    /// What was granted, if something was, and of a pool the member that the call goes to. The answer
    /// that it came with is as good as delivered: from now on this gives it back.
    pub fn new(
        gateway: &Arc<Inner>,
        (caller, active): (&Caller, &Arc<ActivePolicy>),
        key: &Arc<[u8]>,
        member: Option<&str>,
        (granted, amounts, counted): (Option<&GrantedLease>, &Amounts<'_>, Sent),
    ) -> Self {
        let mut held = Self {
            gateway: Arc::clone(gateway),
            caller: caller.clone(),
            active: Arc::clone(active),
            key: Arc::clone(key),
            counted,
            amounts: owned(amounts).collect(),
            debits: Debits::new(),
            lease: granted.map(|granted| granted.id),
            member: member.map(str::to_owned),
            renewal: None,
            _reservation: granted.map(|granted| gateway.reservations.begin(granted.granted_at)),
            sent_at: None,
            has_told: false,
            charged: None,
            taken_at: Arc::default(),
            more: Arc::default(),
        };
        held.renewal = granted.map(|granted| held.renew(granted));
        held
    }

    /// The member of a pool that it is of.
    pub fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    /// The policy that it is of.
    pub fn active(&self) -> &Arc<ActivePolicy> {
        &self.active
    }

    /// What was counted of learnt limits when it was granted.
    pub const fn counted(&self) -> &Sent {
        &self.counted
    }

    /// What was taken when it was granted, of each limit that wants an amount.
    pub fn amounts(&self) -> &[(String, u64)] {
        &self.amounts
    }

    /// As [`Sent::wait_to_send`].
    pub fn wait_to_send(&mut self) -> Option<(&str, Span)> {
        self.counted.wait_to_send(self.active.now())
    }

    /// Whose limits it counts against.
    pub fn whose(&self) -> Whose {
        Whose {
            caller: self.caller.clone(),
            active: Arc::clone(&self.active),
            key: Arc::clone(&self.key),
            member: self.member.clone(),
        }
    }

    /// It came through a queue of callers, where it is settled with the rest.
    pub fn charged(&mut self, charged: Option<Charged>) {
        self.charged = charged;
    }

    /// From now on the provider may have it.
    pub fn mark_sent(&mut self) {
        self.sent_at = Some(Instant::now());
    }

    /// How long ago it was sent.
    pub fn since_sent(&self) -> Duration {
        self.sent_at.map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// It was answered, which took so long by that measure.
    pub fn measured(&mut self, measured: Measured, time: Duration) {
        self.went(Went::Took(measured, time));
    }

    /// The provider had no room for it, or did not answer in time.
    pub fn dropped(&mut self) {
        let took = self.since_sent();
        self.went(Went::Dropped(took));
    }

    fn went(&mut self, how: Went) {
        if !std::mem::replace(&mut self.has_told, true) {
            self.counted.went(&self.gateway.learning, &self.active, how);
        }
    }

    /// The caller has read of the answer.
    pub fn note_read(&self) {
        let mut taken_at = self.taken_at.lock().unwrap_or_else(PoisonError::into_inner);
        *taken_at = Some(Instant::now());
    }

    /// It is to hold so much from now on, whatever its limits have left; of none less than was taken.
    pub fn grow(&self, amounts: &Amounts<'_>) {
        let to = owned(amounts).map(|(limit, units)| {
            let mut taken = self.amounts.iter();
            let taken = taken.find(|(name, _)| *name == limit);
            let units = taken.map_or(units, |(_, taken)| units.max(*taken));
            (limit, units)
        });
        *self.more.to.lock().unwrap_or_else(PoisonError::into_inner) = to.collect();
        self.more.told.notify_one();
    }

    /// That was debited for others when its answer began.
    pub fn debited(&mut self, debits: Debits) {
        self.debits = debits;
    }

    /// It has used so much, of which the headers of its answer can have counted `early`; and so many
    /// tokens in all.
    pub fn settle(
        mut self,
        (used, early): (&Amounts<'_>, &Amounts<'_>),
        tokens: u64,
        outcome: Outcome,
    ) {
        if let Some(charged) = self.charged.take() {
            charged.settle(tokens);
        }
        let by_limit = units(used).into_iter().zip(units(early));
        let used = by_limit.map(|((limit, units), (_, early))| Used {
            limit: limit.to_owned(),
            units,
            early,
        });
        let report = Report {
            outcome,
            cool_down: None,
        };
        drop(self.end(End::Settle(used.collect(), report)));
    }

    /// It has used what it took.
    pub fn release(mut self) {
        drop(self.end(End::Release(Report::default())));
    }

    /// The provider does not have it: what it took comes back.
    pub async fn cancel(self) {
        self.unserved(false, None, End::Cancel).await;
    }

    /// The provider has refused it. If it is of a pool, its member is passed over for that long,
    /// or for as long as the policy says.
    pub async fn refused(self, cools_down: bool, cool_down: Option<Duration>) {
        self.unserved(cools_down, cool_down, End::Cancel).await;
    }

    /// The provider had it, and nobody knows what it has made of it: it counts as used.
    pub async fn lost(self) {
        self.unserved(false, None, End::Release).await;
    }

    async fn unserved(
        mut self,
        cools_down: bool,
        cool_down: Option<Duration>,
        end: impl FnOnce(Report) -> End,
    ) {
        let outcome = match cools_down {
            true => Outcome::Dropped,
            false => Outcome::Ignored,
        };
        let is_pool = self.active.policy().is_pool();
        // A provider may say `0`; no cool-down is that short.
        let is_some = |after: &Duration| *after >= Duration::from_millis(1);
        let cool_down = cool_down.filter(|after| cools_down && is_pool && is_some(after));
        if let (None, Some(after)) = (self.lease, cool_down) {
            let mut members = self.active.members().iter();
            let member = members.find(|member| Some(member.name()) == self.member());
            member.map(|member| member.cool_down(after));
        }
        if let Some(ended) = self.end(end(Report { outcome, cool_down })) {
            let _ = timeout(TOLD_WITHIN, ended).await;
        }
    }

    /// Keeps it while the call lasts, and takes more if it is told to: a caller that takes nothing of
    /// its answer for as long as a stream may pause is not waited for, and what it holds expires.
    fn renew(&self, granted: &GrantedLease) -> AbortHandle {
        let ttl = granted.expires_at.since(granted.granted_at).as_duration();
        let (gateway, caller) = (Arc::clone(&self.gateway), self.caller.clone());
        let (active, key, lease) = (Arc::clone(&self.active), Arc::clone(&self.key), granted.id);
        let (taken_at, silence) = (Arc::clone(&self.taken_at), gateway.settings.pause);
        let more = Arc::clone(&self.more);
        let every = (ttl / 3).max(SHORTEST);
        let task = async move {
            let of = OfLease {
                policy: &active.policy().name,
                whose: key[..].into(),
                lease,
            };
            let (mut due, mut again, mut pause) = (Instant::now() + every, None, SHORTEST);
            loop {
                let grows = async {
                    match again {
                        None => more.told.notified().await,
                        Some(at) => sleep_until(at).await,
                    }
                };
                if timeout_at(due, grows).await.is_ok() {
                    let taken = more.take(&gateway, &caller, of).await;
                    again = (!taken).then(|| Instant::now() + pause);
                    pause = if taken { SHORTEST } else { longer(pause) };
                    continue;
                }
                due = Instant::now() + every;
                let taken_at = *taken_at.lock().unwrap_or_else(PoisonError::into_inner);
                if taken_at.is_some_and(|at| at.elapsed() > silence) {
                    warn!(
                        policy = of.policy,
                        "a client has stopped reading its answer; its lease is renewed no more and will expire"
                    );
                    return;
                }
                let renewed = gateway.service.call(&caller, Call::Renew(of, None)).await;
                if let Err(error) = renewed {
                    warn!(
                        policy = of.policy,
                        %error,
                        "the lease of a running call could not be renewed; it may expire before the call ends"
                    );
                    if error.kind() == Kind::Ended {
                        return;
                    }
                }
            }
        };
        tokio::spawn(task).abort_handle()
    }

    fn end(&mut self, mut end: End) -> Option<JoinHandle<()>> {
        if let Some(renewal) = self.renewal.take() {
            renewal.abort();
        }
        if let (End::Cancel(_), Some(charged)) = (&end, self.charged.take()) {
            charged.settle(0);
        }
        let lease = self.lease.take()?;
        if let End::Cancel(_) = &end {
            self.counted.cancelled();
        }
        let (gateway, caller) = (Arc::clone(&self.gateway), self.caller.clone());
        let (active, key) = (Arc::clone(&self.active), Arc::clone(&self.key));
        let debits = std::mem::take(&mut self.debits);
        let task = async move {
            if let End::Settle(used, _) = &mut end {
                less(used, debits).await;
            }
            let of = OfLease {
                policy: &active.policy().name,
                whose: key[..].into(),
                lease,
            };
            if let Err(error) = carry_out(&gateway, &caller, of, &end).await {
                warn!(
                    policy = of.policy,
                    %error,
                    "a call could not be settled: what it reserved stays charged, and its slots come back when its lease expires"
                );
                gateway.meters.unsettled.increment(1);
            }
        };
        let mut task = Box::pin(task);
        match task.as_mut().now_or_never() {
            Some(()) => None,
            None => Some(self.gateway.tasks.spawn(task)),
        }
    }
}

fn owned(amounts: &Amounts<'_>) -> impl Iterator<Item = (String, u64)> {
    let units = units(amounts).into_iter();
    units.map(|(limit, units)| (limit.to_owned(), units))
}

impl More {
    /// Takes it, of the limits that there still are; `false` if the store is away: then it is to be asked
    /// again, for what is wanted by then. What is not taken is charged at the end.
    async fn take(&self, gateway: &Inner, caller: &Caller, of: OfLease<'_>) -> bool {
        let wanted = || self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let to = wanted().clone();
        let asked = to.iter().map(|(limit, units)| (&**limit, *units)).collect();
        let adjust = |uses| Call::Adjust(of, uses, true);
        let answer = of_what_there_is(gateway, caller, asked, adjust).await;
        if let Some(Err(error)) = answer {
            warn!(
                policy = of.policy,
                %error,
                "a stream has used more than it reserved, and no more could be reserved; the rest is charged at its end"
            );
            if error.kind() == Kind::Unavailable {
                return false;
            }
        }
        let mut now = wanted();
        if *now == to {
            now.clear();
        }
        true
    }
}

/// Calls for these limits, less those that there are no more: policies may have been exchanged since the
/// call was granted, and may be meanwhile. Nothing if there is none of them.
async fn of_what_there_is<'c>(
    gateway: &Inner,
    caller: &Caller,
    mut amounts: SmallVec<[(&'c str, u64); 4]>,
    call: impl Fn(Uses<'c>) -> Call<'c>,
) -> Option<Result<Answer, ServiceError>> {
    while !amounts.is_empty() {
        let units = amounts.iter();
        let units = units.map(|(limit, units)| (*limit, Number::Units(*units)));
        let uses = Uses {
            cost: None,
            amounts: units.collect(),
        };
        let answer = gateway.service.call(caller, call(uses)).await;
        let known = amounts.len();
        if let Err(ServiceError::Limits(Error::Request(RequestError::UnknownLimit {
            name, ..
        }))) = &answer
        {
            amounts.retain(|(limit, _)| limit != name);
        }
        if amounts.len() == known {
            return Some(answer);
        }
    }
    None
}

/// What a debit has charged already is not charged again.
async fn less(used: &mut [Used], debits: Debits) {
    for debit in debits {
        let mut of_limits = used.iter_mut();
        if let Some(used) = of_limits.find(|used| used.limit == debit.limit()) {
            used.units -= debit.part(used.early).await;
        }
    }
}

/// Ends a lease, again and again while the store cannot tell: an end that was carried out is the
/// same the second time.
async fn carry_out(
    gateway: &Inner,
    caller: &Caller,
    of: OfLease<'_>,
    end: &End,
) -> Result<Answer, ServiceError> {
    let (begun, mut pause) = (Instant::now(), SHORTEST);
    loop {
        let ended = carry_out_once(gateway, caller, of, end).await;
        let may_pass = |error: &ServiceError| error.kind() == Kind::Unavailable;
        if begun.elapsed() > REMEMBERED || !ended.as_ref().is_err_and(may_pass) {
            return ended;
        }
        sleep(pause).await;
        pause = longer(pause);
    }
}

/// The pause before a store that is still away is asked once more.
fn longer(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST)
}

async fn carry_out_once(
    gateway: &Inner,
    caller: &Caller,
    of: OfLease<'_>,
    end: &End,
) -> Result<Answer, ServiceError> {
    let call = match end {
        End::Settle(used, report) => return settle(gateway, caller, of, used, *report).await,
        End::Release(report) => Call::Release(of, *report),
        End::Cancel(report) => Call::Cancel(of, *report),
    };
    gateway.service.call(caller, call).await
}

/// Settles for the limits that there still are.
async fn settle(
    gateway: &Inner,
    caller: &Caller,
    of: OfLease<'_>,
    used: &[Used],
    report: Report,
) -> Result<Answer, ServiceError> {
    let used = used.iter().map(|used| (&*used.limit, used.units));
    let settle = |uses| Call::Settle(of, report, uses);
    match of_what_there_is(gateway, caller, used.collect(), settle).await {
        Some(settled) => settled,
        None => gateway.service.call(caller, settle(Uses::default())).await,
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let end = match self.sent_at.is_some() {
            true => End::Release(Report::default()),
            false => End::Cancel(Report::default()),
        };
        drop(self.end(end));
    }
}
