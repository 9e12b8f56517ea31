//! The Rust client against a server: what programs are answered.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use tidegate_client::{
    Admission, Answer, Client, Error, Exchange, Lease, Loss, Outcome, Quantity, Report, Request,
    Why,
};
use tidegate_service::Credential;
use tokio::time::timeout;

use crate::proxy::Proxy;
use crate::server::{POLICY, Server};

const LONG: Duration = Duration::from_secs(20);

fn client(server: &Server) -> Client {
    Client::new(&server.url).expect("a client")
}

fn chat(amount: u64) -> Request {
    Request::new("chat", "alice").amount("tpm", amount)
}

fn job() -> Request {
    Request::new("jobs", "nightly")
}

#[track_caller]
fn granted(admission: Admission) -> Lease {
    match admission {
        Admission::Granted(lease) => lease,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(admission: Admission) -> Answer {
    match admission {
        Admission::Refused(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// What is left of a limit.
async fn left(client: &Client, request: &Request, limit: &str) -> Quantity {
    let answer = client.peek(request).await.expect("an answer");
    answer.limits.get(limit).expect("a limit").remaining.clone()
}

/// Until `done` says so, or for some twenty seconds.
async fn until(mut done: impl AsyncFnMut() -> bool) {
    let waited = timeout(LONG, async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.expect("it comes");
}

#[tokio::test]
async fn a_check_is_admitted_or_refused_and_says_by_what_and_until_when() {
    let server = Server::start(POLICY);
    let client = client(&server);
    let answer = client.check(&chat(600)).await.expect("an answer");
    assert!(answer.admitted && !answer.degraded && answer.retry_after.is_none());
    let tpm = answer.limits.get("tpm").expect("a limit");
    assert_eq!((&tpm.limit, &tpm.remaining), (&1_000.into(), &400.into()));
    let answer = client.check(&chat(600)).await.expect("a refusal");
    assert!(!answer.admitted);
    assert_eq!(answer.binding.as_deref(), Some("tpm"));
    // 200 more drain in 720 seconds.
    let again = answer.retry_after.expect("it comes back");
    assert!(again > Duration::from_secs(600) && again <= Duration::from_secs(720));
    assert!(answer.not_until.is_some());
}

#[tokio::test]
async fn many_checks_are_answered_each_in_its_place() {
    let server = Server::start(POLICY);
    let checks = [chat(900), chat(900), Request::new("nobody", "alice")];
    let answers = client(&server).check_many(&checks).await.expect("answers");
    assert!(matches!(&answers[0], Ok(answer) if answer.admitted));
    assert!(matches!(&answers[1], Ok(answer) if !answer.admitted));
    assert!(matches!(&answers[2], Err(Error::NotFound(_))));
}

#[tokio::test]
async fn a_lease_is_settled_once_with_what_was_used() {
    let server = Server::start(POLICY);
    let client = client(&server);
    let lease = granted(client.acquire(&chat(700)).await.expect("an answer"));
    assert!(lease.is_held() && !lease.is_repeated());
    let which = lease.lease_ref().clone();
    let settled = lease.settle([("tpm", 300)]).await.expect("settled");
    let tpm = settled.limits.get("tpm").expect("a limit");
    assert_eq!((&tpm.taken, &tpm.used), (&700.into(), &300.into()));
    let again = client.settle(&which, [("tpm", 999)]).await.expect("again");
    assert!(again.repeated);
    assert_eq!(left(&client, &chat(0), "tpm").await, 700.into());
    assert!(!format!("{which:?}").contains(which.id()));
}

#[tokio::test]
async fn a_lease_is_adjusted_cancelled_and_reported_on() {
    let server = Server::start(POLICY);
    let client = client(&server);
    let lease = granted(client.acquire(&chat(200)).await.expect("an answer"));
    assert!(lease.adjust([("tpm", 800)]).await.expect("fits").admitted);
    let refused = lease.adjust([("tpm", 1_000)]).await.expect("an answer");
    assert!(refused.admitted, "all of it is its own");
    let other = client.check(&chat(1)).await.expect("an answer");
    assert_eq!(other.binding.as_deref(), Some("tpm"));
    lease.cancel().await.expect("cancelled");
    assert_eq!(left(&client, &chat(0), "tpm").await, 1_000.into());
    let lease = granted(client.acquire(&chat(1)).await.expect("an answer"));
    let report = Report::new().used("tpm", 5).outcome(Outcome::Dropped);
    assert!(!lease.settle(report).await.expect("settled").expired);
    let forecast = client.forecast(&chat(100)).await.expect("a forecast");
    assert_eq!(forecast.limits.get("tpm").expect("a limit").spendable, 9);
    let debit = client.debit(&chat(2_000)).await.expect("charged");
    assert!(!debit.admitted);
    client.reset("chat", "alice").await.expect("forgotten");
    assert_eq!(left(&client, &chat(0), "tpm").await, 1_000.into());
}

#[tokio::test]
async fn who_waits_is_served_when_the_holder_lets_go() {
    let server = Server::start(POLICY);
    let client = client(&server);
    let first = granted(client.try_acquire(&job()).await.expect("an answer"));
    let answer = refused(client.try_acquire(&job()).await.expect("an answer"));
    assert_eq!(answer.binding.as_deref(), Some("running"));
    let waits = tokio::spawn({
        let client = client.clone();
        async move { client.acquire(&job().within(LONG)).await }
    });
    let running = async || {
        server
            .get("/metrics")
            .contains("tidegate_waiting{policy=\"jobs\"} 1")
    };
    until(running).await;
    // Dropped, it is released in the background.
    let fence = first.fence();
    drop(first);
    let second = granted(waits.await.expect("ran").expect("an answer"));
    assert!(second.fence() > fence);
    second.release().await.expect("released");
}

#[tokio::test]
async fn a_lease_is_renewed_while_it_is_held_and_its_loss_is_told() {
    let server = Server::start(POLICY);
    let client = client(&server);
    let request = job().ttl(Duration::from_millis(300));
    let lease = granted(client.acquire(&request).await.expect("an answer"));
    let first = lease.expires_at();
    until(async || lease.expires_at().since(first).as_duration() > Duration::from_secs(1)).await;
    assert!(lease.is_held());
    client
        .release(lease.lease_ref(), Report::new())
        .await
        .expect("ended behind its back");
    let loss = timeout(LONG, lease.lost()).await.expect("it is told");
    assert_eq!(loss, Loss::Ended);
    assert!(!lease.is_held());
}

#[tokio::test]
async fn a_lease_that_its_holder_renews_is_renewed_for_as_long_from_then_on() {
    let server = Server::start(POLICY);
    let client = client(&server);
    let lease = granted(client.acquire(&job().ttl(LONG)).await.expect("an answer"));
    let first = lease.expires_at();
    lease.renew(LONG * 10).await.expect("renewed");
    assert!(lease.expires_at().since(first).as_duration() > LONG);
    lease.renew(LONG / 4).await.expect("renewed");
    let shorter = lease.expires_at();
    assert!(shorter < first && lease.is_held());
    let none = lease.renew(Duration::MAX).await;
    assert!(matches!(none, Err(Error::InvalidRequest(_))), "{none:?}");
    until(async || lease.expires_at() > shorter).await;
    assert!(lease.expires_at() < first + tidegate::Span::from(LONG) && lease.is_held());
    client
        .release(lease.lease_ref(), Report::new())
        .await
        .expect("ended behind its back");
    // It is told by the renewal itself, and once it is known.
    for _ in 0..2 {
        let ended = lease.renew(LONG).await;
        assert!(matches!(ended, Err(Error::LeaseEnded(_))), "{ended:?}");
        assert_eq!(timeout(LONG, lease.lost()).await, Ok(Loss::Ended));
    }
}

/// It was granted, under its word, before the server saw that its connection had ended; and its
/// slot stayed taken for two minutes.
#[tokio::test]
async fn a_request_that_is_given_up_leaves_nothing_behind() {
    let server = Server::start(POLICY);
    let client = client(&server);
    for _ in 0..20 {
        let first = granted(client.acquire(&job()).await.expect("an answer"));
        let waits = tokio::spawn({
            let client = client.clone();
            async move { client.acquire(&job()).await }
        });
        until(async || {
            server
                .get("/metrics")
                .contains("tidegate_waiting{policy=\"jobs\"} 1")
        })
        .await;
        waits.abort();
        first.release().await.expect("released");
        until(async || left(&client, &job(), "running").await == 1.into()).await;
    }
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_gives_the_same_lease() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tidegate.toml"), POLICY).expect("written");
    let store = ["--store", "file:limits?sync=always"];
    let server = Server::start_in(folder, "127.0.0.1:0", &store);
    let address = server.url.trim_start_matches("http://").to_owned();
    let builder = Client::builder(&server.url)
        .retries(1_000)
        .deadline(LONG * 3);
    let client = builder.build().expect("a client");
    let held = granted(client.acquire(&job()).await.expect("an answer"));
    let held = held.detach();
    // One waits, and loses its connection; one asks again by its own word.
    let waits = tokio::spawn({
        let client = client.clone();
        async move { client.acquire(&job().within(LONG)).await }
    });
    until(async || {
        server
            .get("/metrics")
            .contains("tidegate_waiting{policy=\"jobs\"} 1")
    })
    .await;
    let named = chat(10).idempotency_key("order-4711");
    let first = granted(client.acquire(&named).await.expect("an answer")).detach();
    let folder = server.kill();
    let asks = tokio::spawn({
        let client = client.clone();
        async move { client.acquire(&named).await }
    });
    let server = Server::start_in(folder, &address, &store);
    let again = granted(asks.await.expect("ran").expect("an answer"));
    assert!(again.is_repeated());
    assert_eq!(again.lease_ref().id(), first.id());
    again.release().await.expect("released");
    client
        .release(&held, Report::new())
        .await
        .expect("released");
    let lease = granted(waits.await.expect("ran").expect("an answer"));
    lease.release().await.expect("released");
    drop(server);
}

#[tokio::test]
async fn what_the_server_does_not_do_is_an_error_of_its_kind() {
    let hash = Credential::hash("tg-right");
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let token = format!(
        "[[token]]\nname = 'caller'\nsha256 = '{hash}'\nscopes = ['decide']\npolicies = ['chat']\n"
    );
    let server = Server::start(&(token + POLICY));
    let with = |token: &str| Client::builder(&server.url).token(token).build();
    let wrong = with("tg-wrong").expect("a client").check(&chat(1)).await;
    assert!(matches!(wrong, Err(Error::Unauthorized(_))), "{wrong:?}");
    let nobody = client(&server).check(&chat(1)).await;
    assert!(matches!(nobody, Err(Error::Unauthorized(_))), "{nobody:?}");
    let right = with("tg-right").expect("a client");
    assert!(right.check(&chat(1)).await.expect("let in").admitted);
    let reset = right.reset("chat", "alice").await;
    assert!(matches!(reset, Err(Error::Forbidden(_))), "{reset:?}");
    let never = right.check(&chat(1_001)).await;
    assert!(matches!(never, Err(Error::Never(_))), "{never:?}");
    let unknown = right.check(&chat(0).amount("typo", 1)).await;
    let Err(Error::InvalidRequest(problem)) = unknown else {
        panic!("{unknown:?}");
    };
    assert!(problem.detail.contains("typo"), "{problem}");
    let waits = right.check(&chat(1).within(LONG)).await;
    assert!(matches!(waits, Err(Error::InvalidRequest(_))), "{waits:?}");
    let lease = granted(right.acquire(&chat(1)).await.expect("an answer"));
    let which = lease.lease_ref().clone();
    let long = right.renew(&which, LONG * 100).await.expect("renewed");
    let usual = right.renew(&which, None).await.expect("renewed");
    assert!(usual < long);
    lease.release().await.expect("released");
    let renewed = right.renew(&which, LONG).await;
    assert!(matches!(renewed, Err(Error::LeaseEnded(_))), "{renewed:?}");
}

#[tokio::test]
async fn an_unknown_policy_and_a_page_of_another_server_are_told() {
    let server = Server::start(POLICY);
    let policy = client(&server).check(&Request::new("typo", "a")).await;
    assert!(matches!(policy, Err(Error::NotFound(_))), "{policy:?}");
    let elsewhere = Client::new(&format!("{}/gate", server.url)).expect("a client");
    let answer = elsewhere.check(&chat(1)).await;
    assert!(
        matches!(
            answer,
            Err(Error::NotFound(_) | Error::NotTidegate { status: 404 })
        ),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let hangs = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        // Until it has gone.
        stream.read_to_end(&mut Vec::new()).expect("it ends");
    });
    let deadline = Duration::from_millis(200);
    let client = Client::builder(&url).deadline(deadline).build();
    let answer = client.expect("a client").check(&chat(1)).await;
    assert!(
        matches!(&answer, Err(Error::Timeout { longest, .. }) if *longest == deadline),
        "{answer:?}"
    );
    // What closes the connection is a task of this thread.
    let seen = tokio::task::spawn_blocking(|| hangs.join()).await;
    assert!(seen.expect("ran").is_ok());
}

#[tokio::test]
async fn a_connection_that_breaks_is_tried_again_where_that_is_harmless() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let counts = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for _ in 0..4 {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut bytes = [0; 4_096];
            let read = stream.read(&mut bytes).expect("a request");
            requests.push(String::from_utf8_lossy(&bytes[..read]).into_owned());
        }
        requests
    });
    let client = Client::builder(&url).retries(2).build().expect("a client");
    // It may have been charged: once, and not again.
    let lost = client.check(&chat(1)).await;
    assert!(
        matches!(&lost, Err(Error::Unreachable(lost)) if lost.why == Why::Broken),
        "{lost:?}"
    );
    let lost = client.acquire(&job()).await;
    assert!(matches!(&lost, Err(Error::Unreachable(_))), "{lost:?}");
    let requests = counts.join().expect("ran");
    assert!(requests[0].starts_with("POST /v1/check"), "{requests:?}");
    let word = |request: &str| {
        let (_, word) = request.split_once("\"idempotency_key\":\"").expect("a key");
        word[..32].to_owned()
    };
    let words: Vec<_> = requests[1..].iter().map(|one| word(one)).collect();
    assert_eq!(words[0], words[1]);
    assert_eq!(words[0], words[2]);
    // And where nobody listens, nothing was asked.
    let nobody = client.check(&chat(1)).await;
    assert!(
        matches!(&nobody, Err(Error::Unreachable(lost)) if lost.why == Why::NoConnection),
        "{nobody:?}"
    );
}

/// Its length was taken for what lay between its grant and its end, which grew with each renewal:
/// whoever took it over by its idempotency key held it for longer than the one before.
#[tokio::test]
async fn a_lease_that_is_taken_over_is_renewed_for_as_long_as_its_policy_says() {
    let server = Server::start("policy.jobs.limits.running = { concurrency = 1, ttl = '3s' }");
    let client = client(&server);
    let request = job().idempotency_key("nightly");
    let first = granted(client.acquire(&request).await.expect("an answer")).detach();
    let later = Duration::from_secs(9);
    let long = client.renew(&first, later).await.expect("renewed");
    let lease = granted(client.acquire(&request).await.expect("an answer"));
    assert!(lease.is_repeated() && lease.is_held());
    until(async || lease.expires_at() < long).await;
    lease.release().await.expect("released");
}

/// Only a deadline that had passed gave it back: after a connection that broke, what was granted
/// stayed taken until its expiry.
#[tokio::test]
async fn what_an_answer_that_was_lost_had_granted_is_given_back_once_the_server_is_reached() {
    let server = Server::start(POLICY);
    let proxy = Proxy::before(&server, i64::MAX);
    let far = Client::builder(&proxy.url).retries(1).build();
    let lost = far.expect("a client").acquire(&job()).await;
    assert!(
        matches!(&lost, Err(Error::Unreachable(lost)) if lost.why == Why::Broken),
        "{lost:?}"
    );
    let near = client(&server);
    assert_eq!(left(&near, &job(), "running").await, 0.into());
    proxy.mend();
    until(async || left(&near, &job(), "running").await == 1.into()).await;
}

/// An error that stood in the place of the answer was taken to say that nothing was done: what the
/// server had granted behind it stayed taken until its expiry.
#[tokio::test]
async fn what_was_granted_behind_an_error_is_given_back_once_the_server_is_reached() {
    let problem = r#"{"status": 503, "code": "unavailable", "detail": "not here"}"#;
    let instead = [
        said("502 Bad Gateway", "<html>"),
        said("503 Service Unavailable", problem),
    ];
    for instead in instead {
        let server = Server::start(POLICY);
        let proxy = Proxy::answering(&server, i64::MAX, instead);
        let far = Client::new(&proxy.url).expect("a client");
        let error = far.acquire(&job()).await.err();
        assert!(
            matches!(
                error,
                Some(Error::NotTidegate { .. } | Error::Unavailable(_))
            ),
            "{error:?}"
        );
        let near = client(&server);
        assert_eq!(left(&near, &job(), "running").await, 0.into());
        proxy.mend();
        until(async || left(&near, &job(), "running").await == 1.into()).await;
    }
}

/// Answers one request after the other with these bytes, and closes.
fn answering(bytes: Vec<u8>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    // Until the test ends.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4_096]);
            // Whoever has read enough goes.
            let _ = stream.write_all(&bytes);
        }
    });
    Client::new(&url).expect("a client")
}

fn said(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n");
    format!("{head}connection: close\r\n\r\n{body}").into_bytes()
}

/// What stands before a server may give its answer another status, and clients go by that.
#[tokio::test]
async fn an_error_is_of_the_kind_that_its_http_status_says() {
    let problem = r#"{"status": 503, "code": "unavailable", "detail": "not here"}"#;
    let client = answering(said("403 Forbidden", problem));
    let answer = client.check(&chat(1)).await;
    assert!(
        matches!(&answer, Err(Error::Forbidden(problem)) if problem.status == 403),
        "{answer:?}"
    );
}

#[tokio::test]
async fn of_an_answer_that_is_too_long_to_be_one_no_more_than_the_bound_is_read() {
    let client = answering(said("200 OK", &" ".repeat((1 << 20) + 1)));
    let answer = client.check(&chat(1)).await;
    assert_eq!(answer.err(), Some(Error::TooLong { bytes: 1 << 20 }));
    // A page is longer than a decision.
    let page = client.exchange(&Exchange::get("/v1/keys")).await;
    assert!(page.is_ok(), "{page:?}");
}
