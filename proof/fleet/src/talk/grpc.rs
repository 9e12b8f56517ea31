//! gRPC, as the proto file makes its client.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_grpc::proto;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::StreamExt;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::call::{Answer, Call, Client, PATIENCE, Verb, Word, event_line};

/// A client of the gRPC listener.
#[derive(Debug)]
pub struct Grpc {
    runtime: Runtime,
    channel: Channel,
    patience: Duration,
}

pub(super) fn speaks(verb: Verb) -> bool {
    !matches!(
        verb,
        Verb::Auth
            | Verb::Throttle
            | Verb::Capacity
            | Verb::Denied
            | Verb::GetOverride
            | Verb::Policy
            | Verb::Apply
            | Verb::Info
            | Verb::Ready
            | Verb::Metrics
    )
}

impl Grpc {
    /// A connection of its own.
    ///
    /// # Errors
    /// If the server does not listen.
    pub fn connect(at: SocketAddr) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let endpoint = Endpoint::from_shared(format!("http://{at}"));
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        let channel = runtime.block_on(endpoint.connect());
        Ok(Self {
            runtime,
            channel: channel.map_err(|error| error.to_string())?,
            patience: PATIENCE,
        })
    }
}

impl Client for Grpc {
    fn ask(&mut self, call: &Call) -> Result<Answer, String> {
        let asked = told(self.channel.clone(), call);
        // The timer is made within the runtime.
        let answer = self.runtime.block_on(async {
            let answer = tokio::time::timeout(self.patience, asked).await;
            answer.map_err(|_| format!("{:?}: no answer within {:?}", call.verb, self.patience))
        })?;
        Ok(answer.unwrap_or_else(|status| refusal(call, &status)))
    }

    fn patience(&mut self, longest: Duration) {
        self.patience = longest;
    }
}

fn refusal(call: &Call, status: &Status) -> Answer {
    let mut answer = Answer::new(match status.code() {
        Code::OutOfRange => Word::Never,
        Code::ResourceExhausted => Word::Busy,
        Code::Unavailable => Word::Unavailable,
        Code::NotFound | Code::FailedPrecondition => Word::Gone,
        Code::Aborted => Word::Conflict,
        Code::InvalidArgument => Word::Invalid,
        code => Word::Other(format!("{code:?}: {}", status.message())),
    });
    answer.explain(call, status.message());
    answer.detail = status.message().to_owned();
    answer
}

/// Reads an answer when it has come.
async fn read<T>(
    answer: impl Future<Output = Result<Response<T>, Status>>,
    read: impl FnOnce(T) -> Answer,
) -> Result<Answer, Status> {
    Ok(read(answer.await?.into_inner()))
}

