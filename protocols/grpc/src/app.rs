//! Each call, over the service.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_protocol::bearer;
use tidegate_service::{
    self, Answer, Caller, Entry, Finish, Scope, Served, Service, ServiceError, Told, Undelivered,
    bounds,
};
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::long_calls::LongCalls;
use crate::proto::tidegate_server::Tidegate;
use crate::settings::Settings;
use crate::{denials, error, listing, overrides, proto, words};

type Reply<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service, as a gRPC service.
#[derive(Clone, Debug)]
pub struct App {
    service: Service,
    /// For calls that stay open.
    long_calls: LongCalls,
}

impl App {
    pub fn new(service: Service, settings: &Settings) -> Self {
        Self {
            service,
            long_calls: LongCalls::new(settings.max_long_calls, settings.max_long_calls_of_one),
        }
    }

    fn caller(&self, metadata: &MetadataMap) -> Result<Caller, Status> {
        let header = metadata.get("authorization");
        let token = header.and_then(|value| bearer(value.as_encoded_bytes()));
        self.service
            .enter_by(token)
            .map_err(|wrong| error::status(&wrong))
    }

    fn policy(&self, caller: &Caller, scope: Scope, name: &str) -> Result<Arc<Served>, Status> {
        let policy = self.service.policy(caller, scope, name);
        policy.map_err(|wrong| error::status(&wrong))
    }

    fn policy_for(
        &self,
        caller: &Caller,
        scope: Scope,
        name: &str,
        key: &[u8],
    ) -> Result<Arc<Served>, Status> {
        let policy = self.service.policy_for(caller, scope, name, key.into());
        policy.map_err(|wrong| error::status(&wrong))
    }

    /// The policy of a request about a key, if its caller may use it like this.
    fn enter(
        &self,
        request: &Request<proto::CheckRequest>,
        scope: Scope,
    ) -> Result<Arc<Served>, Status> {
        let caller = self.caller(request.metadata())?;
        let request = request.get_ref();
        self.policy_for(&caller, scope, &request.policy, &request.key)
    }

    /// The policy of one check of several: a problem is its answer.
    fn one_of_many(
        &self,
        caller: &Caller,
        request: &proto::CheckRequest,
    ) -> Result<Arc<Served>, proto::Problem> {
        words::no_member(request).map_err(|status| error::invalid(status.message()))?;
        let key = words::key(&request.key);
        let policy = &request.policy;
        Ok(self
            .service
            .policy_for(caller, Scope::Decide, policy, key)?)
    }

    async fn many(
        &self,
        caller: &Caller,
        request: &proto::CheckManyRequest,
    ) -> Result<proto::CheckManyResponse, Status> {
        let room = bounds::checks(request.checks.len());
        room.map_err(|wrong| error::status(&wrong))?;
        let checks = request.checks.iter();
        let named: Vec<_> = checks
            .clone()
            .map(|one| words::named(&one.amounts))
            .collect();
        let asked = checks.zip(&named).map(|(one, named)| {
            let policy = self.one_of_many(caller, one)?;
            let ask = words::ask(&policy, one, named)?;
            Ok((policy, words::key(&one.key), ask))
        });
        let answers = tidegate_service::check_many::<proto::Problem>(asked.collect()).await;
        let answers = answers.into_iter().map(|checked| match checked {
            Ok((policy, answer)) => words::told(&Told::answered(&policy, &answer)),
            Err(problem) => words::problem(problem),
        });
        let answers = answers.collect();
        Ok(proto::CheckManyResponse {
            answers,
            correlation: request.correlation,
        })
    }

    /// The policy and lease of a request that names one.
    fn lease<'r, T>(
        &self,
        request: &'r Request<T>,
        named: impl Fn(&'r T) -> Option<&'r proto::LeaseRequest>,
    ) -> Result<(Arc<Served>, &'r proto::LeaseRequest, tidegate::LeaseId), Status> {
        let missing = || Status::invalid_argument("the request names no lease");
        let caller = self.caller(request.metadata())?;
        let lease = named(request.get_ref()).ok_or_else(missing)?;
        let id = words::lease_id(&lease.lease)?;
        let policy = self.policy_for(&caller, Scope::Decide, &lease.policy, &lease.key)?;
        Ok((policy, lease, id))
    }
}

