//! Connections, calls and messages: too many, too long, too slow.

#[path = "../../../service/tests/support/away.rs"]
mod away;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use away::Away;
use http_body::Frame;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tidegate_grpc::{Listener, Server, Settings, proto};
use tidegate_policy::parse;
use tidegate_service::{Credential, Scope, Service};
use tidegate_store::{
    Abilities, Command, Definitions, Execution, Op, Out, Plan, Store, StoreError, StoreFuture,
    Table,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service as _, http};
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 1000, per = '1h' }\n\
                      running = { concurrency = 1 }\n";

/// HTTP/2's preface, and a client's settings: none of its own.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn service() -> Service {
    let file = parse("t", POLICY).unwrap();
    Service::builder().build(&file).unwrap()
}

/// A server with these settings, for as long as the test runs.
async fn server(change: impl FnOnce(&mut Settings)) -> (Service, SocketAddr) {
    let mut settings = Settings::default();
    change(&mut settings);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (service, at) = (service(), listener.local_addr().unwrap());
    let served = Server::new(service.clone(), settings).serve(
        Listener::from(listener).connections(),
        std::future::pending(),
    );
    tokio::spawn(served);
    (service, at)
}

async fn channel(at: SocketAddr) -> Channel {
    let channel = Channel::from_shared(format!("http://{at}")).unwrap();
    channel.connect().await.unwrap()
}

async fn client(at: SocketAddr) -> TidegateClient<Channel> {
    TidegateClient::new(channel(at).await)
}

fn about(key: &str) -> proto::CheckRequest {
    proto::CheckRequest {
        policy: "chat".into(),
        key: key.as_bytes().to_vec().into(),
        amounts: [("running".to_owned(), 0)].into(),
        ..Default::default()
    }
}

/// Half of a message, and never the rest.
struct Half(bool);

impl http_body::Body for Half {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Pending;
        }
        let half = Bytes::from_static(&[0, 0, 0, 0, 9, 1]);
        Poll::Ready(Some(Ok(Frame::data(half))))
    }
}

async fn half_a_check(channel: Channel, at: SocketAddr) -> Option<String> {
    half_a_check_by("nobody", channel, at).await
}

