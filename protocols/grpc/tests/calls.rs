//! The server over a real socket, with the client that the proto file makes.

#[path = "../../../service/tests/support/counted.rs"]
mod counted;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::ManualClock;
use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tidegate_grpc::{Listener, Server, Settings, proto};
use tidegate_policy::{PolicyFile, parse};
use tidegate_service::{Credential, Scope, Service, ServiceBuilder};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Code, Request};

use counted::Counted;

const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n\
                      tpm = { rate = 1000, per = '1h' }\nrunning = { concurrency = 1 }\n";

struct Running {
    service: Service,
    at: SocketAddr,
    stop: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Running {
    /// Until somebody waits for a lease.
    async fn until_one_waits(&self) {
        let caller = self.service.enter(None).unwrap();
        let chat = self
            .service
            .policy(&caller, Scope::Observe, "chat")
            .unwrap();
        while chat.set().statistics().waiting == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn running(credentials: Vec<Credential>) -> (Running, TidegateClient<Channel>) {
    running_by(Service::builder().credentials(credentials)).await
}

async fn running_by(builder: ServiceBuilder) -> (Running, TidegateClient<Channel>) {
    running_with(builder, &parse("t", POLICY).unwrap()).await
}

async fn running_with(
    builder: ServiceBuilder,
    file: &PolicyFile,
) -> (Running, TidegateClient<Channel>) {
    let time = ManualClock::default();
    let service = builder.clock(time.clock()).build(file).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let served = Server::new(service.clone(), Settings::default()).serve(
        Listener::from(listener).connections(),
        async {
            let _ = stopped.await;
        },
    );
    let server = tokio::spawn(served);
    let client = TidegateClient::connect(format!("http://{at}"))
        .await
        .unwrap();
    let running = Running {
        service,
        at,
        stop,
        server,
    };
    (running, client)
}

fn about(key: &str) -> proto::CheckRequest {
    proto::CheckRequest {
        policy: "chat".into(),
        key: key.as_bytes().to_vec().into(),
        amounts: [("running".to_owned(), 0)].into(),
        ..Default::default()
    }
}

fn tokens(key: &str, amount: u64) -> proto::AcquireRequest {
    proto::AcquireRequest {
        request: Some(proto::CheckRequest {
            amounts: [("tpm".to_owned(), amount)].into(),
            ..about(key)
        }),
        ..Default::default()
    }
}

fn named(lease: &proto::Lease, key: &str) -> proto::LeaseRequest {
    proto::LeaseRequest {
        policy: "chat".into(),
        key: key.as_bytes().to_vec().into(),
        lease: lease.id.clone(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_check_is_admitted_until_the_limit_and_then_told_when() {
    let (_running, mut client) = running(Vec::new()).await;
    for left in (0..10).rev() {
        let answer = client.check(about("k")).await.unwrap().into_inner();
        assert!(answer.admitted);
        assert_eq!(answer.limits["rpm"].remaining, left);
    }
    let refused = client.check(about("k")).await.unwrap().into_inner();
    assert!(!refused.admitted);
    assert_eq!(refused.binding, "rpm");
    assert_eq!(refused.not_until_us, refused.limits["rpm"].replenish_at_us);
    let peeked = client.peek(about("other")).await.unwrap().into_inner();
    assert!(peeked.admitted);
}

#[tokio::test]
async fn a_lease_is_acquired_renewed_settled_and_settled_once() {
    let (_running, mut client) = running(Vec::new()).await;
    let acquired = client.acquire(tokens("k", 400)).await.unwrap().into_inner();
    let lease = acquired.lease.expect("it fits");
    let renew = proto::RenewRequest {
        lease: Some(named(&lease, "k")),
        ttl_ms: Some(900_000),
    };
    let renewed = client.renew(renew).await.unwrap().into_inner();
    assert!(renewed.expires_at_us > lease.expires_at_us);
    let shorter = proto::RenewRequest {
        lease: Some(named(&lease, "k")),
        ttl_ms: None,
    };
    let shorter = client.renew(shorter).await.unwrap().into_inner();
    let again = lease.expires_at_us..renewed.expires_at_us;
    assert!(again.contains(&shorter.expires_at_us), "as it was granted");
    for (tpm, admitted) in [(500, true), (500, true), (100_000_000, false), (400, true)] {
        let adjust = proto::AdjustRequest {
            lease: Some(named(&lease, "k")),
            amounts: [("tpm".to_owned(), tpm)].into(),
            ..Default::default()
        };
        let adjusted = client.adjust(adjust).await.map(tonic::Response::into_inner);
        assert_eq!(
            adjusted.is_ok_and(|answer| answer.admitted),
            admitted,
            "{tpm}"
        );
    }
    let settle = proto::SettleRequest {
        lease: Some(named(&lease, "k")),
        used: [("tpm".to_owned(), 100)].into(),
        ..Default::default()
    };
    let settled = client.settle(settle.clone()).await.unwrap().into_inner();
    assert_eq!(
        (settled.limits["tpm"].taken, settled.limits["tpm"].used),
        (400, 100)
    );
    let again = client.settle(settle).await.unwrap().into_inner();
    assert!(again.repeated && !settled.repeated);
    let foreseen = client.forecast(about("k")).await.unwrap().into_inner();
    assert_eq!(foreseen.limits["rpm"].spendable, 9);
    let unknown = named(
        &proto::Lease {
            id: "0".repeat(32),
            ..lease
        },
        "k",
    );
    assert_eq!(
        client.release(unknown).await.unwrap_err().code(),
        Code::NotFound
    );
}

#[tokio::test]
async fn a_lease_is_adjusted_and_settled_by_a_cost() {
    let (_running, mut client) = running(Vec::new()).await;
    let acquired = client.acquire(tokens("k", 400)).await.unwrap().into_inner();
    let lease = Some(named(&acquired.lease.expect("it fits"), "k"));
    let adjust = proto::AdjustRequest {
        lease: lease.clone(),
        cost: Some(500),
        ..Default::default()
    };
    assert!(client.adjust(adjust).await.unwrap().into_inner().admitted);
    let nothing = proto::AdjustRequest {
        lease: lease.clone(),
        ..Default::default()
    };
    let refused = client.adjust(nothing).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let settle = proto::SettleRequest {
        lease,
        cost: Some(100),
        ..Default::default()
    };
    let settled = client.settle(settle).await.unwrap().into_inner();
    let used = |limit: &str| (settled.limits[limit].taken, settled.limits[limit].used);
    assert_eq!((used("tpm"), used("rpm")), ((500, 100), (1, 1)));
}

#[tokio::test]
async fn an_idempotency_key_that_is_too_long_is_refused() {
    let (_running, mut client) = running(Vec::new()).await;
    let request = |length: usize| proto::AcquireRequest {
        request: Some(proto::CheckRequest {
            amounts: [("running".to_owned(), 1)].into(),
            ..about("k")
        }),
        idempotency_key: Some(vec![b'x'; length].into()),
        ..Default::default()
    };
    let refused = client.acquire(request(256)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("1 to 255 bytes"), "{refused}");
    client.acquire(request(255)).await.unwrap();
}

/// It was taken for none, and the retry of such a request took a second lease.
#[tokio::test]
async fn an_idempotency_key_of_no_bytes_is_refused() {
    let (_running, mut client) = running(Vec::new()).await;
    let request = proto::AcquireRequest {
        idempotency_key: Some("".into()),
        ..tokens("k", 1)
    };
    let refused = client.acquire(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("1 to 255 bytes"), "{refused}");
}

/// What a name of 20,000 bytes was answered fitted no head, and to many clients the
/// connection was broken.
#[tokio::test]
async fn a_long_name_is_cut_in_the_error() {
    let (_running, mut client) = running(Vec::new()).await;
    let long = "\u{e4}".repeat(20_000);
    let policy = proto::CheckRequest {
        policy: long.clone(),
        ..about("k")
    };
    let limit = proto::CheckRequest {
        amounts: [(long, 1)].into(),
        ..about("k")
    };
    for (request, code) in [(policy, Code::NotFound), (limit, Code::InvalidArgument)] {
        let refused = client.check(request).await.unwrap_err();
        assert_eq!(refused.code(), code);
        assert!(refused.message().len() < 512, "{refused}");
        assert!(refused.message().contains("\u{e4}...`"), "{refused}");
    }
}

/// It was made shorter, and nobody was told.
#[tokio::test]
async fn a_wait_that_is_too_long_is_refused() {
    let (_running, mut client) = running(Vec::new()).await;
    let request = |wait_ms: u64| proto::AcquireRequest {
        request: Some(proto::CheckRequest {
            amounts: [("running".to_owned(), 1)].into(),
            ..about("k")
        }),
        wait_ms: Some(wait_ms),
        ..Default::default()
    };
    let refused = client.acquire(request(300_001)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused.message().contains("at most here, not 300.001s"),
        "{refused}"
    );
    client.acquire(request(300_000)).await.unwrap();
}

#[tokio::test]
async fn an_ask_that_waits_is_served_by_the_release() {
    let (running, mut client) = running(Vec::new()).await;
    let slot = || proto::AcquireRequest {
        request: Some(proto::CheckRequest {
            amounts: [("running".to_owned(), 1)].into(),
            ..about("k")
        }),
        wait_ms: Some(60_000),
        ..Default::default()
    };
    let held = client
        .acquire(slot())
        .await
        .unwrap()
        .into_inner()
        .lease
        .unwrap();
    let mut other = client.clone();
    let waiting = tokio::spawn(async move { other.acquire(slot()).await });
    running.until_one_waits().await;
    assert!(!waiting.is_finished());
    client.release(named(&held, "k")).await.unwrap();
    let granted = waiting.await.unwrap().unwrap().into_inner();
    assert!(granted.lease.unwrap().fence > held.fence);
}

#[tokio::test]
async fn bad_requests_are_told_apart() {
    let (_running, mut client) = running(Vec::new()).await;
    let code = |status: tonic::Status| status.code();
    let unknown = proto::CheckRequest {
        policy: "no".into(),
        ..about("k")
    };
    assert_eq!(
        client.check(unknown).await.map(drop).map_err(code),
        Err(Code::NotFound)
    );
    assert_eq!(
        client.check(about("")).await.map(drop).map_err(code),
        Err(Code::InvalidArgument)
    );
    let never = tokens("k", 1_001);
    assert_eq!(
        client.acquire(never).await.map(drop).map_err(code),
        Err(Code::OutOfRange)
    );
    let huge = tokens("k", u64::MAX);
    assert_eq!(
        client.acquire(huge).await.map(drop).map_err(code),
        Err(Code::InvalidArgument)
    );
    let nothing = proto::AcquireRequest::default();
    assert_eq!(
        client.acquire(nothing).await.map(drop).map_err(code),
        Err(Code::InvalidArgument)
    );
    let many = proto::CheckManyRequest {
        checks: vec![about("k"); 1_001],
        correlation: 0,
    };
    assert_eq!(
        client.check_many(many).await.map(drop).map_err(code),
        Err(Code::InvalidArgument)
    );
}

#[tokio::test]
async fn batches_are_answered_in_order_each_check_by_itself() {
    let (_running, mut client) = running(Vec::new()).await;
    let unknown = proto::CheckRequest {
        policy: "no".into(),
        ..about("k")
    };
    let batch = |correlation| proto::CheckManyRequest {
        checks: vec![about("k"), unknown.clone(), about("k")],
        correlation,
    };
    let batches = tokio_stream::iter((0..6).map(batch).collect::<Vec<_>>());
    let mut answers = client.check_stream(batches).await.unwrap().into_inner();
    for correlation in 0..6 {
        let batch = answers.message().await.unwrap().unwrap();
        assert_eq!(batch.correlation, correlation);
        let [first, problem, last] = &batch.answers[..] else {
            panic!("three asks, three answers");
        };
        assert_eq!(
            (first.admitted, last.admitted),
            (correlation < 5, correlation < 5)
        );
        assert_eq!(problem.problem.as_ref().unwrap().code, "not_found");
    }
    assert!(answers.message().await.unwrap().is_none());
}

/// They went one after the other, a command and a round trip each.
#[tokio::test]
async fn the_checks_of_a_batch_are_one_command() {
    let store = Counted::default();
    let service = Service::builder().store(Arc::new(store.clone()));
    let (_running, mut client) = running_by(service).await;
    store.take();
    let batch = proto::CheckManyRequest {
        checks: vec![about("a"), about("b"), about("a")],
        correlation: 0,
    };
    store.await_together(1);
    let answers = client.check_many(batch).await.unwrap().into_inner().answers;
    assert!(answers.iter().all(|answer| answer.admitted));
    assert_eq!(store.take(), [("chat".to_owned(), 3)]);
}

#[tokio::test]
async fn refusals_are_seen_as_they_happen() {
    let (_running, mut client) = running(Vec::new()).await;
    let all = proto::WatchDenialsRequest::default();
    let mut denials = client.watch_denials(all).await.unwrap().into_inner();
    for _ in 0..11 {
        client.check(about("noisy")).await.unwrap();
    }
    let denial = denials.message().await.unwrap().unwrap();
    assert_eq!(
        (&denial.key[..], denial.binding.as_str()),
        (&b"noisy"[..], "rpm")
    );
    assert_eq!(denial.missed, 0);
}

#[tokio::test]
async fn nobody_is_let_in_without_a_token_once_there_is_one() {
    let only_decide = Vec::from([Credential {
        name: "t".into(),
        sha256: Credential::hash("secret"),
        scopes: vec![Scope::Decide],
        policies: vec!["chat".into()],
        namespace: None,
    }]);
    let (_running, mut client) = running(only_decide).await;
    let code = |status: tonic::Status| status.code();
    fn with<T>(message: T, token: &str) -> Request<T> {
        let mut request = Request::new(message);
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
        request
    }
    let reset = || proto::ResetRequest {
        policy: "chat".into(),
        key: b"k".to_vec().into(),
        ..Default::default()
    };
    let refused = client.check(about("k")).await.map(drop).map_err(code);
    assert_eq!(refused, Err(Code::Unauthenticated));
    let refused = client
        .check(with(about("k"), "guess"))
        .await
        .map(drop)
        .map_err(code);
    assert_eq!(refused, Err(Code::Unauthenticated));
    assert!(client.check(with(about("k"), "secret")).await.is_ok());
    for refused in [
        client
            .reset(with(reset(), "secret"))
            .await
            .map(drop)
            .map_err(code),
        client
            .peek(with(about("k"), "secret"))
            .await
            .map(drop)
            .map_err(code),
    ] {
        assert_eq!(refused, Err(Code::PermissionDenied));
    }
    // Whoever is not let in is told nothing of what is missing.
    let settle = proto::SettleRequest::default();
    let refused = client.settle(settle.clone()).await.map(drop);
    assert_eq!(refused.map_err(code), Err(Code::Unauthenticated));
    let refused = client.settle(with(settle, "secret")).await.map(drop);
    assert_eq!(refused.map_err(code), Err(Code::InvalidArgument));
    let batch = proto::CheckManyRequest {
        checks: vec![about("k")],
        ..Default::default()
    };
    assert!(
        client
            .check_many(with(batch.clone(), "secret"))
            .await
            .is_ok()
    );
    let refused = client.check_many(batch).await.map(drop).map_err(code);
    assert_eq!(refused, Err(Code::Unauthenticated));
    let refused = client
        .watch_denials(proto::WatchDenialsRequest::default())
        .await;
    assert_eq!(refused.map(drop).map_err(code), Err(Code::Unauthenticated));
}

/// Who came in before the tokens were replaced decided and watched for as long as the
/// stream was open.
#[tokio::test]
async fn a_stream_ends_with_the_token_that_opened_it() {
    let token = |name: &str| Credential {
        name: name.into(),
        sha256: Credential::hash(name),
        scopes: Scope::ALL.to_vec(),
        policies: Vec::new(),
        namespace: None,
    };
    let (running, mut client) = running(Vec::from([token("old"), token("kept")])).await;
    fn with<T>(message: T, token: &str) -> Request<T> {
        let mut request = Request::new(message);
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
        request
    }
    let batch = || proto::CheckManyRequest {
        checks: vec![about("k")],
        ..Default::default()
    };
    for (name, stays) in [("old", false), ("kept", true)] {
        running
            .service
            .replace_credentials(Vec::from([token("old"), token("kept")]));
        let (batches, sent) = tokio::sync::mpsc::channel(1);
        let sent = tokio_stream::wrappers::ReceiverStream::new(sent);
        let answers = client.check_stream(with(sent, name)).await.unwrap();
        let mut answers = answers.into_inner();
        let all = proto::WatchDenialsRequest::default();
        let denials = client.watch_denials(with(all, name)).await.unwrap();
        let mut denials = denials.into_inner();
        batches.send(batch()).await.unwrap();
        assert_eq!(answers.message().await.unwrap().unwrap().answers.len(), 1);
        running
            .service
            .replace_credentials(Vec::from([token("kept")]));
        batches.send(batch()).await.unwrap();
        let answered = answers.message().await.map(|_| ());
        let code = |told: Result<(), tonic::Status>| told.map_err(|status| status.code());
        let expected = match stays {
            true => Ok(()),
            false => Err(Code::Unauthenticated),
        };
        assert_eq!(code(answered), expected, "{name}");
        for _ in 0..11 {
            client.check(with(about(name), "kept")).await.unwrap();
        }
        let denied = denials.message().await.map(|_| ());
        assert_eq!(code(denied), expected, "{name}");
    }
}

#[tokio::test]
async fn health_is_told_and_a_server_that_closes_answers_who_waits() {
    let (running, mut client) = running(Vec::new()).await;
    let channel = Channel::from_shared(format!("http://{}", running.at)).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
    let status = health
        .check(tonic_health::pb::HealthCheckRequest::default())
        .await;
    assert_eq!(status.unwrap().into_inner().status, 1);
    let slot = proto::AcquireRequest {
        request: Some(proto::CheckRequest {
            amounts: [("running".to_owned(), 1)].into(),
            ..about("k")
        }),
        wait_ms: Some(60_000),
        ..Default::default()
    };
    client.acquire(slot.clone()).await.unwrap();
    let waiting = tokio::spawn(async move { client.acquire(slot).await });
    running.until_one_waits().await;
    running.service.close();
    assert_eq!(
        waiting.await.unwrap().unwrap_err().code(),
        Code::Unavailable
    );
    running.stop.send(()).unwrap();
    drop(health);
    running.server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_grant_is_spent_and_returned_once() {
    let policies = "[policy.chat]\ntier = { mode = 'leased', batch = 5, hold = '2s' }\n\
                    [policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n\
                    tpm = { rate = 1000, per = '1h' }\n";
    let file = parse("t", policies).unwrap();
    let (_running, mut client) = running_with(Service::builder(), &file).await;
    let wish = proto::CheckRequest {
        policy: "chat".into(),
        key: b"k".to_vec().into(),
        amounts: [("rpm".into(), 20), ("tpm".into(), 300)].into(),
        ..Default::default()
    };
    let id = "00112233445566778899aabbccddeeff".to_owned();
    let grant = proto::GrantRequest {
        request: Some(wish.clone()),
        lease: id.clone(),
        ..Default::default()
    };
    let granted = client.grant(grant.clone()).await.unwrap().into_inner();
    assert!(granted.decision.unwrap().admitted);
    let units = granted.grant.unwrap();
    assert_eq!((units.id, units.good_for_ms), (id.clone(), 2_000));
    assert_eq!(
        units.amounts,
        [("rpm".into(), 10), ("tpm".into(), 300)].into()
    );
    assert_eq!(units.calls, ["rpm"]);
    assert_eq!(units.good_until_us - units.granted_at_us, 2_000_000);
    // The same id again: nothing more is taken.
    let mut again = grant.clone();
    again
        .request
        .as_mut()
        .unwrap()
        .amounts
        .insert("rpm".into(), 0);
    let again = client.grant(again).await.unwrap_err();
    assert_eq!(again.code(), Code::InvalidArgument, "{again:?}");
    let back = proto::ReturnRequest {
        policy: "chat".into(),
        key: b"k".to_vec().into(),
        lease: id,
        used: [("rpm".into(), 4)].into(),
        ..Default::default()
    };
    for repeated in [false, true] {
        let ended = client.r#return(back.clone()).await.unwrap().into_inner();
        assert_eq!(ended.repeated, repeated);
        let usage = |taken, used| proto::Usage { taken, used };
        let shares = [("rpm".into(), usage(10, 4)), ("tpm".into(), usage(300, 0))];
        assert_eq!(ended.limits, shares.into());
    }
    let one = proto::CheckRequest {
        amounts: [("rpm".into(), 1)].into(),
        ..wish
    };
    let peek = client.peek(one).await.unwrap().into_inner();
    assert_eq!(peek.limits["rpm"].remaining, 6);
    assert_eq!(peek.limits["tpm"].remaining, 1_000);
}