async fn check(policy: &Served, request: &proto::CheckRequest) -> Result<Answer, ServiceError> {
    let named = words::named(&request.amounts);
    policy
        .check(
            words::key(&request.key),
            words::ask(policy, request, &named)?,
        )
        .await
}

/// Ends a lease, with what is said of its work.
async fn end(
    policy: &Served,
    lease: &proto::LeaseRequest,
    id: tidegate::LeaseId,
    how: Finish<'_>,
) -> Reply<proto::SettleResponse> {
    let report = words::report(lease)?;
    let finished = policy
        .finish(words::key(&lease.key), id, how, &report)
        .await;
    reply(finished.map(|finished| words::finished(&finished)))
}

fn reply<T>(answer: Result<T, ServiceError>) -> Reply<T> {
    answer
        .map(Response::new)
        .map_err(|wrong| error::status(&wrong))
}

#[tonic::async_trait]
impl Tidegate for App {
    type CheckStreamStream = Answers<proto::CheckManyResponse>;
    type WatchDenialsStream = Answers<proto::Denial>;

    async fn check(&self, request: Request<proto::CheckRequest>) -> Reply<proto::CheckResponse> {
        let policy = self.enter(&request, Scope::Decide)?;
        words::no_member(request.get_ref())?;
        let answer = check(&policy, request.get_ref()).await;
        reply(answer.map(|answer| words::told(&Told::answered(&policy, &answer))))
    }

    async fn check_many(
        &self,
        request: Request<proto::CheckManyRequest>,
    ) -> Reply<proto::CheckManyResponse> {
        let caller = self.caller(request.metadata())?;
        self.many(&caller, request.get_ref())
            .await
            .map(Response::new)
    }

