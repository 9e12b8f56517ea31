//! Each call, over the gate.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate::gate::{Answer, Caller, Entry, Gate, GateError, Scope, Served};
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::places::Places;
use crate::proto::tidegate_server::Tidegate;
use crate::settings::Settings;
use crate::{denials, proto, words};

/// The most asks in one batch.
const MOST_CHECKS: usize = 1_000;

type Reply<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The gate, as a gRPC service.
#[derive(Clone, Debug)]
pub struct Service {
    gate: Gate,
    longest_wait: Duration,
    /// For calls that stay open.
    long_calls: Places,
}

impl Service {
    pub fn new(gate: Gate, settings: &Settings) -> Self {
        Self {
            gate,
            longest_wait: settings.longest_wait,
            long_calls: Places::new(settings.max_long_calls),
        }
    }

    fn caller(&self, metadata: &MetadataMap) -> Result<Caller, Status> {
        let token = metadata.get("authorization").and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme
                .eq_ignore_ascii_case("bearer")
                .then_some(token.trim())
        });
        self.gate
            .enter(token)
            .map_err(|error| words::status(&error))
    }

    fn policy(&self, caller: &Caller, scope: Scope, name: &str) -> Result<Arc<Served>, Status> {
        let policy = self.gate.policy(caller, scope, name);
        policy.map_err(|error| words::status(&error))
    }

    /// The caller of a request, with the policy that it names.
    fn enter<T>(
        &self,
        request: &Request<T>,
        scope: Scope,
        name: impl Fn(&T) -> &str,
    ) -> Result<Arc<Served>, Status> {
        let caller = self.caller(request.metadata())?;
        self.policy(&caller, scope, name(request.get_ref()))
    }

    /// One check of several: a problem is an answer there.
    fn one_of_many(&self, caller: &Caller, request: &proto::CheckRequest) -> proto::CheckResponse {
        let policy = self.gate.policy(caller, Scope::Decide, &request.policy);
        match policy.and_then(|policy| check(&policy, request)) {
            Ok(answer) => words::answer(&answer),
            Err(error) => words::problem(&error),
        }
    }

    fn many(
        &self,
        caller: &Caller,
        request: &proto::CheckManyRequest,
    ) -> Result<proto::CheckManyResponse, Status> {
        if request.checks.len() > MOST_CHECKS {
            return Err(Status::invalid_argument(format!(
                "{} checks are too many; send at most {MOST_CHECKS} at once",
                request.checks.len()
            )));
        }
        let answers = request.checks.iter();
        Ok(proto::CheckManyResponse {
            answers: answers
                .map(|check| self.one_of_many(caller, check))
                .collect(),
            correlation: request.correlation,
        })
    }

    fn longest_wait(&self, asked: Option<u64>) -> Option<Duration> {
        asked.map(|ms| Duration::from_millis(ms).min(self.longest_wait))
    }

    /// The policy, key and id of a request that names a lease.
    fn lease<'r, T>(
        &self,
        request: &'r Request<T>,
        named: impl Fn(&'r T) -> Option<&'r proto::LeaseRequest>,
    ) -> Result<(Arc<Served>, &'r [u8], tidegate::LeaseId), Status> {
        let missing = || Status::invalid_argument("the request names no lease");
        let lease = named(request.get_ref()).ok_or_else(missing)?;
        let caller = self.caller(request.metadata())?;
        let policy = self.policy(&caller, Scope::Decide, &lease.policy)?;
        Ok((policy, &lease.key, words::lease_id(&lease.lease)?))
    }
}

fn check(policy: &Served, request: &proto::CheckRequest) -> Result<Answer, GateError> {
    let named = words::named(&request.amounts);
    policy.check(words::key(&request.key), words::ask(request, &named))
}

fn reply<T>(answer: Result<T, GateError>) -> Reply<T> {
    answer
        .map(Response::new)
        .map_err(|error| words::status(&error))
}

#[tonic::async_trait]
impl Tidegate for Service {
    type CheckStreamStream = Answers<proto::CheckManyResponse>;
    type WatchDenialsStream = Answers<proto::Denial>;

    async fn check(&self, request: Request<proto::CheckRequest>) -> Reply<proto::CheckResponse> {
        let policy = self.enter(&request, Scope::Decide, |r| &r.policy)?;
        reply(check(&policy, request.get_ref()).map(|answer| words::answer(&answer)))
    }

    async fn check_many(
        &self,
        request: Request<proto::CheckManyRequest>,
    ) -> Reply<proto::CheckManyResponse> {
        let caller = self.caller(request.metadata())?;
        self.many(&caller, request.get_ref()).map(Response::new)
    }

