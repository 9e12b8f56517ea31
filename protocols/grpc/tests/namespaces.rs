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
use tidegate_service::Service;
use tokio::net::TcpListener;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

type Client = TidegateClient<Channel>;

async fn served() -> (ManualClock, Client) {
    let time = ManualClock::default();
    let policies = "[policy.chat.limits]\nrpm = { calls = 2, per = '1h' }\n";
    let builder = Service::builder().clock(time.clock());
    let builder = builder.store(Arc::new(MemoryStore::default()));
    let service = builder.build(&parse("t", policies).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at: SocketAddr = listener.local_addr().unwrap();
    let served = Server::new(service, Settings::default()).serve(
        Listener::from(listener).connections(),
        std::future::pending(),
    );
    tokio::spawn(served);
    let client = Client::connect(format!("http://{at}")).await.unwrap();
    (time, client)
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