    async fn check_stream(
        &self,
        request: Request<Streaming<proto::CheckManyRequest>>,
    ) -> Reply<Self::CheckStreamStream> {
        let caller = self.caller(request.metadata())?;
        let place = self.long_calls.take(&caller)?;
        let service = self.clone();
        let batches = request.into_inner();
        let within = Arc::new((service, caller, place));
        let answers = batches.then(move |batch| {
            let within = Arc::clone(&within);
            async move {
                let (service, caller, _kept) = &*within;
                let caller = service.service.readmit(caller);
                let caller = caller.map_err(|wrong| error::status(&wrong))?;
                service.many(&caller, &batch?).await
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn acquire(
        &self,
        request: Request<proto::AcquireRequest>,
    ) -> Reply<proto::AcquireResponse> {
        let caller = self.caller(request.metadata())?;
        let (_, place, request) = request.into_parts();
        // Whoever waits gives their place back.
        let _kept = request
            .wait_ms
            .is_none_or(|wait| wait == 0)
            .then_some(place);
        let missing = || Status::invalid_argument("the request has no `ask`");
        let about = request.ask.as_ref().ok_or_else(missing)?;
        words::no_member(about)?;
        let priority = bounds::priority(request.priority.into());
        let priority = priority.map_err(|wrong| error::status(&wrong))?;
        let policy = self.policy_for(&caller, Scope::Decide, &about.policy, &about.key)?;
        let named = words::named(&about.amounts);
        let ask = words::ask(&policy, about, &named);
        let mut ask = ask.map_err(|wrong| error::status(&wrong))?;
        ask = ask.priority(priority);
        if let Some(wait) = request.wait_ms {
            ask = ask.within(Duration::from_millis(wait));
        }
        if request.wait_for_refunds {
            ask = ask.wait_for_refunds();
        }
        if let Some(ttl) = request.ttl_ms {
            ask = ask.ttl(Duration::from_millis(ttl));
        }
        if let Some(key) = &request.idempotency_key {
            ask = ask.idempotency(key);
        }
        let key = words::key(&about.key);
        let entry = policy.acquire(key, ask).await;
        let entry = entry.map_err(|wrong| error::status(&wrong))?;
        let lease = Undelivered::of(&policy, key, &entry, request.idempotency_key.is_some());
        let mut response = Response::new(acquired(&policy, &entry));
        if let Some(lease) = lease {
            response.extensions_mut().insert(Arc::new(lease));
        }
        Ok(response)
    }

    async fn settle(&self, request: Request<proto::SettleRequest>) -> Reply<proto::SettleResponse> {
        let (policy, lease, id) = self.lease(&request, |r| r.lease.as_ref())?;
        let used = words::named(&request.get_ref().used);
        end(&policy, lease, id, Finish::Settle(&used)).await
    }

    async fn release(&self, request: Request<proto::LeaseRequest>) -> Reply<proto::SettleResponse> {
        let (policy, lease, id) = self.lease(&request, Some)?;
        end(&policy, lease, id, Finish::Release).await
    }

    async fn cancel(&self, request: Request<proto::LeaseRequest>) -> Reply<proto::SettleResponse> {
        let (policy, lease, id) = self.lease(&request, Some)?;
        end(&policy, lease, id, Finish::Cancel).await
    }

    async fn renew(&self, request: Request<proto::RenewRequest>) -> Reply<proto::RenewResponse> {
        let (policy, lease, id) = self.lease(&request, |r| r.lease.as_ref())?;
        let ttl = Duration::from_millis(request.get_ref().ttl_ms);
        let renewed = policy.renew(words::key(&lease.key), id, ttl).await;
        reply(renewed.map(|at| proto::RenewResponse {
            expires_at_us: at.as_micros(),
        }))
    }

    async fn adjust(&self, request: Request<proto::AdjustRequest>) -> Reply<proto::CheckResponse> {
        let (policy, lease, id) = self.lease(&request, |r| r.lease.as_ref())?;
        let to = words::named(&request.get_ref().amounts);
        let overdraw = request.get_ref().overdraw;
        let adjusted = policy.adjust(words::key(&lease.key), id, &to, overdraw);
        reply(
            adjusted
                .await
                .map(|decision| words::told(&Told::decided(&policy, &decision))),
        )
    }

    async fn debit(&self, request: Request<proto::CheckRequest>) -> Reply<proto::CheckResponse> {
        let policy = self.enter(&request, Scope::Decide)?;
        let request = request.get_ref();
        let named = words::named(&request.amounts);
        let member = words::member(&request.member);
        let ask = words::ask(&policy, request, &named);
        let ask = ask.map_err(|wrong| error::status(&wrong))?;
        let answer = policy.debit_at(member, words::key(&request.key), ask).await;
        reply(answer.map(|answer| words::told(&Told::answered(&policy, &answer))))
    }

    async fn peek(&self, request: Request<proto::CheckRequest>) -> Reply<proto::CheckResponse> {
        let policy = self.enter(&request, Scope::Observe)?;
        let request = request.get_ref();
        let (key, named) = (words::key(&request.key), words::named(&request.amounts));
        let member = words::member(&request.member);
        let ask = words::ask(&policy, request, &named);
        let ask = ask.map_err(|wrong| error::status(&wrong))?;
        let peeked = policy.peek_at(member, key, ask).await;
        reply(peeked.map(|peeked| {
            let about = member.or(peeked.member());
            let overridden = self.service.overridden(&policy, about, key);
            proto::CheckResponse {
                overrides: overrides::levels(overridden),
                ..words::told(&Told::decided(&policy, &peeked))
            }
        }))
    }

    async fn forecast(
        &self,
        request: Request<proto::CheckRequest>,
    ) -> Reply<proto::ForecastResponse> {
        let policy = self.enter(&request, Scope::Observe)?;
        let request = request.get_ref();
        let named = words::named(&request.amounts);
        let member = words::member(&request.member);
        let ask = words::ask(&policy, request, &named);
        let ask = ask.map_err(|wrong| error::status(&wrong))?;
        let foreseen = policy.forecast(member, words::key(&request.key), ask).await;
        reply(foreseen.map(|foreseen| words::forecasts(member, &foreseen)))
    }

    async fn reset(&self, request: Request<proto::ResetRequest>) -> Reply<proto::ResetResponse> {
        let caller = self.caller(request.metadata())?;
        let request = request.get_ref();
        let policy = self.policy_for(&caller, Scope::Administer, &request.policy, &request.key)?;
        let reset = policy.reset(&caller, words::key(&request.key)).await;
        reply(reset.map(|()| proto::ResetResponse {}))
    }

    async fn list_policies(
        &self,
        request: Request<proto::ListPoliciesRequest>,
    ) -> Reply<proto::ListPoliciesResponse> {
        let caller = self.caller(request.metadata())?;
        let policies = self.service.policies(&caller);
        Ok(Response::new(proto::ListPoliciesResponse {
            policies: policies
                .iter()
                .map(|served| words::policy(served))
                .collect(),
        }))
    }

    async fn list_keys(
        &self,
        request: Request<proto::ListKeysRequest>,
    ) -> Reply<proto::ListKeysResponse> {
        let caller = self.caller(request.metadata())?;
        let policy = self.policy(&caller, Scope::Observe, &request.get_ref().policy)?;
        listing::keys(&policy, request.get_ref())
            .await
            .map(Response::new)
    }

    async fn list_leases(
        &self,
        request: Request<proto::ListLeasesRequest>,
    ) -> Reply<proto::ListLeasesResponse> {
        let caller = self.caller(request.metadata())?;
        let policy = self.policy(&caller, Scope::Observe, &request.get_ref().policy)?;
        listing::leases(&policy, request.get_ref())
            .await
            .map(Response::new)
    }

    async fn revoke_lease(
        &self,
        request: Request<proto::RevokeLeaseRequest>,
    ) -> Reply<proto::SettleResponse> {
        let caller = self.caller(request.metadata())?;
        let request = request.get_ref();
        let handle = listing::handle(&request.handle)?;
        let policy = self.policy_for(&caller, Scope::Administer, &request.policy, &request.key)?;
        let revoked = policy
            .revoke(&caller, words::key(&request.key), handle)
            .await;
        reply(revoked.map(|finished| words::finished(&finished)))
    }

    async fn set_override(
        &self,
        request: Request<proto::SetOverrideRequest>,
    ) -> Reply<proto::Override> {
        let caller = self.caller(request.metadata())?;
        let set = overrides::set(&self.service, &caller, request.get_ref()).await;
        set.map(Response::new)
    }

    async fn remove_override(
        &self,
        request: Request<proto::RemoveOverrideRequest>,
    ) -> Reply<proto::RemoveOverrideResponse> {
        let caller = self.caller(request.metadata())?;
        let removed = overrides::remove(&self.service, &caller, request.get_ref()).await;
        removed.map(Response::new)
    }

    async fn list_overrides(
        &self,
        request: Request<proto::ListOverridesRequest>,
    ) -> Reply<proto::ListOverridesResponse> {
        let caller = self.caller(request.metadata())?;
        overrides::list(&self.service, &caller, request.get_ref()).map(Response::new)
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
        let place = self.long_calls.take(&caller)?;
        let denials = denials::watch(&self.service, caller, policy).map(move |denial| {
            let _kept = &place;
            denial
        });
        Ok(Response::new(Box::pin(denials)))
    }
}

fn acquired(served: &Served, entry: &Entry) -> proto::AcquireResponse {
    proto::AcquireResponse {
        decision: Some(words::told(&Told::entered(served, entry))),
        lease: match entry {
            Entry::Granted(ticket) => Some(words::lease(ticket)),
            Entry::Refused(_) | Entry::Degraded(_) => None,
        },
    }
}
