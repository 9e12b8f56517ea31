//! Every method of the proto file, without a token, with a malformed one, with
//! one of another scope and one of another policy: refused, and nothing changed.
//!
//! A method that is added to the proto file must be added to [`methods`].

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use prost_types::FileDescriptorSet;
use tidegate::ManualClock;
use tidegate_grpc::{Listener, Server, Settings, proto};
use tidegate_memory::MemoryStore;
use tidegate_policy::parse;
use tidegate_service::{
    Action, Answer, AuditEvent, AuditListing, Call, Credential, LeaseHandle, NewEntity,
    OverrideTarget, Scope, Service,
};
use tokio::net::TcpListener;
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service as _, http};
use tonic::transport::Channel;

use Access::{Parts, Policy};
use Scope::{Administer, Decide, Observe};

const POLICIES: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n\
                        running = { concurrency = 4 }\n\
                        [policy.other.limits]\nrpm = { calls = 10, per = '1h' }\n";

/// Whom a method lets in.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Access {
    /// Whoever has this scope for the policy, or for all of them.
    Policy(Scope),
    /// Whoever has a token; each part of the answer is for whom it is for.
    Parts(Scope),
}

struct House {
    service: Service,
    channel: Channel,
}

/// Each method, whom it lets in, and a request about the policy `chat`.
fn methods(lease: &str) -> Vec<(&'static str, Access, Vec<u8>)> {
    let policy = || "chat".to_owned();
    let key = || Bytes::from_static(b"k");
    let request = || proto::CheckRequest {
        policy: policy(),
        key: key(),
        amounts: [("running".to_owned(), 0), ("rpm".to_owned(), 1)].into(),
        ..Default::default()
    };
    let many = || proto::CheckManyRequest {
        checks: vec![request()],
        correlation: 7,
    };
    let end = || proto::LeaseRequest {
        policy: policy(),
        key: key(),
        lease: lease.to_owned(),
        ..Default::default()
    };
    let acquire = proto::AcquireRequest {
        request: Some(request()),
        ..Default::default()
    };
    let settle = proto::SettleRequest {
        lease: Some(end()),
        ..Default::default()
    };
    let grant = proto::GrantRequest {
        request: Some(request()),
        ..Default::default()
    };
    let back = proto::ReturnRequest {
        policy: policy(),
        key: key(),
        lease: lease.to_owned(),
        ..Default::default()
    };
    let renew = proto::RenewRequest {
        lease: Some(end()),
        ttl_ms: Some(3_600_000),
    };
    let adjust = proto::AdjustRequest {
        lease: Some(end()),
        cost: Some(1),
        ..Default::default()
    };
    let reset = proto::ResetRequest {
        policy: policy(),
        key: key(),
        ..Default::default()
    };
    let watch = proto::WatchDenialsRequest { policy: policy() };
    let keys = proto::ListKeysRequest {
        policy: policy(),
        ..Default::default()
    };
    let usage = proto::ListUsageRequest {
        policy: policy(),
        ..Default::default()
    };
    let leases = proto::ListLeasesRequest {
        policy: policy(),
        ..Default::default()
    };
    let revoke = proto::RevokeLeaseRequest {
        policy: policy(),
        key: key(),
        handle: handle(lease),
        ..Default::default()
    };
    let place = || proto::Place {
        policy: Some(policy()),
        key: None,
    };
    let numbers = proto::LimitNumbers {
        calls: Some(20),
        per: "1h".to_owned(),
        ..Default::default()
    };
    let set = proto::SetOverrideRequest {
        place: Some(place()),
        limits: [("rpm".to_owned(), numbers)].into(),
        ..Default::default()
    };
    let remove = proto::RemoveOverrideRequest {
        place: Some(place()),
        ..Default::default()
    };
    let create = proto::CreateEntityRequest {
        id: "ads".to_owned(),
        parent: Some("acme".to_owned()),
        ..Default::default()
    };
    let acme = || "acme".to_owned();
    let get = proto::GetEntityRequest { id: acme() };
    let change = proto::ChangeEntityRequest {
        id: acme(),
        name: Some("Acme".to_owned()),
        ..Default::default()
    };
    let delete = proto::DeleteEntityRequest {
        id: "search".to_owned(),
        ..Default::default()
    };
    let children = proto::ListChildrenRequest {
        id: acme(),
        ..Default::default()
    };
    // GetNamespace has its name where these have it.
    let space = |name: &str| {
        let named = proto::ChangeNamespaceRequest {
            name: name.to_owned(),
            ..Default::default()
        };
        named.encode_to_vec()
    };
    vec![
        ("Check", Policy(Decide), request().encode_to_vec()),
        ("CheckMany", Parts(Decide), many().encode_to_vec()),
        ("CheckStream", Parts(Decide), many().encode_to_vec()),
        ("Acquire", Policy(Decide), acquire.encode_to_vec()),
        ("Grant", Policy(Decide), grant.encode_to_vec()),
        ("Return", Policy(Decide), back.encode_to_vec()),
        ("Settle", Policy(Decide), settle.encode_to_vec()),
        ("Release", Policy(Decide), end().encode_to_vec()),
        ("Cancel", Policy(Decide), end().encode_to_vec()),
        ("Renew", Policy(Decide), renew.encode_to_vec()),
        ("Adjust", Policy(Decide), adjust.encode_to_vec()),
        ("Debit", Policy(Decide), request().encode_to_vec()),
        ("Peek", Policy(Observe), request().encode_to_vec()),
        ("Forecast", Policy(Observe), request().encode_to_vec()),
        ("Reset", Policy(Administer), reset.encode_to_vec()),
        ("ListPolicies", Parts(Observe), Vec::new()),
        ("ListKeys", Policy(Observe), keys.encode_to_vec()),
        ("ListLeases", Policy(Observe), leases.encode_to_vec()),
        ("ListUsage", Policy(Observe), usage.encode_to_vec()),
        ("RevokeLease", Policy(Administer), revoke.encode_to_vec()),
        ("SetOverride", Policy(Administer), set.encode_to_vec()),
        ("RemoveOverride", Policy(Administer), remove.encode_to_vec()),
        ("ListOverrides", Parts(Observe), Vec::new()),
        ("CreateEntity", Policy(Administer), create.encode_to_vec()),
        ("GetEntity", Policy(Observe), get.encode_to_vec()),
        ("ChangeEntity", Policy(Administer), change.encode_to_vec()),
        ("DeleteEntity", Policy(Administer), delete.encode_to_vec()),
        ("ListEntities", Policy(Observe), Vec::new()),
        ("ListChildren", Policy(Observe), children.encode_to_vec()),
        ("CreateNamespace", Policy(Administer), space("new")),
        ("GetNamespace", Policy(Observe), space("used")),
        ("DeleteNamespace", Policy(Administer), space("used")),
        ("RestoreNamespace", Policy(Administer), space("gone")),
        ("PurgeNamespace", Policy(Administer), space("old")),
        ("ListNamespaces", Policy(Observe), Vec::new()),
        ("ListAuditEvents", Parts(Observe), Vec::new()),
        ("WatchDenials", Policy(Observe), watch.encode_to_vec()),
    ]
}

