//! Each call, over the service.

use std::pin::Pin;
use std::sync::Arc;

use tidegate_protocol::named_namespace;
use tidegate_service::{Answer, Call, Caller, Service, ServiceError};
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::entry::entered;
use crate::long_calls::LongCalls;
use crate::proto::tidegate_server::Tidegate;
use crate::{audit, denials, entities, error, namespaces, parse, proto, render};

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
    pub const fn new(service: Service, long_calls: LongCalls) -> Self {
        Self {
            service,
            long_calls,
        }
    }

    fn caller<R>(request: &Request<R>) -> Result<Caller, Status> {
        let namespace = namespace(request.metadata());
        let caller = namespace.and_then(|namespace| entered(request)?.at(namespace));
        caller.map_err(|wrong| error::status(&wrong))
    }

    /// Answers a call, whose caller is known before anything else is looked at.
    async fn answer<R, T>(
        &self,
        request: &Request<R>,
        call: Result<Call<'_>, Status>,
        render: fn(Answer) -> Option<T>,
    ) -> Reply<T> {
        let caller = Self::caller(request)?;
        let answer = self.call(&caller, call?).await?;
        render(answer).map(Response::new).ok_or_else(other)
    }

    // No `async fn`: that moves what it is given once more.
    fn call(
        &self,
        caller: &Caller,
        call: Call<'_>,
    ) -> impl Future<Output = Result<Answer, Status>> + Send {
        let answer = self.service.call(caller, call);
        async move { answer.await.map_err(|wrong| error::status(&wrong)) }
    }

    async fn many(
        &self,
        caller: &Caller,
        request: &proto::CheckManyRequest,
    ) -> Result<proto::CheckManyResponse, Status> {
        let answer = self.call(caller, parse::check_many(request)).await?;
        Ok(proto::CheckManyResponse {
            answers: render::many(answer).ok_or_else(other)?,
            correlation: request.correlation,
        })
    }
}

/// In which namespace a call is to be answered, if its metadata say so.
fn namespace(metadata: &MetadataMap) -> Result<Option<&str>, ServiceError> {
    let named = metadata.get_all("tidegate-namespace").iter();
    named_namespace(named.map(|value| value.as_encoded_bytes()))
}

/// The answer is that to another call.
fn other() -> Status {
    Status::internal("internal error: an answer to another verb came; please report it")
}

#[tonic::async_trait]
impl Tidegate for App {
    type CheckStreamStream = Answers<proto::CheckManyResponse>;
    type WatchDenialsStream = Answers<proto::Denial>;

    async fn check(&self, request: Request<proto::CheckRequest>) -> Reply<proto::CheckResponse> {
        let call = parse::asked(request.get_ref(), Call::Check);
        self.answer(&request, call, render::check).await
    }

    async fn check_many(
        &self,
        request: Request<proto::CheckManyRequest>,
    ) -> Reply<proto::CheckManyResponse> {
        let caller = Self::caller(&request)?;
        self.many(&caller, request.get_ref())
            .await
            .map(Response::new)
    }

    async fn check_stream(
        &self,
        request: Request<Streaming<proto::CheckManyRequest>>,
    ) -> Reply<Self::CheckStreamStream> {
        let caller = Self::caller(&request)?;
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
        let caller = Self::caller(&request)?;
        let (_, place, request) = request.into_parts();
        // Whoever waits gives their place back.
        let _kept = request
            .wait_ms
            .is_none_or(|wait| wait == 0)
            .then_some(place);
        let answer = self.call(&caller, parse::acquire(&request)?).await?;
        let Answer::Acquired(acquisition) = answer else {
            return Err(other());
        };
        let mut response = Response::new(render::acquired(&acquisition));
        if let Some(lease) = acquisition.lease {
            response.extensions_mut().insert(lease);
        }
        Ok(response)
    }

    async fn grant(&self, request: Request<proto::GrantRequest>) -> Reply<proto::GrantResponse> {
        let caller = Self::caller(&request)?;
        let answer = self.call(&caller, parse::grant(request.get_ref())?).await?;
        let Answer::Granted(granting) = answer else {
            return Err(other());
        };
        let mut response = Response::new(render::granted(&granting));
        if let Some(lease) = granting.lease {
            response.extensions_mut().insert(lease);
        }
        Ok(response)
    }

