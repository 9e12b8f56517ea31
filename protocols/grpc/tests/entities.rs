//! Entities, over a real socket: created, changed, deleted and listed, and asked by their ids.

use std::collections::HashMap;
use std::net::SocketAddr;

use tidegate::ManualClock;
use tidegate_grpc::proto::audit_value::Value;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tidegate_grpc::{Listener, Server, Settings, proto};
use tidegate_policy::parse;
use tidegate_service::Service;
use tokio::net::TcpListener;
use tonic::codegen::Bytes;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

const POLICIES: &str = "[policy.chat]\nkey = 'org/team/user'\npartial_keys = true\n\
    [policy.chat.limits]\norg_rpm = { calls = 3, per = '1h', level = 'org' }\n\
    rpm = { calls = 2, per = '1h', level = 'user' }\n\
    [policy.jobs]\nkey = 'org/team/user'\npartial_keys = true\n\
    [policy.jobs.limits]\nrunning = { concurrency = 1, ttl = '1h', level = 'user' }\n";

type Client = TidegateClient<Channel>;

/// Acme with two teams, and Alice in one.
async fn acme() -> (Service, Client) {
    let builder = Service::builder().clock(ManualClock::default().clock());
    let service = builder.build(&parse("t", POLICIES).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at: SocketAddr = listener.local_addr().unwrap();
    let served = Server::new(service.clone(), Settings::default()).serve(
        Listener::from(listener).connections(),
        std::future::pending(),
    );
    tokio::spawn(served);
    let mut client = Client::connect(format!("http://{at}")).await.unwrap();
    for (id, parent) in [
        ("acme", None),
        ("search", Some("acme")),
        ("ads", Some("acme")),
        ("alice", Some("search")),
    ] {
        client.create_entity(new(id, parent)).await.unwrap();
    }
    (service, client)
}

fn new(id: &str, parent: Option<&str>) -> proto::CreateEntityRequest {
    proto::CreateEntityRequest {
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
        ..Default::default()
    }
}

fn get(id: &str) -> proto::GetEntityRequest {
    proto::GetEntityRequest { id: id.to_owned() }
}

fn delete(id: &str, if_version: Option<u64>) -> proto::DeleteEntityRequest {
    proto::DeleteEntityRequest {
        id: id.to_owned(),
        if_version,
        ..Default::default()
    }
}

fn about(policy: &str, entity: &str) -> proto::CheckRequest {
    proto::CheckRequest {
        policy: policy.to_owned(),
        entity: Some(entity.to_owned()),
        ..Default::default()
    }
}

fn refused<T: std::fmt::Debug>(answer: Result<Response<T>, Status>, code: Code) -> String {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), code, "{status:?}");
    status.message().to_owned()
}