/// How a call of a method ends that is let in: no grant is made of slots.
fn let_in(method: &str) -> Code {
    match method {
        "Grant" => Code::InvalidArgument,
        _ => Code::Ok,
    }
}

/// What each method that administers is told as, and whether there was something before and is
/// something after it that the event shows.
const EVENTS: [(&str, Action, [bool; 2]); 11] = [
    ("Reset", Action::Reset, [false, false]),
    ("RevokeLease", Action::Revoke, [false, false]),
    ("SetOverride", Action::SetOverride, [true, true]),
    ("RemoveOverride", Action::RemoveOverride, [true, false]),
    ("CreateEntity", Action::CreateEntity, [false, true]),
    ("ChangeEntity", Action::ChangeEntity, [true, true]),
    ("DeleteEntity", Action::DeleteEntity, [true, false]),
    ("CreateNamespace", Action::CreateNamespace, [false, false]),
    ("DeleteNamespace", Action::DeleteNamespace, [false, false]),
    ("RestoreNamespace", Action::RestoreNamespace, [false, false]),
    ("PurgeNamespace", Action::PurgeNamespace, [false, false]),
];

/// What a listing calls a lease.
fn handle(lease: &str) -> String {
    let id = lease.parse();
    id.map_or_else(|_| String::new(), |id| LeaseHandle::of(id).to_string())
}

