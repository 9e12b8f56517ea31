//! A call's way: let in, read, estimated, admitted, forwarded, and again if the provider refuses.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use smallvec::SmallVec;
use tidegate::{LimitSet, Member, Span};
use tidegate_llm::dialect::{passes, plain};
use tidegate_llm::learnt::Came;
use tidegate_llm::{
    Answer as Reading, Asked, Cost, Counts, Kind, Received, Refusal as Refused, Request as Asks,
    Reserved, Signals, Usage,
};
use tidegate_policy::PolicyMember;
use tidegate_service::{
    Acquired, ActivePolicy, Amounts, Answer as Answered, Call, Caller, Question, Scope,
    ServiceError, Terms,
};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use crate::bodies::{self, Room};
use crate::body::{Answer, Passing, Settling};
use crate::caller;
use crate::charge;
use crate::fair::{Entering, Turn, units};
use crate::held::Held;
use crate::inner::Inner;
use crate::learning;
use crate::options::with_usage;
use crate::reach::Trip;
use crate::refuse::{Refusal, Unadmitted};
use crate::settings::{Settings, Upstream};
use crate::upstream::{CONNECT, Unanswered, Within, forwarded};

/// So much of an error's body passes; what is longer is cut there.
const LONGEST_ERROR: usize = 1024 * 1024;

/// What has not come of an error's body so long after its head is not waited for.
const ERROR_WITHIN: Duration = Duration::from_secs(5);

/// The option that asks a stream for its usage, as a refusal of it names it.
const OPTION: &[u8] = b"stream_options";

/// The first pause before a further attempt where nobody says how long; doubled each time.
const PAUSE: Duration = Duration::from_millis(500);

/// For so long a pool passes over a member that redirects.
const REDIRECTED: Duration = Duration::from_secs(5);

/// Where a call may go to another member of a pool, it waits for a connection for no longer than that,
/// nor for more than half of the time that it may wait in all.
const CONNECTED_ELSE_ELSEWHERE: Duration = Duration::from_secs(3);

/// It waits for so long, however little it may wait.
const CONNECTED_AT_LEAST_WITHIN: Duration = Duration::from_secs(1);

/// For so long a pool passes over a member whose quota or money is used up, if neither the provider
/// nor the policy says how long.
const USED_UP: Duration = Duration::from_secs(60);

/// For no longer a pool passes over a member, whatever its provider says: then one call asks again.
const LONGEST_COOL_DOWN: Duration = Duration::from_secs(3_600);

/// Answers a call.
pub async fn relay(gateway: Arc<Inner>, request: Request<Incoming>) -> Response<Answer> {
    let (mut head, body) = request.into_parts();
    caller::keep_one(&mut head, &gateway.settings);
    let answered = match in_path(&gateway.settings, &mut head) {
        Ok(in_path) => answer(&gateway, (&head, in_path.as_deref()), body).await,
        Err(refusal) => Err(refusal),
    };
    match answered {
        Ok(response) => response,
        Err(refusal) => {
            let asked = Asked::of(&head.method, head.uri.path(), &head.headers);
            let refusal = refusal.render(asked.dialect);
            refusal.map(|body| Answer::Own(Some(body)))
        }
    }
}

/// What the path says that names whose limits count, which is taken out of it; nothing where no path
/// does.
fn in_path(settings: &Settings, head: &mut request::Parts) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(pattern) = &settings.key_path else {
        return Ok(None);
    };
    let (key, uri) = pattern
        .taken(&head.uri)
        .ok_or_else(|| Refusal::no_key(pattern))?;
    head.uri = uri;
    Ok(Some(key))
}

/// A call that was read.
struct Read<'h> {
    head: &'h request::Parts,
    asked: Asked,
    caller: Caller,
    active: Arc<ActivePolicy>,
    key: Arc<[u8]>,
    /// What the caller is called, whatever the policy.
    named: Arc<[u8]>,
    /// What the caller is called by its credential.
    who: Arc<[u8]>,
    model: String,
    asks: Asks,
    cost: Cost,
    body: Bytes,
    begun: Instant,
    /// A stream of OpenAI's whose caller has not asked for its usage.
    wants_usage: bool,
    /// The room that the body takes until the call is answered.
    _room: Room,
}

async fn answer(
    gateway: &Arc<Inner>,
    head: (&request::Parts, Option<&[u8]>),
    body: Incoming,
) -> Result<Response<Answer>, Refusal> {
    let mut call = read(gateway, head, body).await?;
    loop {
        match call.answered(gateway).await {
            // What makes no sense by a policy may make some by the one that is in force now.
            Err(refusal) if refusal.is_of_a_policy() && call.goes_on(gateway)? => {}
            answered => return answered,
        }
    }
}