/// A check by this token whose message does not come; the status of its head.
async fn half_a_check_by(token: &str, mut channel: Channel, at: SocketAddr) -> Option<String> {
    let request = http::Request::post(format!("http://{at}/tidegate.v1.Tidegate/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::new(Half(false)))
        .unwrap();
    std::future::poll_fn(|context| channel.poll_ready(context))
        .await
        .unwrap();
    let answer = channel.call(request).await.unwrap();
    let status = answer.headers().get("grpc-status")?;
    Some(status.to_str().unwrap().to_owned())
}

/// Asks until something else is said, as long as one request is in the way.
async fn until_busy(client: &mut TidegateClient<Channel>) {
    for _ in 0..2_000 {
        match client.check(about("k")).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(status) => return assert_eq!(status.code(), Code::ResourceExhausted),
        }
    }
    panic!("nobody is in the way");
}

#[tokio::test]
async fn one_connection_too_many_is_closed_and_a_place_is_given_on() {
    let (_service, at) = server(|settings| settings.max_connections = 2).await;
    let mut first = client(at).await;
    let second = TcpStream::connect(at).await.unwrap();
    first.check(about("k")).await.unwrap();
    let mut third = TcpStream::connect(at).await.unwrap();
    assert!(matches!(third.read(&mut [0]).await, Ok(0) | Err(_)));
    drop(second);
    let mut again = TcpStream::connect(at).await.unwrap();
    again.write_all(HELLO).await.unwrap();
    while again.read(&mut [0]).await.is_ok_and(|n| n == 0) {
        // It has come before the place was free.
        again = TcpStream::connect(at).await.unwrap();
        let _ = again.write_all(HELLO).await;
    }
    first.check(about("k")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_begin_is_let_go() {
    for said in [&b""[..], b"PRI", &HELLO[..23]] {
        let (mut client, server) = duplex(1_024);
        client.write_all(said).await.unwrap();
        let accepted = tokio_stream::iter([server]);
        let accepted = accepted.chain(tokio_stream::pending());
        let settings = Settings::default();
        let within = settings.opening;
        let begun = tokio::time::Instant::now();
        let served = Server::new(service(), settings).serve(accepted, std::future::pending());
        let served = tokio::spawn(served);
        let _ = client.read_to_end(&mut Vec::new()).await;
        assert_eq!(begun.elapsed().as_secs(), within.as_secs());
        served.abort();
    }
}

#[tokio::test]
async fn a_client_that_does_not_say_that_it_lives_is_let_go() {
    let (_service, at) = server(|settings| settings.keepalive = Duration::from_millis(100)).await;
    let mut silent = TcpStream::connect(at).await.unwrap();
    silent.write_all(HELLO).await.unwrap();
    // It reads what it is asked, and never answers.
    let mut told = Vec::new();
    let all = silent.read_to_end(&mut told);
    let all = tokio::time::timeout(Duration::from_secs(20), all).await;
    all.expect("it is let go").ok();
}

/// What the server's first frame, its SETTINGS, says of `name`.
fn setting(frame: &[u8], name: u16) -> Option<u32> {
    let length = usize::from(frame[1]) << 8 | usize::from(frame[2]);
    assert_eq!(frame[3], 4, "it is SETTINGS");
    let pairs = frame[9..9 + length].chunks(6);
    let mut pairs = pairs.map(|pair| {
        let value = u32::from_be_bytes(pair[2..].try_into().unwrap());
        (u16::from_be_bytes([pair[0], pair[1]]), value)
    });
    pairs.find(|(id, _)| *id == name).map(|(_, value)| value)
}

#[tokio::test]
async fn clients_are_told_how_many_calls_and_how_long_a_head() {
    let (_service, at) = server(|settings| settings.max_streams = 7).await;
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(HELLO).await.unwrap();
    let mut frame = vec![0; 9];
    stream.read_exact(&mut frame).await.unwrap();
    frame.resize(9 + usize::from(frame[2]), 0);
    stream.read_exact(&mut frame[9..]).await.unwrap();
    assert_eq!(setting(&frame, 3), Some(7));
    assert_eq!(setting(&frame, 6), Some(32 * 1_024));
}

#[tokio::test]
async fn a_message_or_a_head_that_is_too_long_is_refused() {
    let (_service, at) = server(|settings| settings.max_message_bytes = 1_000).await;
    let mut client = client(at).await;
    let long = about(&"k".repeat(1_001));
    let refused = client.check(long).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    let mut request = Request::new(about("k"));
    let long = "x".repeat(40_000).parse().unwrap();
    request.metadata_mut().insert("x-long", long);
    assert!(client.check(request).await.is_err());
    client.check(about("k")).await.unwrap();
}

#[tokio::test]
async fn a_message_that_does_not_come_is_given_up() {
    let (_service, at) = server(|settings| {
        settings.body_timeout = Duration::from_millis(100);
        settings.max_in_flight = 1;
    })
    .await;
    let status = half_a_check(channel(at).await, at).await;
    assert_eq!(status.as_deref(), Some("4"), "DEADLINE_EXCEEDED");
    client(at).await.check(about("k")).await.unwrap();
}

#[tokio::test]
async fn one_request_too_many_is_told_so_and_who_waits_is_none() {
    let (service, at) = server(|settings| settings.max_in_flight = 1).await;
    let mut client = client(at).await;
    let slot = proto::AcquireRequest {
        request: Some(proto::CheckRequest {
            amounts: [("running".to_owned(), 1)].into(),
            ..about("k")
        }),
        wait_ms: Some(60_000),
        ..Default::default()
    };
    client.acquire(slot.clone()).await.unwrap();
    let mut other = client.clone();
    let waits = tokio::spawn(async move { other.acquire(slot).await });
    let caller = service.enter(None).unwrap();
    let chat = service.policy(&caller, Scope::Observe, "chat").unwrap();
    while chat.set().statistics().waiting == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.check(about("k")).await.unwrap();
    let slow = tokio::spawn(half_a_check(channel(at).await, at));
    until_busy(&mut client).await;
    slow.abort();
    let _ = slow.await;
    while client.check(about("k")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    waits.abort();
}

/// A store that answers no request for a lease, and tells of each.
struct Hangs(tokio::sync::mpsc::UnboundedSender<()>);

impl Store for Hangs {
    fn abilities(&self) -> Abilities {
        Away.abilities()
    }
    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        Away.definitions(owner, newer_than)
    }
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = Away.open(name, plan)?;
        Ok(Arc::new(HangingTable(table, self.0.clone())))
    }
}

struct HangingTable(Arc<dyn Table>, tokio::sync::mpsc::UnboundedSender<()>);

impl Table for HangingTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        if matches!(command.op, Op::Adopt) {
            return self.0.execute(command, out);
        }
        self.1.send(()).unwrap();
        StoreFuture::new(std::future::pending()).into()
    }
}