#[tokio::test]
async fn an_entity_is_created_shown_changed_on_its_version_and_deleted() {
    let (_, mut client) = acme().await;
    let alice = client.get_entity(get("alice")).await.unwrap().into_inner();
    assert_eq!(alice.ancestors, ["acme", "search"]);
    assert_eq!((&*alice.parent, &*alice.by), ("search", "anyone"));
    assert!(alice.charge_parents && alice.version > 0);
    assert!(alice.created_at_us.is_some() && alice.created_at_us == alice.changed_at_us);
    let change = |name: &str, if_version| proto::ChangeEntityRequest {
        id: "alice".to_owned(),
        name: Some(name.to_owned()),
        metadata: Some(proto::Metadata {
            words: [("tier".to_owned(), "gold".to_owned())].into(),
        }),
        if_version,
        reason: "hired".to_owned(),
        ..Default::default()
    };
    let first = Some(alice.version);
    let changed = client.change_entity(change("Alice", first)).await;
    let changed = changed.unwrap().into_inner();
    assert_eq!((&*changed.name, &*changed.parent), ("Alice", "search"));
    assert_eq!(changed.metadata["tier"], "gold");
    let late = client.change_entity(change("B", first)).await;
    let late = refused(late, Code::Aborted);
    let now = format!("the entity `alice` is at version {} now", changed.version);
    assert!(late.contains(&now), "{late}");
    let late = client.delete_entity(delete("alice", first)).await;
    refused(late, Code::Aborted);
    let twice = client.create_entity(new("alice", None)).await;
    refused(twice, Code::Aborted);
    let none = proto::ChangeEntityRequest {
        id: "alice".to_owned(),
        parent: Some("ads".to_owned()),
        metadata: Some(proto::Metadata::default()),
        charge_parents: Some(false),
        ..Default::default()
    };
    let none = client.change_entity(none).await.unwrap().into_inner();
    assert_eq!((&none.metadata, &*none.name), (&HashMap::new(), "Alice"));
    assert!(!none.charge_parents);
    assert_eq!(none.parent, "ads", "it has moved");
    let on_it = delete("alice", Some(none.version));
    client.delete_entity(on_it).await.unwrap();
    let gone = refused(client.get_entity(get("alice")).await, Code::NotFound);
    assert_eq!(
        gone,
        "there is no entity `alice`; create it, or correct the id"
    );
    // Each change has left its event: who, from where, and why.
    let of_alice = |cursor, limit| proto::ListAuditEventsRequest {
        entity: "alice".to_owned(),
        cursor,
        limit,
        ..Default::default()
    };
    let first = client.list_audit_events(of_alice(Bytes::new(), 2)).await;
    let first = first.unwrap().into_inner();
    let rest = client.list_audit_events(of_alice(first.cursor, 0)).await;
    let events = [first.events, rest.unwrap().into_inner().events].concat();
    let told: Vec<_> = events.iter().map(|event| &*event.action).collect();
    let change = "change_entity";
    assert_eq!(told, ["create_entity", change, change, "delete_entity"]);
    let hired = &events[1];
    assert_eq!((&*hired.by, &*hired.protocol), ("anyone", "grpc"));
    assert!(hired.peer.starts_with("127.0.0.1:"), "{hired:?}");
    assert_eq!((&*hired.reason, &*hired.entity), ("hired", "alice"));
    let value = |value: &Option<proto::AuditValue>| match value.clone().and_then(|it| it.value) {
        Some(Value::Entity(entity)) => entity,
        other => panic!("{other:?}"),
    };
    let (before, after) = (value(&hired.before), value(&hired.after));
    assert_eq!((&*before.id, &*before.name), ("alice", ""));
    assert_eq!((&*after.id, &*after.name), ("alice", "Alice"));
    assert_eq!(events[3].after, None);
    // An override's event shows what the limits became, and where.
    let place = || proto::Place {
        policy: Some("chat".to_owned()),
        key: None,
    };
    let numbers = proto::LimitNumbers {
        calls: Some(20),
        per: "1h".to_owned(),
        ..Default::default()
    };
    let set = proto::SetOverrideRequest {
        place: Some(place()),
        limits: [("rpm".to_owned(), numbers.clone())].into(),
        reason: "bought more".to_owned(),
        ..Default::default()
    };
    client.set_override(set).await.unwrap();
    let of_chat = proto::ListAuditEventsRequest {
        of: Some(place()),
        ..Default::default()
    };
    let events = client.list_audit_events(of_chat).await.unwrap();
    let [event] = &events.into_inner().events[..] else {
        panic!("one event");
    };
    assert_eq!(event.target, Some(place()));
    let Some(Value::Override(after)) = event.after.clone().and_then(|it| it.value) else {
        panic!("{event:?}");
    };
    assert_eq!(
        (&after.limits["rpm"], &*after.reason),
        (&numbers, "bought more")
    );
    assert_eq!((&event.before, after.version), (&None, 0));
}

#[tokio::test]
async fn entities_and_children_are_listed_in_pages() {
    let (_, mut client) = acme().await;
    let ids = |page: &proto::ListEntitiesResponse| -> Vec<String> {
        page.entities.iter().map(|one| one.id.clone()).collect()
    };
    let three = proto::ListEntitiesRequest {
        limit: 3,
        ..Default::default()
    };
    let page = client.list_entities(three).await.unwrap().into_inner();
    assert_eq!(ids(&page), ["acme", "ads", "alice"]);
    let rest = proto::ListEntitiesRequest {
        cursor: page.cursor,
        ..Default::default()
    };
    let rest = client.list_entities(rest).await.unwrap().into_inner();
    assert_eq!(
        (ids(&rest), rest.cursor.len()),
        (vec!["search".to_owned()], 0)
    );
    let children = |id: &str, limit| proto::ListChildrenRequest {
        id: id.to_owned(),
        limit,
        ..Default::default()
    };
    let page = client.list_children(children("acme", 0)).await.unwrap();
    assert_eq!(ids(&page.into_inner()), ["ads", "search"]);
    let nobody = client.list_children(children("nobody", 0)).await;
    refused(nobody, Code::NotFound);
    let many = client.list_children(children("acme", 1_001)).await;
    refused(many, Code::InvalidArgument);
}