/// A server with a token for each scope, one for another policy, and one for all.
async fn locked() -> House {
    let credential = |name: &str, scopes: &[Scope], policies: &[&str]| Credential {
        name: name.to_owned(),
        sha256: Credential::hash(name),
        scopes: scopes.to_vec(),
        policies: policies.iter().map(|&policy| policy.to_owned()).collect(),
        namespace: Some("*".to_owned()),
    };
    let mut known = Scope::ALL
        .map(|scope| credential(scope.name(), &[scope], &[]))
        .to_vec();
    known.push(credential("stranger", &Scope::ALL, &["other", "cha"]));
    known.push(credential("all", &Scope::ALL, &[]));
    let file = parse("t", POLICIES).unwrap();
    let time = ManualClock::default();
    let builder = Service::builder().clock(time.clock());
    let builder = builder.store(Arc::new(MemoryStore::default()));
    let builder = builder.credentials(known);
    let service = builder.build(&file).unwrap();
    // One to be seen and removed; it says what the policy says.
    let limit = tidegate::Limit::calls("rpm", 10, Duration::from_secs(3_600));
    let all = service.enter(Some("all")).unwrap();
    let chat = OverrideTarget::everything().of_policy("chat");
    service.set_override(&all, &chat, &[limit]).wait().unwrap();
    for (id, parent) in [("acme", None), ("search", Some("acme"))] {
        let new = NewEntity {
            id,
            parent,
            name: "",
            metadata: BTreeMap::new(),
            charge_parents: true,
        };
        service.create_entity(&all, &new, None).await.unwrap();
    }
    for name in ["used", "old", "gone"] {
        service.create_namespace(&all, name, None).await.unwrap();
    }
    for name in ["old", "gone"] {
        service.delete_namespace(&all, name, None).await.unwrap();
    }
    // It may be purged from then on.
    time.advance(Duration::from_secs(10));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let served = Server::new(service.clone(), Settings::default()).serve(
        Listener::from(listener).connections(),
        std::future::pending(),
    );
    tokio::spawn(served);
    let channel = Channel::from_shared(format!("http://{at}")).unwrap();
    House {
        service,
        channel: channel.connect().await.unwrap(),
    }
}

/// How a call ends, and the first message that it answers. A stream that goes
/// on is let in: its status is OK so far.
async fn call(house: &House, method: &str, message: &[u8], says: Option<&[u8]>) -> (Code, Vec<u8>) {
    call_in(house, method, message, says, None).await
}

/// The same, in a namespace.
async fn call_in(
    house: &House,
    method: &str,
    message: &[u8],
    says: Option<&[u8]>,
    namespace: Option<&str>,
) -> (Code, Vec<u8>) {
    let mut request = http::Request::post(format!("http://x/tidegate.v1.Tidegate/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(says) = says {
        request = request.header("authorization", says);
    }
    if let Some(namespace) = namespace {
        request = request.header("tidegate-namespace", namespace);
    }
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let framed = [&[0], &length[..], message].concat();
    let body = Body::new(Once(Some(Bytes::from(framed))));
    let mut channel = house.channel.clone();
    std::future::poll_fn(|context| channel.poll_ready(context))
        .await
        .unwrap();
    let answer = channel.call(request.body(body).unwrap()).await.unwrap();
    if let Some(code) = code_of(answer.headers()) {
        return (code, Vec::new());
    }
    if method == "WatchDenials" {
        return (Code::Ok, Vec::new());
    }
    ended(answer.into_body()).await
}

async fn ended(mut body: Body) -> (Code, Vec<u8>) {
    let mut bytes = Vec::new();
    loop {
        let next = std::future::poll_fn(|context| {
            http_body::Body::poll_frame(std::pin::Pin::new(&mut body), context)
        });
        let Some(frame) = next.await else {
            return (Code::Unknown, bytes);
        };
        match frame.unwrap().into_data() {
            Ok(data) => bytes.extend(data),
            Err(frame) => {
                let code = frame.into_trailers().ok().and_then(|t| code_of(&t));
                let message = bytes.get(5..).unwrap_or_default().to_vec();
                return (code.unwrap_or(Code::Unknown), message);
            }
        }
    }
}

fn code_of(headers: &http::HeaderMap) -> Option<Code> {
    let code = headers.get("grpc-status")?;
    Some(Code::from_bytes(code.as_bytes()))
}

/// One piece of a body, which is all of it.
struct Once(Option<Bytes>);

impl http_body::Body for Once {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(http_body::Frame::data(bytes))))
    }
}