async fn told(channel: Channel, call: &Call) -> Result<Answer, Status> {
    let namespace = call
        .namespace
        .as_deref()
        .map(str::parse::<AsciiMetadataValue>);
    let namespace = namespace.transpose();
    let namespace = namespace.map_err(|error| Status::internal(error.to_string()))?;
    let within = move |mut request: Request<()>| {
        if let Some(name) = &namespace {
            let metadata = request.metadata_mut();
            metadata.insert("tidegate-namespace", name.clone());
        }
        Ok(request)
    };
    let mut client = TidegateClient::with_interceptor(channel.clone(), within);
    match call.verb {
        Verb::Debit => read(client.debit(check(call)), decided).await,
        Verb::Peek => read(client.peek(check(call)), decided).await,
        Verb::Forecast => read(client.forecast(check(call)), foreseen).await,
        Verb::CheckMany => read(client.check_many(checks(call)), many).await,
        Verb::CheckStream => {
            // The stream stays open until its answer has come.
            let (batches, stream) = tokio::sync::mpsc::channel(1);
            let sent = batches.send(checks(call)).await;
            sent.map_err(|_| Status::internal("the stream is closed"))?;
            let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
            let mut answers = client.check_stream(stream).await?.into_inner();
            let answer = answers.next().await;
            let answer = answer.ok_or_else(|| Status::internal("the stream has ended"))??;
            Ok(many(answer))
        }
        Verb::Acquire => {
            let request = proto::AcquireRequest {
                request: Some(check(call)),
                wait_ms: call.wait,
                ttl_ms: call.ttl,
                wait_for_refunds: call.for_refunds,
                priority: 0,
                idempotency_key: call.name.as_deref().map(bytes),
            };
            read(client.acquire(request), acquired).await
        }
        Verb::Grant => {
            let request = proto::GrantRequest {
                request: Some(check(call)),
                hold_ms: call.ttl,
                ..Default::default()
            };
            read(client.grant(request), granted).await
        }
        Verb::Return => {
            let request = proto::ReturnRequest {
                policy: call.policy.clone(),
                key: key(call),
                lease: call.lease.clone(),
                used: call.amounts.iter().cloned().collect(),
                cost: call.cost,
                entity: entity_id(call),
            };
            read(client.r#return(request), ended).await
        }
        Verb::Settle => {
            let request = proto::SettleRequest {
                lease: Some(lease(call)),
                used: call.amounts.iter().cloned().collect(),
                cost: call.cost,
            };
            read(client.settle(request), ended).await
        }
        Verb::Release => read(client.release(lease(call)), ended).await,
        Verb::Cancel => read(client.cancel(lease(call)), ended).await,
        Verb::Renew => {
            let (lease, ttl_ms) = (Some(lease(call)), call.ttl);
            let request = proto::RenewRequest { lease, ttl_ms };
            read(client.renew(request), |_| Answer::default()).await
        }
        Verb::Adjust => {
            let request = proto::AdjustRequest {
                lease: Some(lease(call)),
                amounts: call.amounts.iter().cloned().collect(),
                overdraw: call.overdraw,
                cost: call.cost,
            };
            read(client.adjust(request), decided).await
        }
        Verb::Reset => {
            let request = proto::ResetRequest {
                policy: call.policy.clone(),
                key: key(call),
                entity: entity_id(call),
            };
            read(client.reset(request), |_| Answer::default()).await
        }
        Verb::Keys => {
            let select = bytes(&call.key);
            let request = proto::ListKeysRequest {
                policy: call.policy.clone(),
                select: (!call.key.is_empty())
                    .then_some(proto::list_keys_request::Select::Key(select)),
                cursor: call.cursor.clone().unwrap_or_default().into(),
                limit: 0,
            };
            read(client.list_keys(request), keys).await
        }
        Verb::Leases => {
            let select = bytes(&call.key);
            let request = proto::ListLeasesRequest {
                policy: call.policy.clone(),
                select: (!call.key.is_empty())
                    .then_some(proto::list_leases_request::Select::Key(select)),
                cursor: call.cursor.clone().unwrap_or_default().into(),
                limit: 0,
            };
            read(client.list_leases(request), leases).await
        }
        Verb::Revoke => {
            let request = proto::RevokeLeaseRequest {
                policy: call.policy.clone(),
                key: key(call),
                handle: call.lease.clone(),
                entity: entity_id(call),
            };
            read(client.revoke_lease(request), ended).await
        }
        Verb::SetOverride => {
            let request = proto::SetOverrideRequest {
                place: Some(place(call)),
                limits: call
                    .amounts
                    .iter()
                    .map(|amount| numbers(call, amount))
                    .collect(),
                ..Default::default()
            };
            read(client.set_override(request), |one| over(&[one], false)).await
        }
        Verb::RemoveOverride => {
            let place = Some(place(call));
            let request = proto::RemoveOverrideRequest {
                place,
                ..Default::default()
            };
            read(client.remove_override(request), |answer| {
                Answer::new(if answer.removed {
                    Word::Done
                } else {
                    Word::Gone
                })
            })
            .await
        }
        Verb::ListOverrides => {
            let request = proto::ListOverridesRequest {
                of: Some(place(call)),
                ..Default::default()
            };
            read(client.list_overrides(request), |answer| {
                over(&answer.overrides, true)
            })
            .await
        }
        Verb::CreateEntity => {
            let request = proto::CreateEntityRequest {
                id: call.key.clone(),
                parent: call.parent.clone(),
                metadata: call.words.iter().cloned().collect(),
                charge_parents: call.charge_parents,
                ..Default::default()
            };
            read(client.create_entity(request), |one| entities(&[one], false)).await
        }
        Verb::ShowEntity => {
            let id = call.key.clone();
            let shown = client.get_entity(proto::GetEntityRequest { id });
            read(shown, |one| entities(&[one], true)).await
        }
        Verb::ChangeEntity => {
            let words = call.words.iter().cloned().collect();
            let says_words = !call.words.is_empty();
            let request = proto::ChangeEntityRequest {
                id: call.key.clone(),
                metadata: says_words.then_some(proto::Metadata { words }),
                parent: call.parent.clone(),
                charge_parents: call.charge_parents,
                if_version: call.version,
                ..Default::default()
            };
            read(client.change_entity(request), |one| entities(&[one], false)).await
        }
        Verb::DeleteEntity => {
            let request = proto::DeleteEntityRequest {
                id: call.key.clone(),
                if_version: call.version,
                ..Default::default()
            };
            read(client.delete_entity(request), |_| Answer::default()).await
        }
        Verb::ListEntities => {
            let request = proto::ListEntitiesRequest {
                limit: 1_000,
                cursor: cursor(call),
            };
            let listed = client.list_entities(request);
            read(listed, |page| {
                paged(entities(&page.entities, false), &page.cursor)
            })
            .await
        }
        Verb::ListChildren => {
            let request = proto::ListChildrenRequest {
                id: call.key.clone(),
                limit: 1_000,
                cursor: cursor(call),
            };
            let listed = client.list_children(request);
            read(listed, |page| {
                paged(entities(&page.entities, false), &page.cursor)
            })
            .await
        }
        Verb::Usage => {
            use proto::list_usage_request::Select;
            let select = match call.is_entity {
                true => Select::Entity(call.key.clone()),
                false => Select::Key(bytes(&call.key)),
            };
            let request = proto::ListUsageRequest {
                policy: call.policy.clone(),
                select: Some(select),
                cursor: cursor(call),
                ..Default::default()
            };
            read(client.list_usage(request), used).await
        }
        Verb::Audit => {
            let of = (!call.is_entity).then(|| place(call));
            let request = proto::ListAuditEventsRequest {
                of,
                entity: entity_id(call).unwrap_or_default(),
                cursor: cursor(call),
                ..Default::default()
            };
            read(client.list_audit_events(request), events).await
        }
        Verb::CreateNamespace => {
            let created = client.create_namespace(named(call));
            read(created, |one| namespaces(&[one])).await
        }
        Verb::ShowNamespace => {
            let name = call.key.clone();
            let shown = client.get_namespace(proto::GetNamespaceRequest { name });
            read(shown, |one| namespaces(&[one])).await
        }
        Verb::DeleteNamespace => {
            let deleted = client.delete_namespace(named(call));
            read(deleted, |one| namespaces(&[one])).await
        }
        Verb::RestoreNamespace => {
            let restored = client.restore_namespace(named(call));
            read(restored, |one| namespaces(&[one])).await
        }
        Verb::PurgeNamespace => {
            read(client.purge_namespace(named(call)), |purged| {
                let mut answer = Answer::default();
                answer.fact("done", purged.done);
                answer
            })
            .await
        }
        Verb::ListNamespaces => {
            let request = proto::ListNamespacesRequest {
                limit: 1_000,
                cursor: cursor(call),
            };
            let listed = client.list_namespaces(request);
            read(listed, |page| {
                paged(namespaces(&page.namespaces), &page.cursor)
            })
            .await
        }
        Verb::Policies => {
            let request = proto::ListPoliciesRequest {};
            read(client.list_policies(request), |answer| {
                let mut said = Answer::default();
                for policy in answer.policies {
                    said.fact(format!("policy {}", policy.name), "served");
                }
                said
            })
            .await
        }
        Verb::Health => {
            let mut health = HealthClient::new(channel);
            let request = HealthCheckRequest::default();
            read(health.check(request), |_| Answer::default()).await
        }
        _ => read(client.check(check(call)), decided).await,
    }
}

fn cursor(call: &Call) -> tonic::codegen::Bytes {
    call.cursor.clone().unwrap_or_default().into()
}

/// With where the next page begins, if there is one.
fn paged(mut answer: Answer, cursor: &[u8]) -> Answer {
    answer.next = (!cursor.is_empty()).then(|| cursor.to_vec());
    answer
}

/// A namespace that is to be changed.
fn named(call: &Call) -> proto::ChangeNamespaceRequest {
    proto::ChangeNamespaceRequest {
        name: call.key.clone(),
        ..Default::default()
    }
}

fn bytes(text: &str) -> tonic::codegen::Bytes {
    text.as_bytes().to_vec().into()
}

fn key(call: &Call) -> tonic::codegen::Bytes {
    bytes(if call.is_entity { "" } else { &call.key })
}

fn entity_id(call: &Call) -> Option<String> {
    call.is_entity.then(|| call.key.clone())
}

fn check(call: &Call) -> proto::CheckRequest {
    proto::CheckRequest {
        policy: call.policy.clone(),
        key: key(call),
        cost: call.cost,
        amounts: call.amounts.iter().cloned().collect(),
        member: call.member.clone().unwrap_or_default(),
        entity: entity_id(call),
    }
}

fn checks(call: &Call) -> proto::CheckManyRequest {
    proto::CheckManyRequest {
        checks: call.each.iter().map(check).collect(),
        correlation: 0,
    }
}

fn lease(call: &Call) -> proto::LeaseRequest {
    proto::LeaseRequest {
        policy: call.policy.clone(),
        key: key(call),
        lease: call.lease.clone(),
        outcome: proto::Outcome::Succeeded.into(),
        cool_down_ms: call.cool_down,
        entity: entity_id(call),
    }
}

fn place(call: &Call) -> proto::Place {
    proto::Place {
        policy: Some(call.policy.clone()).filter(|policy| !policy.is_empty()),
        key: (!call.key.is_empty()).then(|| bytes(&call.key)),
    }
}

fn numbers(call: &Call, (limit, amount): &(String, u64)) -> (String, proto::LimitNumbers) {
    let (word, per) = call.measure.unwrap_or_default();
    let number = |name: &str| (name == word).then_some(*amount);
    let numbers = proto::LimitNumbers {
        calls: number("calls"),
        rate: number("rate"),
        budget: number("budget"),
        concurrency: number("concurrency"),
        per: per.to_owned(),
        added: call.is_added,
        ..Default::default()
    };
    (limit.clone(), numbers)
}

fn decided(said: proto::CheckResponse) -> Answer {
    let mut answer = Answer::decided(said.admitted);
    for (name, text) in [
        ("binding", said.binding),
        ("level", said.level),
        ("member", said.member),
        ("entity", said.entity),
    ] {
        if !text.is_empty() {
            answer.fact(name, text);
        }
    }
    for (name, is) in [("degraded", said.degraded), ("shadowed", said.shadowed)] {
        if is {
            answer.fact(name, true);
        }
    }
    standings(&mut answer, said.limits, "");
    answer
}

fn standings(answer: &mut Answer, limits: HashMap<String, proto::Standing>, before: &str) {
    for (name, stands) in limits {
        answer.fact(format!("{before}{name}.limit"), stands.limit);
        answer.fact(format!("{before}{name}.remaining"), stands.remaining);
    }
}

fn many(said: proto::CheckManyResponse) -> Answer {
    let mut answer = Answer::default();
    for (place, each) in said.answers.into_iter().enumerate() {
        answer.fact(
            format!("{place}"),
            Answer::decided(each.admitted).word_text(),
        );
        standings(&mut answer, each.limits, &format!("{place} "));
    }
    answer
}

fn acquired(said: proto::AcquireResponse) -> Answer {
    let mut answer = decided(said.decision.unwrap_or_default());
    if let Some(lease) = said.lease {
        answer.fact("repeated", lease.repeated);
        answer.fact("has a fence", lease.fence.is_some());
        answer.lease = Some(lease.id);
        answer.granted_at = Some(lease.granted_at_us.to_string());
    }
    answer
}

fn granted(said: proto::GrantResponse) -> Answer {
    let mut answer = decided(said.decision.unwrap_or_default());
    if let Some(grant) = said.grant {
        // What the limits say behind a grant is left out.
        answer.facts.clear();
        for (name, amount) in grant.amounts {
            answer.fact(format!("{name}.granted"), amount);
        }
        for name in grant.calls {
            answer.fact(format!("{name} counts calls"), true);
        }
        answer.lease = Some(grant.id);
    }
    answer
}

fn ended(said: proto::SettleResponse) -> Answer {
    let mut answer = Answer::default();
    answer.fact("expired", said.expired);
    answer.fact("repeated", said.repeated);
    if !said.member.is_empty() {
        answer.fact("member", said.member);
    }
    if said.cooling_until_us.is_some() {
        answer.fact("cools down", true);
    }
    for (name, usage) in said.limits {
        answer.fact(format!("{name}.taken"), usage.taken);
        answer.fact(format!("{name}.used"), usage.used);
    }
    answer
}

fn foreseen(said: proto::ForecastResponse) -> Answer {
    let mut answer = Answer::default();
    for (name, forecast) in said.limits {
        answer.fact(format!("{name}.spendable"), forecast.spendable);
        let stands = forecast.standing.unwrap_or_default();
        answer.fact(format!("{name}.limit"), stands.limit);
        answer.fact(format!("{name}.remaining"), stands.remaining);
    }
    answer
}

fn keys(said: proto::ListKeysResponse) -> Answer {
    let mut answer = Answer::default();
    for key in said.keys {
        let name = String::from_utf8_lossy(&key.key).into_owned();
        standings(&mut answer, key.limits, &format!("{name} {} ", key.member));
    }
    answer
}

fn leases(said: proto::ListLeasesResponse) -> Answer {
    let mut answer = Answer::default();
    for (place, lease) in said.leases.into_iter().enumerate() {
        let name = String::from_utf8_lossy(&lease.key).into_owned();
        for (limit, taken) in lease.taken {
            let fact = format!("{} {name} {} {limit}", place + 1, lease.member);
            answer.fact(fact, taken);
        }
        answer.lease = answer.lease.take().or(Some(lease.handle));
        let granted_at = || Some(lease.granted_at_us.to_string());
        answer.granted_at = answer.granted_at.take().or_else(granted_at);
    }
    answer
}

fn over(overrides: &[proto::Override], is_listing: bool) -> Answer {
    let mut answer = Answer::default();
    for each in overrides {
        let place = each.place.clone().unwrap_or_default();
        let key = String::from_utf8_lossy(place.key.as_deref().unwrap_or_default()).into_owned();
        let before = match is_listing {
            true => format!("{} {key} ", place.policy.as_deref().unwrap_or_default()),
            false => String::new(),
        };
        for (name, limit) in &each.limits {
            let numbers = [
                ("calls", limit.calls),
                ("rate", limit.rate),
                ("budget", limit.budget),
                ("concurrency", limit.concurrency),
            ];
            for (word, number) in numbers {
                if let Some(number) = number {
                    answer.fact(format!("{before}{name}.{word}"), number);
                }
            }
        }
    }
    answer
}

fn entities(all: &[proto::Entity], with_ancestors: bool) -> Answer {
    let mut answer = Answer::default();
    for one in all {
        let parent = Some(&*one.parent).filter(|parent| !parent.is_empty());
        let words = one.metadata.iter();
        let words = words.map(|(word, says)| (&**word, &**says));
        answer.entity(&one.id, parent, words, one.charge_parents);
        if with_ancestors {
            answer.fact("ancestors", one.ancestors.join(" > "));
        }
    }
    answer
}

fn used(said: proto::ListUsageResponse) -> Answer {
    let mut answer = Answer::default();
    for record in &said.usage {
        let key = String::from_utf8_lossy(&record.key);
        answer.used(&key, &record.limit, record.amount);
    }
    paged(answer, &said.cursor)
}

fn namespaces(all: &[proto::Namespace]) -> Answer {
    use proto::NamespaceState;
    let mut answer = Answer::default();
    for one in all {
        let state = match one.state() {
            NamespaceState::Unspecified => "unspecified",
            NamespaceState::Active => "active",
            NamespaceState::Deleted => "deleted",
            NamespaceState::Purging => "purging",
        };
        answer.fact(format!("namespace {}", one.name), state);
    }
    answer
}

fn events(said: proto::ListAuditEventsResponse) -> Answer {
    let mut answer = Answer::default();
    for event in &said.events {
        let target = event.target.clone().unwrap_or_default();
        let key = target.key.as_deref().map(String::from_utf8_lossy);
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (entity, by) = (text(&event.entity), text(&event.by));
        let kept = |value: &Option<proto::AuditValue>| kept(value.as_ref(), &event.entity);
        answer.items.push(event_line(
            &event.action,
            [
                target.policy.as_deref(),
                key.as_deref(),
                entity.as_deref(),
                by.as_deref(),
            ],
            [kept(&event.before), kept(&event.after)],
        ));
    }
    paged(answer, &said.cursor)
}

/// What an event says of an override, or of the entity of this id.
fn kept(said: Option<&proto::AuditValue>, id: &str) -> Option<Answer> {
    use proto::audit_value::Value;
    Some(match said?.value.as_ref()? {
        Value::Override(one) => over(std::slice::from_ref(one), false),
        Value::Entity(one) => {
            let mut one = one.clone();
            id.clone_into(&mut one.id);
            entities(&[one], false)
        }
    })
}