async fn read<'h>(
    gateway: &Arc<Inner>,
    (head, in_path): (&'h request::Parts, Option<&[u8]>),
    body: Incoming,
) -> Result<Read<'h>, Refusal> {
    let settings = &gateway.settings;
    if !passes(&head.method) {
        return Err(Refusal::method());
    }
    if is_web_socket(&head.headers) {
        return Err(Refusal::upgrade());
    }
    let credential = caller::credential(&head.headers, &head.uri, settings.provider());
    let caller = gateway.service.enter_by(credential.as_deref())?;
    // What a provider is asked is charged in the store without any namespace.
    caller.check_server()?;
    let in_header = || caller::named(&head.headers, settings.key_header.as_ref());
    let named = in_path.or_else(in_header);
    let by_credential = || caller::by_credential(credential.as_deref());
    let key = named.map_or_else(by_credential, Arc::from);
    let who = match named {
        None => Arc::clone(&key),
        Some(_) => by_credential(),
    };
    let path = plain(head.uri.path()).ok_or_else(Refusal::path)?;
    let mut asked = Asked::of(&head.method, &path, &head.headers);
    if settings.only_counted && !asked.uses_tokens && !asked.only_reads {
        return Err(Refusal::uncounted(&path));
    }
    if let Some(by) = tidegate_llm::encoding(&head.headers).filter(|_| asked.uses_tokens) {
        return Err(Refusal::encoded(by));
    }
    let (body, room) = bodies::whole(settings, gateway.bodies.room(&who), body).await?;
    let mut asks = Asks {
        answers: 1,
        ..Asks::default()
    };
    if asked.uses_tokens {
        asks = Asks::read(&asked, &body).map_err(|error| Refusal::body(&error))?;
    }
    let wants_usage =
        asked.uses_tokens && asked.asks_for_usage && asks.stream && !asks.stream_usage;
    let model = asked.model.take().or(asks.model.take()).unwrap_or_default();
    let whose = (&caller, &key);
    let in_force = InForce::find(gateway, whose, &model, asked.uses_tokens)?;
    Ok(Read {
        head,
        asked,
        caller,
        active: in_force.active,
        key: in_force.key,
        named: key,
        who,
        model,
        asks,
        cost: in_force.cost,
        body,
        begun: Instant::now(),
        wants_usage,
        _room: room,
    })
}

/// What calls of a model go by, as of now.
struct InForce {
    active: Arc<ActivePolicy>,
    /// The caller's, in that policy.
    key: Arc<[u8]>,
    cost: Cost,
}

impl InForce {
    /// # Errors
    /// [`Refusal`]: there is no policy for the caller, or it counts money and the model has no price.
    fn find(
        gateway: &Inner,
        (caller, named): (&Caller, &Arc<[u8]>),
        model: &str,
        uses_tokens: bool,
    ) -> Result<Self, Refusal> {
        let settings = &gateway.settings;
        let policy = settings.policy_of(model);
        let key = (&**named).into();
        let active = gateway
            .service
            .policy_for(caller, Scope::Decide, policy, key)?;
        let key = match &settings.key_root {
            // Learnt limits have a root of their own.
            Some(root) if !learning::learns(active.policy()) => caller::below(root, named).into(),
            _ => learning::key(active.policy(), Arc::clone(named)),
        };
        let (price, cost) = gateway.cost(model);
        if uses_tokens && price.is_none() && settings.counts_money(active.policy()) {
            return Err(Refusal::no_price(model));
        }
        Ok(Self { active, key, cost })
    }
}

/// What a call takes of a limit that wants an amount, and what that counts.
fn taken_of(gateway: &Inner, limit: &str, amounts: &Amounts<'_>) -> Option<(Counts, u64)> {
    let counts = gateway.settings.counts(limit)?;
    let mut amounts = units(amounts).into_iter();
    let (_, wanted) = amounts.find(|(name, _)| *name == limit)?;
    Some((counts, wanted))
}

/// What a provider answers to a call.
struct Sent {
    response: Response<Incoming>,
    /// What came of the body, where it was looked at.
    begun: Option<Bytes>,
    /// The call asks for a usage that its caller has not asked for.
    asked_usage: bool,
}

/// What a provider has made of a call.
enum Forwarded {
    /// It answers.
    Answered(Box<Response<Answer>>),
    /// It does not serve it.
    Unserved(Box<Unserved>),
}

/// A call that a provider has not served.
struct Unserved {
    /// What its caller is told, unless it is sent again.
    answer: Result<Response<Answer>, Refusal>,
    /// Whether it may be sent to another member of a pool.
    elsewhere: bool,
    /// Whether it may be sent there again.
    here: bool,
    /// After that time, if the provider names one.
    after: Option<Duration>,
}