impl House {
    /// Takes a lease on `chat`; its id.
    async fn lease(&self) -> String {
        let (_, _, message) = methods("")
            .into_iter()
            .find(|(name, ..)| *name == "Acquire")
            .unwrap();
        let (code, answer) = call(self, "Acquire", &message, Some(b"Bearer all")).await;
        assert_eq!(code, Code::Ok);
        let answer = proto::AcquireResponse::decode(&answer[..]).unwrap();
        answer.lease.unwrap().id
    }

    /// All that there is to see of `chat`, and of entities.
    async fn seen(&self) -> String {
        let all = self.service.enter(Some("all")).unwrap();
        let chat = self.service.policy(&all, Observe, "chat").unwrap();
        let overrides = self
            .service
            .overrides(&all, &OverrideTarget::everything(), None, 9);
        let entities = self.service.entities(&all, None, None, 9).await.unwrap();
        let peek = chat.peek("k", ()).wait().unwrap();
        format!("{peek:?} {overrides:?} {entities:?}")
    }

    /// That nothing was charged, and the lease still stands as it was.
    async fn untouched(&self, before: &str, lease: &str) {
        assert_eq!(self.seen().await, before);
        let (_, _, message) = methods(lease)
            .into_iter()
            .find(|(name, ..)| *name == "Settle")
            .unwrap();
        let (code, answer) = call(self, "Settle", &message, Some(b"Bearer all")).await;
        assert_eq!(code, Code::Ok);
        let answer = proto::SettleResponse::decode(&answer[..]).unwrap();
        assert!(!answer.repeated && !answer.expired);
    }
}

#[test]
fn every_method_of_the_proto_file_is_in_the_matrix() {
    let files = FileDescriptorSet::decode(proto::DESCRIPTORS).unwrap().file;
    let services = files.iter().flat_map(|file| &file.service);
    let said: BTreeSet<&str> = services
        .flat_map(|service| service.method.iter().map(|method| method.name()))
        .collect();
    let tested: BTreeSet<&str> = methods("").iter().map(|(name, ..)| *name).collect();
    assert_eq!(said, tested);
}

#[tokio::test]
async fn without_a_token_or_with_a_malformed_one_every_method_is_refused() {
    let house = locked().await;
    let lease = house.lease().await;
    let before = house.seen().await;
    let malformed: [Option<&[u8]>; 9] = [
        None,
        Some(b""),
        Some(b"Bearer"),
        Some(b"Bearer "),
        Some(b"Bearer guess"),
        Some(b"Bearer all all"),
        Some(b"Basic YWxsOmFsbA=="),
        Some(b"all"),
        Some(b"Bearer \xff\xfe"),
    ];
    for (name, _, message) in methods(&lease) {
        for says in malformed {
            let (code, _) = call(&house, name, &message, says).await;
            assert_eq!(code, Code::Unauthenticated, "{name} {says:?}");
        }
    }
    house.untouched(&before, &lease).await;
}

#[tokio::test]
async fn a_token_of_another_scope_is_refused_at_every_method() {
    let house = locked().await;
    for (at, (name, access, _)) in methods("").into_iter().enumerate() {
        let (Policy(needed) | Parts(needed)) = access;
        let lease = house.lease().await;
        let before = house.seen().await;
        let message = methods(&lease).swap_remove(at).2;
        for scope in Scope::ALL.into_iter().filter(|scope| *scope != needed) {
            let says = format!("Bearer {scope}");
            let answer = call(&house, name, &message, Some(says.as_bytes())).await;
            // Who may observe nothing is told so, and not that there is nothing.
            match access {
                Parts(Observe) => assert_eq!(answer.0, Code::PermissionDenied, "{name}"),
                _ => refused(name, access, &answer),
            }
        }
        house.untouched(&before, &lease).await;
        // And the scope that is needed is enough.
        let lease = house.lease().await;
        let message = methods(&lease).swap_remove(at).2;
        let says = format!("bearer {needed}");
        let (code, answer) = call(&house, name, &message, Some(says.as_bytes())).await;
        assert_eq!(code, let_in(name), "{name}");
        assert!(
            !String::from_utf8_lossy(&answer).contains("forbidden"),
            "{name}"
        );
        let all = house.service.enter(Some("all")).unwrap();
        let chat = house.service.policy(&all, Administer, "chat").unwrap();
        chat.reset(&all, b"k".into()).wait().unwrap();
    }
}

