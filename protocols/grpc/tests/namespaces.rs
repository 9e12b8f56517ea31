//! Namespaces, over a real socket: created, deleted, restored, purged and listed, and named by
//! the metadata of a call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::ManualClock;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tidegate_grpc::{Listener, Server, Settings, proto};
use tidegate_memory::MemoryStore;
use tidegate_policy::parse;
use tidegate_service::{Credential, Scope, Service};
use tokio::net::TcpListener;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

type Client = TidegateClient<Channel>;

const POLICIES: &str = "[policy.chat.limits]\nrpm = { calls = 2, per = '1h' }\n\
                        [policy.payroll.limits]\nrpm = { calls = 2, per = '1h' }\n";

async fn served() -> (ManualClock, Client) {
    let time = ManualClock::default();
    let builder = Service::builder().clock(time.clock());
    let builder = builder.store(Arc::new(MemoryStore::default()));
    let service = builder.build(&parse("t", POLICIES).unwrap()).unwrap();
    (time, client_of(service).await)
}

/// A client of a server of `service`.
async fn client_of(service: Service) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at: SocketAddr = listener.local_addr().unwrap();
    let served = Server::new(service, Settings::default()).serve(
        Listener::from(listener).connections(),
        std::future::pending(),
    );
    tokio::spawn(served);
    Client::connect(format!("http://{at}")).await.unwrap()
}

fn token(name: &str, namespace: &str, scopes: &[Scope], policies: &[&str]) -> Credential {
    Credential {
        name: name.to_owned(),
        sha256: Credential::hash(name),
        scopes: scopes.to_vec(),
        policies: policies.iter().map(|&name| name.to_owned()).collect(),
        namespace: Some(namespace.to_owned()),
    }
}

/// As who has this token.
fn by<T>(token: &str, mut request: Request<T>) -> Request<T> {
    let value = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

fn change(name: &str) -> proto::ChangeNamespaceRequest {
    proto::ChangeNamespaceRequest {
        name: name.to_owned(),
        reason: "why".to_owned(),
    }
}

fn check(namespace: &str) -> Request<proto::CheckRequest> {
    let mut request = Request::new(proto::CheckRequest {
        policy: "chat".to_owned(),
        key: b"alice".to_vec().into(),
        ..Default::default()
    });
    let metadata = request.metadata_mut();
    metadata.insert("tidegate-namespace", namespace.parse().unwrap());
    request
}

async fn left(client: &mut Client, namespace: &str) -> usize {
    let mut left = 0;
    while client
        .check(check(namespace))
        .await
        .unwrap()
        .get_ref()
        .admitted
    {
        left += 1;
    }
    left
}

fn refused<T: std::fmt::Debug>(answer: Result<Response<T>, Status>, code: Code) -> String {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), code, "{status:?}");
    status.message().to_owned()
}

#[tokio::test]
async fn a_namespace_is_created_asked_deleted_restored_and_purged() {
    let (time, mut client) = served().await;
    let created = client.create_namespace(change("acme")).await.unwrap();
    let created = created.into_inner();
    assert_eq!((&*created.name, &*created.by), ("acme", "anyone"));
    assert_eq!(created.state(), proto::NamespaceState::Active);
    refused(client.create_namespace(change("acme")).await, Code::Aborted);
    refused(
        client.create_namespace(change("a/b")).await,
        Code::InvalidArgument,
    );
    assert_eq!(left(&mut client, "acme").await, 2);
    assert_eq!(left(&mut client, "default").await, 2);
    refused(client.check(check("nobody")).await, Code::NotFound);
    let in_use = client.purge_namespace(change("acme")).await;
    refused(in_use, Code::FailedPrecondition);
    let deleted = client.delete_namespace(change("acme")).await.unwrap();
    assert_eq!(deleted.get_ref().state(), proto::NamespaceState::Deleted);
    let told = refused(client.check(check("acme")).await, Code::FailedPrecondition);
    assert!(told.contains("the namespace `acme` is deleted"), "{told}");
    client.restore_namespace(change("acme")).await.unwrap();
    assert_eq!(left(&mut client, "acme").await, 0);
    client.create_namespace(change("b")).await.unwrap();
    client.delete_namespace(change("acme")).await.unwrap();
    let list = proto::ListNamespacesRequest::default();
    let listed = client.list_namespaces(list).await.unwrap().into_inner();
    let names: Vec<_> = listed.namespaces.iter().map(|one| &*one.name).collect();
    assert_eq!((names, listed.cursor.len()), (vec!["acme", "b"], 0));
    time.advance(Duration::from_secs(10));
    let purged = client.purge_namespace(change("acme")).await.unwrap();
    assert!(purged.get_ref().done && purged.get_ref().removed > 0);
    let get = proto::GetNamespaceRequest {
        name: "acme".to_owned(),
    };
    refused(client.get_namespace(get).await, Code::NotFound);
}

/// The service of a namespace had no tokens, so that it took everyone for somebody who may all:
/// who watched was told of every policy of it, and still after the token was taken away.
#[tokio::test]
async fn who_watches_in_a_namespace_is_told_what_the_token_may_see_as_long_as_it_is_one() {
    let builder = Service::builder().store(Arc::new(MemoryStore::default()));
    let service = builder.build(&parse("t", POLICIES).unwrap()).unwrap();
    let operator = || token("operator", "*", &Scope::ALL, &[]);
    let watcher = token("watcher", "acme", &[Scope::Observe], &["chat"]);
    service.replace_credentials([operator(), watcher]);
    let mut client = client_of(service.clone()).await;
    let create = by("operator", Request::new(change("acme")));
    client.create_namespace(create).await.unwrap();
    let all = Request::new(proto::WatchDenialsRequest::default());
    let denials = client.watch_denials(by("watcher", all)).await.unwrap();
    let mut denials = denials.into_inner();
    let of = |policy: &str| {
        let mut request = check("acme");
        request.get_mut().policy = policy.to_owned();
        by("operator", request)
    };
    for policy in ["payroll", "chat"] {
        for nth in 0..3 {
            let checked = client.check(of(policy)).await.unwrap();
            assert_eq!(checked.get_ref().admitted, nth < 2);
        }
    }
    let first = denials.message().await.unwrap().unwrap();
    assert_eq!(first.policy, "chat", "no other is told");
    service.replace_credentials([operator()]);
    client.check(of("chat")).await.unwrap();
    let ended = denials.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unauthenticated);
}