/// How often a call was sent, and to which members of a pool.
#[derive(Default)]
struct Tries<'a> {
    /// How often; the first time at a further member is none of these.
    attempts: u32,
    /// Where it was since the last pause.
    tried: Vec<&'a str>,
    /// Where it was at all.
    visited: Vec<&'a str>,
}

impl<'a> Tries<'a> {
    /// It is sent, in a pool to that member.
    fn sends(&mut self, member: Option<&'a str>) {
        let further = member.filter(|member| !self.visited.contains(member));
        if self.attempts == 0 || further.is_none() {
            self.attempts += 1;
        }
        self.visited.extend(further);
        self.tried.extend(member);
    }
}

/// Where a call may go, and how long it may wait for that.
#[derive(Clone, Copy)]
struct Among<'a> {
    /// Members of a pool that are not asked.
    passed_over: &'a [&'a str],
    wait: Duration,
    /// It was granted or sent before: others are asked by the way.
    is_further: bool,
}

/// A call that its limits have admitted.
struct Admitted<'g> {
    held: Held,
    /// What was estimated for it.
    reserved: Reserved,
    trip: Trip<'g>,
}

impl Read<'_> {
    /// What it is answered, by the policy that it goes by.
    async fn answered(&self, gateway: &Arc<Inner>) -> Result<Response<Answer>, Refusal> {
        let mut tries = Tries::default();
        let mut admitted = self.admitted(gateway, self.anywhere(gateway)).await?;
        loop {
            let member = self.member(admitted.held.member());
            tries.sends(member.map(|member| &*member.name));
            let within = self.connected_within(gateway, &tries);
            let unserved = match self.forward(gateway, admitted, within).await? {
                Forwarded::Answered(response) => return Ok(*response),
                Forwarded::Unserved(unserved) => *unserved,
            };
            match self.again(gateway, &unserved, &mut tries).await? {
                Some(again) => admitted = again,
                None => return unserved.answer,
            }
        }
    }

    /// It goes by what is in force now; whether that is another policy than before.
    ///
    /// # Errors
    /// [`Refusal`]: there is none any more for it.
    fn goes_on(&mut self, gateway: &Inner) -> Result<bool, Refusal> {
        let whose = (&self.caller, &self.named);
        let now = InForce::find(gateway, whose, &self.model, self.asked.uses_tokens)?;
        let is_other = !Arc::ptr_eq(&now.active, &self.active);
        (self.active, self.key, self.cost) = (now.active, now.key, now.cost);
        Ok(is_other)
    }

    /// How long it may wait from now on.
    fn may_wait(&self, gateway: &Inner) -> Duration {
        gateway.settings.wait.saturating_sub(self.begun.elapsed())
    }

    /// Anywhere, for as long as it may wait.
    fn anywhere(&self, gateway: &Inner) -> Among<'static> {
        Among {
            passed_over: &[],
            wait: self.may_wait(gateway),
            is_further: false,
        }
    }

    /// How long it waits for a connection.
    fn connected_within(&self, gateway: &Inner, tries: &Tries<'_>) -> Duration {
        match self.has_others(&tries.visited) {
            false => CONNECT,
            true => (self.may_wait(gateway) / 2)
                .clamp(CONNECTED_AT_LEAST_WITHIN, CONNECTED_ELSE_ELSEWHERE),
        }
    }

    /// The member of the pool that has that name.
    fn member(&self, name: Option<&str>) -> Option<&PolicyMember> {
        let mut members = self.active.policy().members.iter();
        members.find(|member| Some(&*member.name) == name)
    }

    /// Whether a pool has further members than these.
    fn has_others(&self, than: &[&str]) -> bool {
        let mut members = self.active.policy().members.iter();
        members.any(|member| !than.contains(&&*member.name))
    }

    /// Whether one of those can be reached, as far as is known.
    fn has_others_within_reach(&self, gateway: &Inner, than: &[&str]) -> bool {
        let mut members = self.active.policy().members.iter();
        members.any(|member| {
            !than.contains(&&*member.name) && !gateway.reach.is_passed_over(&member.name)
        })
    }

    /// Members of a pool that cannot be reached, of those that are asked; none, if they are all.
    fn out_of_reach<'a>(&'a self, gateway: &Inner, passed_over: &[&str]) -> SmallVec<[&'a str; 4]> {
        let members = self.active.policy().members.iter();
        let names = members.map(|member| &*member.name);
        let asked = names.filter(|name| !passed_over.contains(name));
        let away = |name: &&str| gateway.reach.is_passed_over(name);
        let (away, within_reach): (SmallVec<[&str; 4]>, SmallVec<[&str; 4]>) =
            asked.partition(away);
        match within_reach.is_empty() {
            true => SmallVec::new(),
            false => away,
        }
    }

    /// Whether it may be sent again although it may have been carried out: what makes tokens changes
    /// nothing else, and an idempotency key tells the provider that it is the same.
    fn is_safe_again(&self) -> bool {
        self.asked.uses_tokens
            || self.asked.only_reads
            || self.head.headers.contains_key("idempotency-key")
    }

    /// Admits it once more: to a member of a pool that has not been tried, else, after the time that
    /// the provider names, to any. Nothing, if it is not to be sent again. After the last attempt only
    /// members are left where it never was.
    async fn again<'g>(
        &self,
        gateway: &'g Arc<Inner>,
        unserved: &Unserved,
        tries: &mut Tries<'_>,
    ) -> Result<Option<Admitted<'g>>, Refusal> {
        let usual = || PAUSE.saturating_mul(2_u32.saturating_pow(tries.attempts - 1));
        let pause = unserved.after.unwrap_or_else(usual);
        let is_last = tries.attempts >= gateway.settings.attempts;
        let here = unserved.here && !is_last && pause <= self.may_wait(gateway);
        let passed_over = match is_last {
            true => &tries.visited,
            false => &tries.tried,
        };
        let has_others = match here {
            true => self.has_others_within_reach(gateway, passed_over),
            false => self.has_others(passed_over),
        };
        if unserved.elsewhere && has_others {
            let others = Among {
                passed_over,
                // One that may be sent there again does not wait for others.
                wait: match here {
                    true => Duration::ZERO,
                    false => self.may_wait(gateway),
                },
                is_further: true,
            };
            if let Ok(admitted) = self.admitted(gateway, others).await {
                return Ok(Some(admitted));
            }
        }
        if !here {
            return Ok(None);
        }
        sleep(pause).await;
        tries.tried.clear();
        let admitted = self.admitted(gateway, self.anywhere(gateway)).await;
        admitted.map(Some)
    }

    /// What it holds from now on, and where it goes.
    async fn admitted<'g>(
        &self,
        gateway: &'g Arc<Inner>,
        among: Among<'_>,
    ) -> Result<Admitted<'g>, Refusal> {
        let asked = Instant::now();
        let admitted = self.admitted_within_reach(gateway, among).await;
        let figures = gateway.usage.of(&self.key, &self.model);
        figures.waited(asked.elapsed());
        admitted
    }

    /// It goes to a member that can be reached, or tries one that could not be, if no other call does;
    /// where none can be, to any.
    async fn admitted_within_reach<'g>(
        &self,
        gateway: &'g Arc<Inner>,
        among: Among<'_>,
    ) -> Result<Admitted<'g>, Refusal> {
        let by = Instant::now() + among.wait;
        let mut passed_over: SmallVec<[&str; 4]> = among.passed_over.into();
        loop {
            let mut all = passed_over.clone();
            all.extend(self.out_of_reach(gateway, &passed_over));
            let within_reach = Among {
                passed_over: &all,
                wait: by.saturating_duration_since(Instant::now()),
                ..among
            };
            let (held, reserved) = self.admitted_among(gateway, within_reach).await?;
            let member = self.member(held.member());
            let upstream = gateway.settings.upstream(held.member());
            let trip = gateway.reach.trip(upstream.map_or("", |one| &one.name));
            // It may have been found out of reach, or tried by another, while this call waited.
            passed_over.extend(member.map(|member| &*member.name));
            if trip.is_passed_over() && self.has_others_within_reach(gateway, &passed_over) {
                held.cancel().await;
                continue;
            }
            return Ok(Admitted {
                held,
                reserved,
                trip,
            });
        }
    }

    /// Where a learnt limit has fallen and the provider still counts what was used before, it goes
    /// to another member of the pool that has room; else it waits where that is soonest.
    async fn admitted_among(
        &self,
        gateway: &Arc<Inner>,
        among: Among<'_>,
    ) -> Result<(Held, Reserved), Refusal> {
        let by = Instant::now() + among.wait;
        let mut granted = self.granted(gateway, among).await?;
        let mut waits = granted.0.wait_to_send().map(|(_, after)| after);
        let mut passed_over = among.passed_over.to_vec();
        passed_over.extend(self.member(granted.0.member()).map(|one| &*one.name));
        while waits.is_some() && self.has_others(&passed_over) {
            let others = Among {
                passed_over: &passed_over,
                wait: Duration::ZERO,
                is_further: true,
            };
            let Ok(mut other) = self.granted(gateway, others).await else {
                break;
            };
            let Some(member) = self.member(other.0.member()) else {
                break;
            };
            passed_over.push(&member.name);
            let other_waits = other.0.wait_to_send().map(|(_, after)| after);
            if other_waits < waits {
                (waits, granted, other) = (other_waits, other, granted);
            }
            other.0.cancel().await;
        }
        let (mut held, reserved) = granted;
        if waits.is_some() {
            held = self.drained(gateway, held, among, by).await?;
        }
        Ok((held, reserved))
    }

    /// What the limits have granted it.
    async fn granted(
        &self,
        gateway: &Arc<Inner>,
        among: Among<'_>,
    ) -> Result<(Held, Reserved), Refusal> {
        let reserved = self.reserved(gateway);
        let mut turn = None;
        let mut known = charge::capacities(&self.active, &self.key);
        let mut amounts = self.amounts(gateway, among, reserved);
        let whose = (&self.caller, &self.active);
        if self.takes_nothing(&amounts) {
            let member = self.member_without_lease(among);
            let nothing = (None, &amounts, learning::Sent::default());
            let held = Held::new(gateway, whose, &self.key, member, nothing);
            return Ok((held, reserved));
        }
        let answered = loop {
            let asked = self
                .ask(gateway, among, reserved, (&amounts, &mut turn))
                .await;
            let never = match asked {
                Ok(answered) => break answered,
                Err(Unadmitted::Refused(refusal)) => return Err(refusal),
                Err(Unadmitted::Never(error)) => error,
            };
            // A limit may have fallen while the call waited: it waits on for what there is.
            amounts = self.amounts(gateway, among, reserved);
            let now = charge::capacities(&self.active, &self.key);
            if known == now {
                self.untried(gateway, never, &amounts)?;
                amounts = self.amounts(gateway, among, reserved);
            }
            known = now;
        };
        let Answered::Acquired(acquisition) = answered else {
            unreachable!("an acquisition is answered by one");
        };
        let (active, acquired) = (&acquisition.active, &acquisition.acquired);
        if let Acquired::Refused(_) = acquired {
            let told = acquisition.told();
            let limit = told.binding();
            if let Some(limit) = limit {
                self.refused(gateway, among, limit);
            }
            gateway.learning.refused(active, told.decision());
            let wanted = taken_of(gateway, limit.unwrap_or_default(), &amounts);
            return Err(Refusal::limit(active.policy(), &told, wanted));
        }
        let counted = gateway.learning.granted(active, acquired, &amounts);
        let (granted, member) = match acquired {
            Acquired::Granted(granted) => (Some(granted), granted.member()),
            _ => (None, self.member_without_lease(among)),
        };
        let whose = (&self.caller, active);
        let mut held = Held::new(
            gateway,
            whose,
            &self.key,
            member,
            (granted, &amounts, counted),
        );
        held.charged(turn.map(Turn::started));
        if let Some(undelivered) = &acquisition.lease {
            undelivered.deliver();
        }
        Ok((held, reserved))
    }

    /// That limit has refused it.
    fn refused(&self, gateway: &Inner, among: Among<'_>, limit: &str) {
        if !among.is_further {
            let figures = gateway.usage.of(&self.key, &self.model);
            figures.refused(&self.active.policy().name, limit);
        }
    }

    /// Waits on where a learnt limit has fallen and the provider still counts what was used before.
    async fn drained(
        &self,
        gateway: &Inner,
        mut held: Held,
        among: Among<'_>,
        by: Instant,
    ) -> Result<Held, Refusal> {
        while let Some((limit, after)) = held.wait_to_send() {
            let after = after.as_duration();
            if after > by.saturating_duration_since(Instant::now()) {
                self.refused(gateway, among, limit);
                let refusal = Refusal::fallen(&self.active.policy().name, limit, after);
                held.cancel().await;
                return Err(refusal);
            }
            sleep(after).await;
        }
        Ok(held)
    }

    /// What is estimated for it.
    fn reserved(&self, gateway: &Inner) -> Reserved {
        if !self.asked.uses_tokens {
            return Reserved {
                input: 0,
                output: 0,
            };
        }
        let key = String::from_utf8_lossy(&self.key);
        let provider = gateway.settings.provider();
        let reserved = gateway.reserve(provider, &self.model, &key, &self.asks);
        reserved.at_least_one(self.asked.is_prompt_alone)
    }

    /// Whether no limit counts anything of it: then there is nothing to ask for, and to hold.
    fn takes_nothing(&self, amounts: &Amounts<'_>) -> bool {
        let mut limits = self.active.policy().limit_lists().flatten();
        let counts_calls = limits.any(|limit| limit.is_counted() || limit.is_concurrency());
        !counts_calls && units(amounts).iter().all(|(_, units)| *units == 0)
    }

    /// The members of a pool that it may go to now: those that do not cool down, or all, where each
    /// does.
    fn open_members(&self, among: Among<'_>) -> SmallVec<[&Member; 4]> {
        let members = self.active.members().iter();
        let members = members.filter(|member| !among.passed_over.contains(&member.name()));
        let (ready, cooling): (SmallVec<_>, SmallVec<_>) =
            members.partition(|member| member.cooling().is_none());
        match ready.is_empty() {
            true => cooling,
            false => ready,
        }
    }

    /// The member of a pool that a call without a lease goes to: the first of them.
    fn member_without_lease(&self, among: Among<'_>) -> Option<&str> {
        let members = self.open_members(among);
        members.first().map(|member| member.name())
    }

    /// What it is to take, of limits that go by what is known.
    fn amounts(&self, gateway: &Inner, among: Among<'_>, reserved: Reserved) -> Amounts<'_> {
        gateway.learning.prepare(&self.active);
        let members = self.open_members(among);
        let sets: SmallVec<[&LimitSet; 4]> = match members.is_empty() {
            true => self.active.sets().collect(),
            false => members.iter().map(|member| member.set()).collect(),
        };
        let whose = (self.active.policy(), &*self.key);
        let settings = &gateway.settings;
        settings.reserve(whose, &sets, reserved, &self.cost)
    }

    /// Asks for that, for as long as it may wait, once it is its turn.
    async fn ask<'a>(
        &'a self,
        gateway: &Inner,
        among: Among<'a>,
        reserved: Reserved,
        (amounts, turn): (&Amounts<'a>, &mut Option<Turn<'a>>),
    ) -> Result<Answered, Unadmitted> {
        if turn.is_none() {
            *turn = self.turn(gateway, among.wait, reserved, amounts).await?;
        }
        let wait = turn.as_ref().map_or(among.wait, Turn::left);
        let question = Question {
            policy: &self.active.policy().name,
            whose: self.key[..].into(),
            amounts: amounts.clone(),
            ..Question::default()
        };
        let terms = Terms {
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            standings: learning::learns(self.active.policy()),
            passed_over: among.passed_over,
            ..Terms::default()
        };
        let call = Call::Acquire(question, terms);
        let asked = gateway.service.call(&self.caller, call);
        Ok(match turn {
            None => asked.await?,
            Some(turn) => turn.wait_for(asked).await?,
        })
    }

    /// It wants more than there is. Where that is what is tried of a limit that nobody says, there
    /// may be more of it at some time, or is now.
    ///
    /// # Errors
    /// [`Refusal`], unless there is now.
    fn untried(
        &self,
        gateway: &Inner,
        never: ServiceError,
        amounts: &Amounts<'_>,
    ) -> Result<(), Refusal> {
        let ServiceError::Never { limit, most } = &never else {
            return Err(never.into());
        };
        let wanted = units(amounts).into_iter().find(|(name, _)| name == limit);
        let after = wanted.and_then(|wanted| {
            let now = self.active.now();
            gateway.learning.wanted(&self.active, wanted, now)
        });
        match after {
            Some(Span::ZERO) => Ok(()),
            Some(after) => Err(Refusal::untried(
                &self.active.policy().name,
                limit,
                after.as_duration(),
            )),
            None => Err(match taken_of(gateway, limit, amounts) {
                None => never.into(),
                Some((counts, wanted)) => {
                    let policy = self.active.policy();
                    let wanted = self.active.unit(limit).show(wanted).to_string();
                    Refusal::prompt(policy, (limit, most), (counts, &wanted))
                }
            }),
        }
    }

    /// Its turn among the callers that share its limits, where those queue.
    async fn turn<'a>(
        &'a self,
        gateway: &Inner,
        wait: Duration,
        reserved: Reserved,
        amounts: &Amounts<'a>,
    ) -> Result<Option<Turn<'a>>, Unadmitted> {
        let Some(queues) = &gateway.fair else {
            return Ok(None);
        };
        let entering = Entering {
            active: &self.active,
            key: &self.key,
            credential: &self.who,
            amounts: units(amounts),
            tokens: reserved.input.saturating_add(reserved.output),
            wait,
        };
        Ok(Some(queues.turn(&gateway.settings, entering).await?))
    }

    async fn forward(
        &self,
        gateway: &Arc<Inner>,
        admitted: Admitted<'_>,
        connected_within: Duration,
    ) -> Result<Forwarded, Refusal> {
        let settings = &gateway.settings;
        let Admitted {
            mut held,
            reserved,
            mut trip,
        } = admitted;
        let Some(upstream) = settings.upstream(held.member()) else {
            let member = held.member().unwrap_or_default().to_owned();
            held.cancel().await;
            return Err(Refusal::nowhere(&member));
        };
        held.mark_sent();
        let Sent {
            response,
            begun,
            asked_usage,
        } = match self
            .send(gateway, upstream, &mut trip, connected_within)
            .await
        {
            Ok(sent) => sent,
            Err(Unanswered {
                refusal,
                was_sent,
                was_silent,
            }) => {
                gateway.meters.refused(&upstream.name, "unreachable");
                gateway.health.failed(&upstream.name, refusal.message());
                if was_silent {
                    held.dropped();
                }
                match was_sent {
                    true => held.lost().await,
                    false => held.cancel().await,
                }
                return Ok(Forwarded::Unserved(Box::new(Unserved {
                    answer: Err(refusal),
                    elsewhere: !was_sent,
                    here: false,
                    after: None,
                })));
            }
        };
        // Before the store is told, which may take a second.
        let took = held.since_sent();
        let received = Received::new(self.active.now(), response.headers());
        let signals = Signals::read(upstream.provider, response.headers(), received);
        gateway.meters.ignored.increment(u64::from(signals.ignored));
        if self.asked.uses_tokens && response.status().is_redirection() {
            let to = response.headers().get(header::LOCATION);
            let to = to.and_then(|to| to.to_str().ok());
            let refusal = Refusal::redirected(&upstream.name, response.status(), to);
            return Ok(redirected(gateway, held, upstream, refusal).await);
        }
        if response.status().as_u16() >= 400 {
            let failed = self.failed(
                gateway,
                held,
                upstream,
                (response, begun),
                (&signals, received),
            );
            return Ok(Forwarded::Unserved(Box::new(failed.await)));
        }
        learning::answered(gateway, &mut held, Came::Accepted, &signals, received.at()).await;
        gateway.meters.accepted(&upstream.name);
        gateway.health.answered(&upstream.name);
        let policy = held.active().policy();
        let covered = settings.covered(policy, held.amounts(), reserved, &self.cost);
        let settling = Settling {
            took,
            gateway: Arc::clone(gateway),
            held,
            provider: upstream.provider,
            model: self.model.clone(),
            key: Arc::clone(&self.key),
            request: self.asks.clone(),
            reserved,
            covered,
            cost: self.cost,
            usage: Usage::of_headers(response.headers()),
            uses_tokens: self.asked.uses_tokens,
        };
        Ok(Forwarded::Answered(Box::new(self.passing(
            gateway,
            response,
            asked_usage,
            settling,
        ))))
    }

    /// What the upstream answers. A stream is asked for its usage; whoever refuses that is asked once
    /// more without it, which is the same call to the caller's limits.
    async fn send(
        &self,
        gateway: &Inner,
        upstream: &Upstream,
        trip: &mut Trip<'_>,
        connected_within: Duration,
    ) -> Result<Sent, Unanswered> {
        let within = Within {
            connected: connected_within,
            answered: gateway.settings.answer_within,
        };
        let mut send = async |body: Bytes| {
            let call = || upstream.call(self.head, body.clone());
            gateway.client.send(upstream, call, trip, within).await
        };
        let wants_usage = self.wants_usage && !upstream.provider.streams_say_usage();
        let has_options = self.asks.has_stream_options;
        let with_usage = wants_usage.then(|| with_usage(&self.body, has_options));
        let asked_usage = with_usage.flatten();
        let sent = |response, begun, asked_usage| Sent {
            response,
            begun,
            asked_usage,
        };
        let Some(asking) = asked_usage else {
            return Ok(sent(send(self.body.clone()).await?, None, false));
        };
        let response = send(asking).await?;
        if !matches!(response.status().as_u16(), 400 | 422) {
            return Ok(sent(response, None, true));
        }
        let (head, mut body) = response.into_parts();
        let begun = beginning(&mut body, &gateway.settings).await;
        // An API from before that option, or without it.
        if memchr::memmem::find(&begun, OPTION).is_some() {
            return Ok(sent(send(self.body.clone()).await?, None, false));
        }
        Ok(sent(Response::from_parts(head, body), Some(begun), true))
    }

    /// The provider's answer, on its way.
    fn passing(
        &self,
        gateway: &Inner,
        response: Response<Incoming>,
        asked_usage: bool,
        settling: Settling,
    ) -> Response<Answer> {
        let (mut head, body) = response.into_parts();
        let reading = match self.asked.uses_tokens {
            false => Reading::Nothing,
            true => Reading::begin(&head.headers),
        };
        let filter = asked_usage && matches!(reading, Reading::Stream(_));
        head.headers = forwarded(head.headers);
        let has_none = matches!(
            head.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
        if filter || has_none {
            head.headers.remove(header::CONTENT_LENGTH);
        }
        let passing = Passing::new(body, reading, filter, gateway.settings.pause, settling);
        Response::from_parts(head, Answer::Provider(Box::new(passing)))
    }

    /// An error's answer: a refusal that passes is asked again, the rest is the caller's to see.
    async fn failed(
        &self,
        gateway: &Arc<Inner>,
        mut held: Held,
        upstream: &Upstream,
        (response, begun): (Response<Incoming>, Option<Bytes>),
        (signals, received): (&Signals, Received),
    ) -> Unserved {
        let (mut head, mut body) = response.into_parts();
        let body = match begun {
            Some(begun) => begun,
            None => beginning(&mut body, &gateway.settings).await,
        };
        let status = head.status.as_u16();
        let refused = Refused::of(
            upstream.provider,
            status,
            &head.headers,
            signals,
            &body,
            received,
        );
        let kind = refused.map(|refused| refused.kind);
        gateway.meters.refused(&upstream.name, word(kind));
        match kind {
            Some(Kind::Failed) => gateway.health.failed(&upstream.name, head.status.as_str()),
            _ => gateway.health.answered(&upstream.name),
        }
        let after = refused
            .and_then(|refused| refused.retry_after)
            .map(|after| after.as_duration());
        let cools_down = refused.is_some_and(|refused| refused.kind.cools_down());
        if let Some(Kind::Rate | Kind::Overloaded) = refused.map(|refused| refused.kind) {
            held.dropped();
        }
        let came = match refused {
            Some(refused) if refused.kind == Kind::Rate => Came::Refused,
            Some(refused) if refused.may_have_run => Came::Lost,
            _ => Came::Failed,
        };
        learning::answered(gateway, &mut held, came, signals, received.at()).await;
        let named = self
            .member(held.member())
            .and_then(|member| member.cool_down);
        let usual = match refused.map(|refused| refused.kind) {
            Some(Kind::Quota | Kind::Spend) => Some(USED_UP),
            _ => None,
        };
        match refused.is_some_and(|refused| refused.may_have_run) {
            true => held.lost().await,
            false => {
                let believed = after.map(|after| after.min(LONGEST_COOL_DOWN));
                if cools_down && self.active.policy().is_pool() && believed < after {
                    let upstream = &*upstream.name;
                    warn!(
                        upstream,
                        ?after,
                        "a provider asked for a pause of more than an hour; its member is passed over for one hour"
                    );
                }
                held.refused(cools_down, believed.or(named).or(usual)).await;
            }
        }
        head.headers = forwarded(head.headers);
        head.headers.remove(header::CONTENT_LENGTH);
        if refused.is_some_and(|refused| refused.kind == Kind::Spend) {
            // SDKs ask again after any 429, unless they are told not to.
            let never = HeaderValue::from_static("false");
            head.headers.insert("x-should-retry", never);
        }
        // Whoever refuses for a rate has not taken it; of anything else that is not known.
        let is_safe = self.is_safe_again()
            || refused.is_some_and(|refused| {
                matches!(refused.kind, Kind::Rate | Kind::Quota | Kind::Spend)
            });
        let may_retry = refused.is_some_and(|refused| refused.may_retry);
        Unserved {
            answer: Ok(Response::from_parts(head, Answer::Own(Some(body)))),
            elsewhere: is_safe && (may_retry || cools_down),
            here: is_safe && may_retry,
            after,
        }
    }
}