    async fn r#return(
        &self,
        request: Request<proto::ReturnRequest>,
    ) -> Reply<proto::SettleResponse> {
        let call = parse::return_grant(request.get_ref());
        self.answer(&request, call, render::ended).await
    }

    async fn settle(&self, request: Request<proto::SettleRequest>) -> Reply<proto::SettleResponse> {
        let call = parse::settle(request.get_ref());
        self.answer(&request, call, render::ended).await
    }

    async fn release(&self, request: Request<proto::LeaseRequest>) -> Reply<proto::SettleResponse> {
        let call = parse::ended(request.get_ref());
        let call = call.map(|(of, report)| Call::Release(of, report));
        self.answer(&request, call, render::ended).await
    }

    async fn cancel(&self, request: Request<proto::LeaseRequest>) -> Reply<proto::SettleResponse> {
        let call = parse::ended(request.get_ref());
        let call = call.map(|(of, report)| Call::Cancel(of, report));
        self.answer(&request, call, render::ended).await
    }

    async fn renew(&self, request: Request<proto::RenewRequest>) -> Reply<proto::RenewResponse> {
        let call = parse::renew(request.get_ref());
        self.answer(&request, call, render::renewed).await
    }

    async fn adjust(&self, request: Request<proto::AdjustRequest>) -> Reply<proto::CheckResponse> {
        let call = parse::adjust(request.get_ref());
        self.answer(&request, call, render::check).await
    }

    async fn debit(&self, request: Request<proto::CheckRequest>) -> Reply<proto::CheckResponse> {
        let call = parse::asked(request.get_ref(), Call::Debit);
        self.answer(&request, call, render::check).await
    }

    async fn peek(&self, request: Request<proto::CheckRequest>) -> Reply<proto::CheckResponse> {
        let call = parse::asked(request.get_ref(), Call::Peek);
        self.answer(&request, call, render::check).await
    }

    async fn forecast(
        &self,
        request: Request<proto::CheckRequest>,
    ) -> Reply<proto::ForecastResponse> {
        let call = parse::asked(request.get_ref(), Call::Forecast);
        self.answer(&request, call, render::forecast).await
    }

    async fn reset(&self, request: Request<proto::ResetRequest>) -> Reply<proto::ResetResponse> {
        let call = parse::reset(request.get_ref());
        let done = |answer| matches!(answer, Answer::Forgotten).then(proto::ResetResponse::default);
        self.answer(&request, call, done).await
    }

    async fn list_policies(
        &self,
        request: Request<proto::ListPoliciesRequest>,
    ) -> Reply<proto::ListPoliciesResponse> {
        self.answer(&request, Ok(Call::Policies), render::policies)
            .await
    }

    async fn list_keys(
        &self,
        request: Request<proto::ListKeysRequest>,
    ) -> Reply<proto::ListKeysResponse> {
        let call = parse::keys(request.get_ref());
        self.answer(&request, Ok(call), render::keys).await
    }

    async fn list_leases(
        &self,
        request: Request<proto::ListLeasesRequest>,
    ) -> Reply<proto::ListLeasesResponse> {
        let call = parse::leases(request.get_ref());
        self.answer(&request, Ok(call), render::leases).await
    }

    async fn list_usage(
        &self,
        request: Request<proto::ListUsageRequest>,
    ) -> Reply<proto::ListUsageResponse> {
        let call = parse::usage(request.get_ref());
        self.answer(&request, call, render::usage).await
    }

    async fn revoke_lease(
        &self,
        request: Request<proto::RevokeLeaseRequest>,
    ) -> Reply<proto::SettleResponse> {
        let call = parse::revoke(request.get_ref());
        self.answer(&request, call, render::ended).await
    }

    async fn set_override(
        &self,
        request: Request<proto::SetOverrideRequest>,
    ) -> Reply<proto::Override> {
        let call = parse::set_override(request.get_ref());
        self.answer(&request, call, render::placed).await
    }

    async fn remove_override(
        &self,
        request: Request<proto::RemoveOverrideRequest>,
    ) -> Reply<proto::RemoveOverrideResponse> {
        let call = parse::remove_override(request.get_ref());
        self.answer(&request, call, render::removed).await
    }

    async fn list_overrides(
        &self,
        request: Request<proto::ListOverridesRequest>,
    ) -> Reply<proto::ListOverridesResponse> {
        let call = parse::overrides(request.get_ref());
        self.answer(&request, Ok(call), render::overrides).await
    }

    async fn create_entity(
        &self,
        request: Request<proto::CreateEntityRequest>,
    ) -> Reply<proto::Entity> {
        let call = entities::create(request.get_ref());
        self.answer(&request, Ok(call), entities::shown).await
    }

    async fn get_entity(&self, request: Request<proto::GetEntityRequest>) -> Reply<proto::Entity> {
        let call = Call::Entity(&request.get_ref().id);
        self.answer(&request, Ok(call), entities::shown).await
    }

    async fn change_entity(
        &self,
        request: Request<proto::ChangeEntityRequest>,
    ) -> Reply<proto::Entity> {
        let call = entities::change(request.get_ref());
        self.answer(&request, Ok(call), entities::shown).await
    }

    async fn delete_entity(
        &self,
        request: Request<proto::DeleteEntityRequest>,
    ) -> Reply<proto::DeleteEntityResponse> {
        let call = entities::delete(request.get_ref());
        let done =
            |answer| matches!(answer, Answer::Forgotten).then(proto::DeleteEntityResponse::default);
        self.answer(&request, Ok(call), done).await
    }

    async fn list_entities(
        &self,
        request: Request<proto::ListEntitiesRequest>,
    ) -> Reply<proto::ListEntitiesResponse> {
        let call = entities::all(request.get_ref());
        self.answer(&request, Ok(call), entities::listed).await
    }

    async fn list_children(
        &self,
        request: Request<proto::ListChildrenRequest>,
    ) -> Reply<proto::ListEntitiesResponse> {
        let call = entities::children(request.get_ref());
        self.answer(&request, Ok(call), entities::listed).await
    }

    async fn create_namespace(
        &self,
        request: Request<proto::ChangeNamespaceRequest>,
    ) -> Reply<proto::Namespace> {
        let call = namespaces::changed(request.get_ref(), Call::CreateNamespace);
        self.answer(&request, Ok(call), namespaces::shown).await
    }

    async fn get_namespace(
        &self,
        request: Request<proto::GetNamespaceRequest>,
    ) -> Reply<proto::Namespace> {
        let call = Call::Namespace(&request.get_ref().name);
        self.answer(&request, Ok(call), namespaces::shown).await
    }

    async fn delete_namespace(
        &self,
        request: Request<proto::ChangeNamespaceRequest>,
    ) -> Reply<proto::Namespace> {
        let call = namespaces::changed(request.get_ref(), Call::DeleteNamespace);
        self.answer(&request, Ok(call), namespaces::shown).await
    }

    async fn restore_namespace(
        &self,
        request: Request<proto::ChangeNamespaceRequest>,
    ) -> Reply<proto::Namespace> {
        let call = namespaces::changed(request.get_ref(), Call::RestoreNamespace);
        self.answer(&request, Ok(call), namespaces::shown).await
    }

    async fn purge_namespace(
        &self,
        request: Request<proto::ChangeNamespaceRequest>,
    ) -> Reply<proto::PurgeNamespaceResponse> {
        let call = namespaces::changed(request.get_ref(), Call::PurgeNamespace);
        self.answer(&request, Ok(call), namespaces::purged).await
    }

    async fn list_namespaces(
        &self,
        request: Request<proto::ListNamespacesRequest>,
    ) -> Reply<proto::ListNamespacesResponse> {
        let call = namespaces::all(request.get_ref());
        self.answer(&request, Ok(call), namespaces::listed).await
    }

    async fn list_audit_events(
        &self,
        request: Request<proto::ListAuditEventsRequest>,
    ) -> Reply<proto::ListAuditEventsResponse> {
        let call = audit::all(request.get_ref());
        self.answer(&request, Ok(call), audit::listed).await
    }

    async fn watch_denials(
        &self,
        request: Request<proto::WatchDenialsRequest>,
    ) -> Reply<Self::WatchDenialsStream> {
        let caller = Self::caller(&request)?;
        let answer = self.call(&caller, parse::watch(request.get_ref())).await?;
        let Answer::Denials(watch) = answer else {
            return Err(other());
        };
        let place = self.long_calls.take(&caller)?;
        let denials = denials::watch(watch).map(move |denial| {
            let _kept = &place;
            denial
        });
        Ok(Response::new(Box::pin(denials)))
    }
}