    async fn check_stream(
        &self,
        request: Request<Streaming<proto::CheckManyRequest>>,
    ) -> Reply<Self::CheckStreamStream> {
        let caller = self.caller(request.metadata())?;
        let (service, place) = (self.clone(), self.long_calls.place()?);
        let batches = request.into_inner();
        let answers = batches.map(move |batch| {
            let _kept = &place;
            service.many(&caller, &batch?)
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn acquire(
        &self,
        request: Request<proto::AcquireRequest>,
    ) -> Reply<proto::AcquireResponse> {
        let caller = self.caller(request.metadata())?;
        // Whoever may wait gives their place back, with the request's head.
        let request = request.into_inner();
        let missing = || Status::invalid_argument("the request has no `ask`");
        let about = request.ask.as_ref().ok_or_else(missing)?;
        let policy = self.policy(&caller, Scope::Decide, &about.policy)?;
        let named = words::named(&about.amounts);
        let mut ask = words::ask(about, &named);
        let priority = u8::try_from(request.priority);
        ask = ask.priority(priority.map_err(|_| Status::invalid_argument("priority is 0 to 255"))?);
        if let Some(wait) = self.longest_wait(request.wait_ms) {
            ask = ask.within(wait);
        }
        if let Some(ttl) = request.ttl_ms {
            ask = ask.ttl(Duration::from_millis(ttl));
        }
        if !request.idempotency_key.is_empty() {
            ask = ask.idempotency(&request.idempotency_key);
        }
        let entry = policy.acquire(words::key(&about.key), ask).await;
        reply(entry.map(|entry| acquired(&entry)))
    }

    async fn settle(&self, request: Request<proto::SettleRequest>) -> Reply<proto::SettleResponse> {
        let (policy, key, id) = self.lease(&request, |r| r.lease.as_ref())?;
        let used = words::named(&request.get_ref().used);
        let settled = policy.settle(words::key(key), id, &used);
        reply(settled.map(|settled| words::settlement(&settled)))
    }

    async fn release(&self, request: Request<proto::LeaseRequest>) -> Reply<proto::SettleResponse> {
        let (policy, key, id) = self.lease(&request, Some)?;
        let released = policy.release(words::key(key), id);
        reply(released.map(|released| words::settlement(&released)))
    }

    async fn cancel(&self, request: Request<proto::LeaseRequest>) -> Reply<proto::SettleResponse> {
        let (policy, key, id) = self.lease(&request, Some)?;
        let cancelled = policy.cancel(words::key(key), id);
        reply(cancelled.map(|cancelled| words::settlement(&cancelled)))
    }

    async fn renew(&self, request: Request<proto::RenewRequest>) -> Reply<proto::RenewResponse> {
        let (policy, key, id) = self.lease(&request, |r| r.lease.as_ref())?;
        let ttl = Duration::from_millis(request.get_ref().ttl_ms);
        let renewed = policy.renew(words::key(key), id, ttl);
        reply(renewed.map(|at| proto::RenewResponse {
            expires_at_us: at.as_micros(),
        }))
    }

    async fn debit(&self, request: Request<proto::CheckRequest>) -> Reply<proto::CheckResponse> {
        let policy = self.enter(&request, Scope::Decide, |r| &r.policy)?;
        let request = request.get_ref();
        let named = words::named(&request.amounts);
        let answer = policy.debit(words::key(&request.key), words::ask(request, &named));
        reply(answer.map(|answer| words::answer(&answer)))
    }

    async fn peek(&self, request: Request<proto::CheckRequest>) -> Reply<proto::CheckResponse> {
        let policy = self.enter(&request, Scope::Observe, |r| &r.policy)?;
        let request = request.get_ref();
        let named = words::named(&request.amounts);
        let peeked = policy.peek(words::key(&request.key), words::ask(request, &named));
        reply(peeked.map(|peeked| words::decision(&peeked)))
    }

    async fn forecast(
        &self,
        request: Request<proto::CheckRequest>,
    ) -> Reply<proto::ForecastResponse> {
        let policy = self.enter(&request, Scope::Observe, |r| &r.policy)?;
        let request = request.get_ref();
        let named = words::named(&request.amounts);
        let foreseen = policy.forecast(words::key(&request.key), words::ask(request, &named));
        reply(foreseen.map(|foreseen| {
            let limits = foreseen.iter();
            let limits = limits.map(|(name, one)| (name.clone(), words::forecast(one)));
            proto::ForecastResponse {
                limits: limits.collect(),
            }
        }))
    }

    async fn reset(&self, request: Request<proto::ResetRequest>) -> Reply<proto::ResetResponse> {
        let caller = self.caller(request.metadata())?;
        let request = request.get_ref();
        let policy = self.policy(&caller, Scope::Administer, &request.policy)?;
        let reset = policy.reset(&caller, words::key(&request.key));
        reply(reset.map(|()| proto::ResetResponse {}))
    }

    async fn list_policies(
        &self,
        request: Request<proto::ListPoliciesRequest>,
    ) -> Reply<proto::ListPoliciesResponse> {
        let caller = self.caller(request.metadata())?;
        let policies = self.gate.policies(&caller);
        let policies = policies.iter().map(|served| {
            let policy = served.policy();
            proto::Policy {
                name: policy.name.clone(),
                limits: policy.limits.iter().map(|l| l.name().to_owned()).collect(),
                levels: policy.levels.clone(),
            }
        });
        Ok(Response::new(proto::ListPoliciesResponse {
            policies: policies.collect(),
        }))
    }

    async fn watch_denials(
        &self,
        request: Request<proto::WatchDenialsRequest>,
    ) -> Reply<Self::WatchDenialsStream> {
        let caller = self.caller(request.metadata())?;
        let policy = request.into_inner().policy;
        if !policy.is_empty() {
            self.policy(&caller, Scope::Observe, &policy)?;
        }
        let place = self.long_calls.place()?;
        let denials = denials::watch(&self.gate, caller, policy).map(move |denial| {
            let _kept = &place;
            denial
        });
        Ok(Response::new(Box::pin(denials)))
    }
}

fn acquired(entry: &Entry) -> proto::AcquireResponse {
    let (decision, lease) = match entry {
        Entry::Granted(ticket) => {
            let admitted = proto::CheckResponse {
                admitted: true,
                ..Default::default()
            };
            (admitted, Some(words::lease(ticket)))
        }
        Entry::Refused(decision) => (words::decision(decision), None),
        Entry::Degraded(_) => (words::degraded(), None),
    };
    proto::AcquireResponse {
        decision: Some(decision),
        lease,
    }
}