#[tokio::test]
async fn a_token_of_another_namespace_is_refused_at_every_method() {
    let house = locked().await;
    let lease = house.lease().await;
    let before = house.seen().await;
    let token = |name: &str, namespace: Option<&str>| Credential {
        name: name.to_owned(),
        sha256: Credential::hash(name),
        scopes: Scope::ALL.to_vec(),
        policies: Vec::new(),
        namespace: namespace.map(str::to_owned),
    };
    let of_used = token("of-used", Some("used"));
    let tokens = [token("all", Some("*")), token("of-none", None), of_used];
    house.service.replace_credentials(tokens);
    for (name, _, message) in methods(&lease) {
        for (token, namespace) in [
            ("of-none", "used"),
            ("of-used", "default"),
            ("of-used", "gone"),
        ] {
            let says = format!("Bearer {token}");
            let says = Some(says.as_bytes());
            let (code, _) = call_in(&house, name, &message, says, Some(namespace)).await;
            assert_eq!(code, Code::PermissionDenied, "{name} by {token}");
        }
        // In its own it meets nothing of what the others have.
        call(&house, name, &message, Some(b"Bearer of-used")).await;
    }
    house.untouched(&before, &lease).await;
}

/// All events that the store keeps.
async fn events(house: &House) -> Vec<AuditEvent> {
    let all = house.service.enter(Some("all")).unwrap();
    let listing = AuditListing {
        most: Some(1_000),
        ..AuditListing::default()
    };
    match house.service.call(&all, Call::Audit(listing)).await {
        Ok(Answer::Audit(page)) => page.items,
        other => panic!("{other:?}"),
    }
}

/// A method that is added, and administers, has to be named in [`EVENTS`].
#[tokio::test]
async fn each_method_that_administers_leaves_exactly_one_event_and_no_other_leaves_any() {
    for (at, (name, access, _)) in methods("").into_iter().enumerate() {
        let house = locked().await;
        let lease = house.lease().await;
        let message = methods(&lease).swap_remove(at).2;
        let before = events(&house).await;
        let (code, _) = call(&house, name, &message, Some(b"Bearer all")).await;
        assert_eq!(code, let_in(name), "{name}");
        let mut events = events(&house).await;
        events.retain(|event| !before.contains(event));
        if access != Policy(Administer) {
            assert_eq!(events, [], "{name}");
            continue;
        }
        let named = EVENTS.iter().find(|(known, ..)| *known == name);
        let Some((_, action, [was, is])) = named else {
            panic!("{name} is not among the methods that leave an event");
        };
        let [event] = &events[..] else {
            panic!("{name} leaves {events:?}");
        };
        assert_eq!(event.action, *action, "{name}");
        let shown = [event.before.is_some(), event.after.is_some()];
        assert_eq!(shown, [*was, *is], "{name}: {event:?}");
        let from = (event.by.as_deref(), event.protocol.as_deref());
        assert_eq!(from, (Some("all"), Some("grpc")), "{name}");
        let peer = event.peer.as_deref().unwrap_or_default();
        assert!(peer.starts_with("127.0.0.1:"), "{name}: {event:?}");
    }
}

#[tokio::test]
async fn a_token_of_another_policy_is_refused_at_every_method() {
    let house = locked().await;
    let lease = house.lease().await;
    let before = house.seen().await;
    for (name, access, message) in methods(&lease) {
        let answer = call(&house, name, &message, Some(b"Bearer stranger")).await;
        refused(name, access, &answer);
    }
    house.untouched(&before, &lease).await;
}

/// That an answer refuses, or says nothing of `chat` where each part is by itself.
fn refused(name: &str, access: Access, (code, answer): &(Code, Vec<u8>)) {
    match access {
        Policy(_) => assert_eq!(*code, Code::PermissionDenied, "{name}"),
        Parts(Observe) if name == "ListOverrides" => {
            assert_eq!(*code, Code::Ok, "{name}");
            let listed = proto::ListOverridesResponse::decode(&answer[..]).unwrap();
            assert!(listed.overrides.is_empty(), "{listed:?}");
        }
        Parts(Observe) => {
            assert_eq!(*code, Code::Ok, "{name}");
            let listed = proto::ListPoliciesResponse::decode(&answer[..]).unwrap();
            assert!(listed.policies.iter().all(|policy| policy.name != "chat"));
        }
        Parts(_) => {
            assert_eq!(*code, Code::Ok, "{name}");
            let many = proto::CheckManyResponse::decode(&answer[..]).unwrap();
            let problem = many.answers[0].problem.as_ref().unwrap();
            assert_eq!(problem.code, "forbidden", "{name}");
        }
    }
}