#[tokio::test]
async fn what_speaks_against_a_change_is_said_and_has_a_code() {
    let (_, mut client) = acme().await;
    let nobody = client.create_entity(new("x", Some("nobody"))).await;
    let nobody = refused(nobody, Code::NotFound);
    assert_eq!(
        nobody,
        "there is no entity `nobody`; create it, or correct the id"
    );
    let own = client.create_entity(new("x", Some("x"))).await;
    refused(own, Code::InvalidArgument);
    let parent = client.delete_entity(delete("search", None)).await;
    let parent = refused(parent, Code::FailedPrecondition);
    assert!(parent.contains("has children, such as `alice`"), "{parent}");
    // A caller's variable may be empty by mistake: that makes no root.
    for wrong in [new("", None), new("x", Some("")), new("..", None)] {
        refused(client.create_entity(wrong).await, Code::InvalidArgument);
    }
    let nothing = proto::ChangeEntityRequest {
        id: "acme".to_owned(),
        ..Default::default()
    };
    let nothing = client.change_entity(nothing).await;
    let nothing = refused(nothing, Code::InvalidArgument);
    assert!(
        nothing.contains("say what of the entity is to change"),
        "{nothing}"
    );
}

#[tokio::test]
async fn a_request_names_an_entity_and_its_ancestors_are_charged() {
    let (_, mut client) = acme().await;
    let alice = || about("chat", "alice");
    for left in [1, 0] {
        let answer = client.check(alice()).await.unwrap().into_inner();
        assert_eq!(answer.limits["rpm"].remaining, left);
        assert_eq!(answer.entity, "");
    }
    let own = client.check(alice()).await.unwrap().into_inner();
    assert_eq!(
        (own.admitted, &*own.entity, &*own.level),
        (false, "alice", "user")
    );
    client.create_entity(new("bob", Some("ads"))).await.unwrap();
    let bob = || about("chat", "bob");
    assert!(client.check(bob()).await.unwrap().into_inner().admitted);
    let above = client.peek(bob()).await.unwrap().into_inner();
    assert_eq!((above.admitted, &*above.entity), (false, "acme"));
    assert_eq!(above.binding, "org_rpm");
    // Neither both nor somebody else's mistake: each of a batch by itself.
    let both = || proto::CheckRequest {
        key: "bob".into(),
        ..bob()
    };
    let wrong = refused(client.check(both()).await, Code::InvalidArgument);
    assert!(wrong.contains("give one of the two"), "{wrong}");
    let nobody = client.check(about("chat", "nobody")).await;
    assert_eq!(
        refused(nobody, Code::NotFound),
        "there is no entity `nobody`; create it, or correct the id"
    );
    refused(client.check(about("chat", "")).await, Code::InvalidArgument);
    let checks = vec![both(), about("chat", "nobody"), bob()];
    let many = proto::CheckManyRequest {
        checks,
        ..Default::default()
    };
    let many = client.check_many(many).await.unwrap().into_inner().answers;
    let codes = many
        .iter()
        .map(|one| one.problem.as_ref().map(|problem| &*problem.code));
    assert_eq!(
        Vec::from_iter(codes),
        [Some("invalid"), Some("not_found"), None]
    );
    assert_eq!(many[2].entity, "acme");
}

#[tokio::test]
async fn a_lease_of_an_entity_is_held_ended_and_revoked_by_its_id() {
    let (_, mut client) = acme().await;
    let acquire = || proto::AcquireRequest {
        request: Some(about("jobs", "alice")),
        ..Default::default()
    };
    let answer = client.acquire(acquire()).await.unwrap().into_inner();
    let held = proto::LeaseRequest {
        policy: "jobs".to_owned(),
        lease: answer.lease.expect("a lease").id,
        entity: Some("alice".to_owned()),
        ..Default::default()
    };
    let refusal = client.acquire(acquire()).await.unwrap().into_inner();
    assert_eq!(refusal.decision.unwrap().entity, "alice");
    let leased = client.delete_entity(delete("alice", None)).await;
    refused(leased, Code::FailedPrecondition);
    let both = proto::LeaseRequest {
        key: "acme/search/alice".into(),
        ..held.clone()
    };
    refused(client.release(both).await, Code::InvalidArgument);
    client.release(held).await.unwrap();
    client.acquire(acquire()).await.unwrap();
    let leases = proto::ListLeasesRequest {
        policy: "jobs".to_owned(),
        ..Default::default()
    };
    let leases = client
        .list_leases(leases)
        .await
        .unwrap()
        .into_inner()
        .leases;
    let revoke = proto::RevokeLeaseRequest {
        policy: "jobs".to_owned(),
        handle: leases[0].handle.clone(),
        entity: Some("alice".to_owned()),
        ..Default::default()
    };
    client.revoke_lease(revoke).await.unwrap();
    client.check(about("chat", "alice")).await.unwrap();
    let reset = proto::ResetRequest {
        policy: "chat".to_owned(),
        entity: Some("alice".to_owned()),
        ..Default::default()
    };
    client.reset(reset).await.unwrap();
    let peek = client.peek(about("chat", "alice")).await.unwrap();
    assert_eq!(peek.into_inner().limits["rpm"].remaining, 2);
}