/// An upstream that sends a call elsewhere has not answered it.
async fn redirected(
    gateway: &Inner,
    held: Held,
    upstream: &Upstream,
    refusal: Refusal,
) -> Forwarded {
    gateway.meters.refused(&upstream.name, word(None));
    gateway.health.failed(&upstream.name, refusal.message());
    held.refused(true, Some(REDIRECTED)).await;
    Forwarded::Unserved(Box::new(Unserved {
        answer: Err(refusal),
        elsewhere: true,
        here: false,
        after: None,
    }))
}

/// What comes of an error's body in time, up to the longest that passes.
async fn beginning(body: &mut Incoming, settings: &Settings) -> Bytes {
    let within = settings.pause.min(ERROR_WITHIN);
    let (by, mut begun) = (Instant::now() + within, BytesMut::new());
    while begun.len() < LONGEST_ERROR
        && let Ok(Some(Ok(frame))) = timeout_at(by, body.frame()).await
    {
        begun.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    begun.truncate(LONGEST_ERROR);
    begun.freeze()
}

/// Whether a call would become a WebSocket. Other upgrades are offers that a server may pass over, as
/// that to HTTP/2 which Java's client makes every server.
fn is_web_socket(headers: &HeaderMap) -> bool {
    let upgrades = headers.get_all(header::UPGRADE).iter();
    let mut upgrades = upgrades.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    upgrades.any(|to| to.trim_ascii().eq_ignore_ascii_case(b"websocket"))
}

/// What a metric calls an error.
const fn word(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::Rate) => "rate",
        Some(Kind::Quota) => "quota",
        Some(Kind::Spend) => "spend",
        Some(Kind::Overloaded) => "overloaded",
        Some(Kind::Failed) => "failed",
        _ => "error",
    }
}