/// Every request for a lease gave its place back, whether it waited for its turn or not: so
/// many as the connections have streams piled up before a store that hung.
#[tokio::test]
async fn who_does_not_wait_keeps_the_place_until_the_store_has_answered() {
    let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
    let service = Service::builder().store(Arc::new(Hangs(asked)));
    let service = service.build(&parse("t", POLICY).unwrap()).unwrap();
    let mut settings = Settings::default();
    settings.max_in_flight = 1;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(Server::new(service, settings).serve(
        Listener::from(listener).connections(),
        std::future::pending(),
    ));
    let mut client = client(at).await;
    let acquire = |wait_ms| proto::AcquireRequest {
        request: Some(about("k")),
        wait_ms,
        ..Default::default()
    };
    // Whoever waits is none of those in flight.
    let mut hung = Vec::new();
    for wait in [Some(1_000), None] {
        let (mut client, acquire) = (client.clone(), acquire(wait));
        hung.push(tokio::spawn(async move { client.acquire(acquire).await }));
        asks.recv().await.unwrap();
    }
    let one_more = client.acquire(acquire(None));
    let one_more = tokio::time::timeout(Duration::from_secs(20), one_more).await;
    let busy = one_more.expect("it is told at once").unwrap_err();
    assert_eq!(busy.code(), Code::ResourceExhausted);
    assert!(busy.message().contains("`max_in_flight`"), "{busy}");
    hung.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn one_open_stream_too_many_is_told_so() {
    let (_service, at) = server(|settings| settings.max_long_calls = 1).await;
    let mut client = client(at).await;
    let watch = proto::WatchDenialsRequest::default;
    let first = client.watch_denials(watch()).await.unwrap();
    let code = |status: tonic::Status| status.code();
    let second = client.watch_denials(watch()).await.unwrap_err();
    assert_eq!(second.code(), Code::ResourceExhausted);
    assert!(second.message().contains("streams"), "{second}");
    let batches = tokio_stream::pending::<proto::CheckManyRequest>();
    let third = client.check_stream(batches).await.map(drop);
    assert_eq!(third.map_err(code), Err(Code::ResourceExhausted));
    drop(first);
    while client.watch_denials(watch()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The one token had all of them, and the others none.
#[tokio::test]
async fn one_token_has_some_of_the_long_calls_only() {
    let token = |name: &str| Credential {
        name: name.to_owned(),
        sha256: Credential::hash(name),
        scopes: vec![Scope::Observe],
        policies: Vec::new(),
        namespace: None,
    };
    let mut settings = Settings::default();
    (settings.max_long_calls, settings.max_long_calls_of_one) = (4, 2);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (service, at) = (service(), listener.local_addr().unwrap());
    service.replace_credentials([token("greedy"), token("modest")]);
    tokio::spawn(Server::new(service, settings).serve(
        Listener::from(listener).connections(),
        std::future::pending(),
    ));
    let mut client = client(at).await;
    let watch = |token: &str| {
        let mut request = Request::new(proto::WatchDenialsRequest::default());
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        request
    };
    let first = client.watch_denials(watch("greedy")).await.unwrap();
    let second = client.watch_denials(watch("greedy")).await.unwrap();
    let third = client.watch_denials(watch("greedy")).await.unwrap_err();
    assert_eq!(third.code(), Code::ResourceExhausted);
    assert!(third.message().starts_with("this token"), "{third}");
    client.watch_denials(watch("modest")).await.unwrap();
    drop((first, second));
    while client.watch_denials(watch("greedy")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whoever had one token had all of them with it, and the others none; and it was let in
/// before anybody had looked whether there is such a token.
#[tokio::test]
async fn one_token_has_half_of_the_calls_in_flight_at_most() {
    let (service, at) = server(|settings| settings.max_in_flight = 4).await;
    let token = |name: &str| Credential {
        name: name.to_owned(),
        sha256: Credential::hash(name),
        scopes: vec![Scope::Decide],
        policies: Vec::new(),
        namespace: None,
    };
    service.replace_credentials([token("greedy"), token("modest")]);
    let channel = channel(at).await;
    let mut client = client(at).await;
    let check = |token: &str| {
        let mut request = Request::new(about("k"));
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        request
    };
    let unknown = half_a_check_by("unknown", channel.clone(), at).await;
    assert_eq!(unknown.as_deref(), Some("16"), "UNAUTHENTICATED, at once");
    let slow = || {
        let channel = channel.clone();
        tokio::spawn(async move { half_a_check_by("greedy", channel, at).await })
    };
    let slow = [slow(), slow()];
    let mut refused = None;
    for _ in 0..2_000 {
        refused = client.check(check("greedy")).await.err();
        match &refused {
            None => tokio::time::sleep(Duration::from_millis(5)).await,
            Some(_) => break,
        }
    }
    let refused = refused.expect("it has its half");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().starts_with("this token"), "{refused}");
    client.check(check("modest")).await.unwrap();
    assert!(is_healthy(&channel).await);
    for slow in slow {
        slow.abort();
        let _ = slow.await;
    }
    while client.check(check("greedy")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One more stream of the health service, open until it is dropped.
async fn watch(channel: &Channel) -> Result<tonic::Streaming<HealthCheckResponse>, tonic::Status> {
    let mut health = HealthClient::new(channel.clone());
    let watched = health.watch(HealthCheckRequest::default()).await?;
    let mut stream = watched.into_inner();
    stream.message().await?.expect("how it is now");
    Ok(stream)
}

async fn is_healthy(channel: &Channel) -> bool {
    let mut health = HealthClient::new(channel.clone());
    health.check(HealthCheckRequest::default()).await.is_ok()
}

/// Nobody needs a token for it, and nothing ended one: 20,000 were opened, by twenty
/// connections.
#[tokio::test]
async fn one_connection_watches_the_health_a_few_times_at_once() {
    let (_service, at) = server(|_| ()).await;
    let channel = channel(at).await;
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(watch(&channel).await.expect("there is room"));
    }
    let refused = watch(&channel).await.expect_err("one too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(is_healthy(&channel).await);
    open.pop();
    // That it is gone is heard of a little later.
    for _ in 0..2_000 {
        if let Ok(stream) = watch(&channel).await {
            return drop(stream);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the place is not given on");
}

#[tokio::test]
async fn all_connections_watch_the_health_no_more_than_so_many_times() {
    let (_service, at) = server(|settings| settings.max_open_streams = 2).await;
    let first = channel(at).await;
    let _open = (watch(&first).await.unwrap(), watch(&first).await.unwrap());
    let second = channel(at).await;
    let refused = watch(&second).await.expect_err("one too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(is_healthy(&second).await);
    assert!(client(at).await.check(about("k")).await.is_ok());
}

#[tokio::test]
async fn a_stream_on_which_nothing_is_said_is_ended() {
    let (_service, at) = server(|settings| settings.stream_idle = Duration::from_millis(50)).await;
    let mut stream = watch(&channel(at).await).await.unwrap();
    let ended = stream.message().await.expect_err("it is silent");
    assert_eq!(ended.code(), Code::Unavailable);
    assert!(ended.message().contains("open the stream again"), "{ended}");
}
