//! Calls through a gateway to a provider: real connections, real limits.
#![allow(missing_docs, reason = "a test")]

mod answers;
mod away;
mod broken_off;
mod callers;
mod concurrency;
mod failover;
mod fair;
#[path = "../../../tidegate/tests/support/fleet.rs"]
mod fleet;
mod gemini;
mod learnt;
mod options;
mod overridden;
mod passing;
mod provider;
mod reach;
mod refusals;
mod reloads;
mod reported;
mod room;
mod said;
mod spelt;
#[path = "../../../service/tests/support/away.rs"]
mod store_away;
mod told;
mod trailers;
mod weights;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use provider::{Provider, Reply};
use serde_json::{Value, json};
use tidegate::Standing;
use tidegate_gateway::{BadSettings, Gateway, Settings, Upstream};
use tidegate_llm::{Price, Provider as Dialect};
use tidegate_policy::PolicyFile;
use tidegate_protocol::Listener;
use tidegate_service::{Answer, Call, Number, Question, Service, ServiceBuilder};
use tidegate_store::Store;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const POLICY: &str = r#"
[policy.llm.limits]
requests = { calls = 100, per = "1h" }
tokens   = { rate = 1000, per = "1h" }
running  = { concurrency = 4, ttl = "1m" }
"#;

/// A gateway that runs, before a provider that runs.
struct Running {
    at: String,
    service: Service,
    gateway: Gateway,
    provider: Provider,
    client: Client<HttpConnector, Full<bytes::Bytes>>,
    stop: Option<oneshot::Sender<()>>,
    ended: tokio::task::JoinHandle<()>,
}

fn tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

async fn run(policy: &str, change: impl FnOnce(&mut Settings)) -> Running {
    let provider = Provider::begin().await;
    start(&provider, policy, Service::builder(), change).await
}

/// On a store of the test's own.
async fn run_on(
    store: Arc<dyn Store>,
    policy: &str,
    change: impl FnOnce(&mut Settings),
) -> Running {
    let provider = Provider::begin().await;
    start(&provider, policy, Service::builder().store(store), change).await
}

/// A policy that is a pool, with these settings and, in this order, these members, each with its
/// limits.
fn pool(settings: &str, members: &[(&str, &str)]) -> String {
    let member =
        |(name, limits): &(&str, &str)| format!("[policy.llm.member.{name}.limits]\n{limits}\n");
    let members: String = members.iter().map(member).collect();
    format!("[policy.llm]\n{settings}\n{members}")
}

/// A pool of two members with these limits each.
fn two_of(limits: &str) -> String {
    pool("", &[("one", limits), ("two", limits)])
}

/// The same, of which the first that has room is asked.
fn in_order(limits: &str) -> String {
    pool(IN_ORDER, &[("one", limits), ("two", limits)])
}

/// Of the members of a pool the first that has room is asked.
const IN_ORDER: &str = "balancer = 'first_available'";

/// A limit that no test uses up by chance.
const TOKENS: &str = "tokens = { rate = 1000, per = '1h' }";

/// A gateway before that provider, on the store of that service.
async fn start(
    provider: &Provider,
    policy: &str,
    service: ServiceBuilder,
    change: impl FnOnce(&mut Settings),
) -> Running {
    let upstream = |name: &str| Upstream {
        name: name.into(),
        provider: Dialect::OpenAi,
        base: format!("http://{}/{name}", provider.at).parse().unwrap(),
        secret: None,
    };
    let names = ["one", "two", "three", "four"];
    let is_named = |name: &&str| *name == "one" || policy.contains(&format!("member.{name}."));
    let upstreams = names.into_iter().filter(is_named).map(upstream);
    let mut settings = Settings::new("llm", upstreams.collect());
    settings.wait = Duration::ZERO;
    change(&mut settings);
    let policies = tidegate_policy::parse("p.toml", policy).unwrap();
    let service = service.build(&policies).unwrap();
    let gateway = Gateway::new(service.clone(), &policies, settings, tls()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let (stop, stopped) = oneshot::channel();
    let connections = Listener::from(listener).connections();
    let ended = tokio::spawn(gateway.clone().serve(connections, async move {
        let _ = stopped.await;
    }));
    let client = Client::builder(TokioExecutor::new()).build_http();
    Running {
        at,
        service,
        gateway,
        provider: provider.clone(),
        client,
        stop: Some(stop),
        ended,
    }
}

impl Running {
    async fn post(&self, path: &str, body: &Value) -> (StatusCode, http::HeaderMap, Value) {
        let response = self.begin(path, body).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        let value = serde_json::from_slice(&body).unwrap_or(Value::String(text));
        (head.status, head.headers, value)
    }

    async fn begin(&self, path: &str, body: &Value) -> http::Response<hyper::body::Incoming> {
        let request = http::Request::post(path).header("content-type", "application/json");
        self.send(request, body.to_string()).await
    }

    /// A call of the caller of these tests.
    async fn send(
        &self,
        request: http::request::Builder,
        body: impl Into<bytes::Bytes>,
    ) -> http::Response<hyper::body::Incoming> {
        let path = request.uri_ref().unwrap().clone();
        let request = request
            .uri(format!("http://{}{path}", self.at))
            .header("authorization", "Bearer sk-test")
            .body(Full::from(body.into()))
            .unwrap();
        self.client.request(request).await.unwrap()
    }

    /// What is left of a limit, for the caller of these tests.
    async fn left(&self, limit: &str) -> u64 {
        self.standing(limit).await.remaining
    }

    /// Until at least so much is used of a limit beyond what it grants; what it is then.
    async fn owes(&self, limit: &str, least: u64) -> u64 {
        for _ in 0..2_000 {
            let owed = self.standing(limit).await.debt;
            if owed >= least {
                return owed;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let owed = self.standing(limit).await.debt;
        panic!("of {limit} {owed} are owed, not {least}");
    }

    /// Where a limit stands, for the caller of these tests.
    async fn standing(&self, limit: &str) -> Standing {
        let caller = self.service.enter(None).unwrap();
        let question = Question {
            policy: "llm",
            whose: key_of().into(),
            // The least there is: a limit of cents never grants a whole dollar.
            cost: Some(Number::Units(1)),
            ..Question::default()
        };
        let answer = self
            .service
            .call(&caller, Call::Peek(question))
            .await
            .unwrap();
        let Answer::Foretold(decided, _) = answer else {
            panic!("a peek is foretold")
        };
        let told = decided.told();
        let mut limits = told.limits();
        limits.find(|stand| stand.name == limit).unwrap().standing
    }

    /// Until the limit has so much left: ends of leases are tasks of their own.
    async fn settles_to(&self, limit: &str, left: u64) {
        for _ in 0..2_000 {
            if self.left(limit).await == left {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{limit} has {} left, not {left}", self.left(limit).await);
    }

    async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        drop(self.client);
        self.ended.await.unwrap();
    }
}

/// The key of `Bearer sk-test`: the first 8 bytes of its SHA-256.
const fn key_of() -> &'static [u8] {
    b"credential-f3abf2a6cc4f0098"
}

fn chat(max_tokens: u64) -> Value {
    json!({
        "model": "gpt-5",
        "max_tokens": max_tokens,
        "messages": [{ "role": "user", "content": "Hello" }],
    })
}

#[tokio::test]
async fn a_call_reserves_and_is_settled_for_what_it_used() {
    let running = run(POLICY, |_| {}).await;
    running.provider.next(Reply::answer(12, 30));
    let (status, _, body) = running.post("/v1/chat/completions", &chat(500)).await;
    assert_eq!(status, 200);
    assert_eq!(body["usage"]["completion_tokens"], 30);
    running.settles_to("tokens", 1_000 - 42).await;
    assert_eq!(running.left("requests").await, 99);
    assert_eq!(running.left("running").await, 4);
    let seen = running.provider.seen();
    assert_eq!(seen[0].path, "/one/v1/chat/completions");
    assert_eq!(seen[0].header("authorization"), "Bearer sk-test");
    assert_eq!(seen[0].header("accept-encoding"), "identity");
    running.stop().await;
}

#[tokio::test]
async fn a_call_that_does_not_fit_is_refused_in_the_words_of_its_dialect() {
    let running = run(POLICY, |_| {}).await;
    running.provider.next(Reply::answer(10, 900));
    assert_eq!(
        running.post("/v1/chat/completions", &chat(900)).await.0,
        200
    );
    running.settles_to("tokens", 90).await;
    let (status, headers, body) = running.post("/v1/chat/completions", &chat(500)).await;
    assert_eq!(status, 429);
    assert_eq!(body["error"]["code"], "rate_limit_exceeded");
    assert!(
        body["error"]["message"]
            .as_str()
            .unwrap()
            .contains(" of `tokens` (policy `llm`) are left; try again in ")
    );
    let millis: u64 = headers["retry-after-ms"].to_str().unwrap().parse().unwrap();
    assert!((1..3_600_000).contains(&millis));
    let (status, _, body) = running.post("/v1/messages", &chat(500)).await;
    // Anthropic does not charge a bound: what is reserved is the first guess, 512.
    assert_eq!(
        (status.as_u16(), &body["error"]["type"]),
        (429, &json!("rate_limit_error"))
    );
    let path = "/v1beta/models/gemini:generateContent";
    let (status, _, body) = running.post(path, &json!({ "contents": [] })).await;
    assert_eq!(
        (status.as_u16(), &body["error"]["status"]),
        (429, &json!("RESOURCE_EXHAUSTED"))
    );
    assert_eq!(
        running.provider.seen().len(),
        1,
        "nothing else was forwarded"
    );
    running.stop().await;
}

/// Elsewhere streams skipped tokens and freed their slots early (aisix #688, #690).
#[tokio::test]
async fn a_stream_passes_as_it_comes_and_is_settled_at_its_end() {
    let running = run(POLICY, |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(500);
    call["stream"] = true.into();
    let response = running.begin("/v1/chat/completions", &call).await;
    let mut body = response.into_body();
    // What the caller did not ask for, the gateway did.
    let sent: Value = serde_json::from_str(&running.provider.seen()[0].body).unwrap();
    assert_eq!(sent["stream_options"]["include_usage"], true);
    for word in ["Hi", "there"] {
        let event = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{word}\"}}}}],\"usage\":null}}\n\n"
        );
        events.send(event.clone()).await;
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, event, "it comes before the next is sent");
    }
    assert_eq!(running.left("running").await, 3);
    events
        .send(
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":2}}\n\n"
                .into(),
        )
        .await;
    events.send("data: [DONE]\n\n".into()).await;
    drop(events);
    let rest = body.collect().await.unwrap().to_bytes();
    assert_eq!(
        rest, "data: [DONE]\n\n",
        "what was not asked for is not passed on"
    );
    running.settles_to("tokens", 990).await;
    running.settles_to("running", 4).await;
    running.stop().await;
}

/// Elsewhere a stream that was cancelled kept its slot (LiteLLM #27955).
#[tokio::test]
async fn a_caller_that_goes_away_gives_its_slot_back_and_pays_what_came() {
    let running = run(POLICY, |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(500);
    call["stream"] = true.into();
    let response = running.begin("/v1/chat/completions", &call).await;
    let mut body = response.into_body();
    for _ in 0..3 {
        events
            .send("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n".into())
            .await;
        body.frame().await.unwrap().unwrap();
    }
    drop(body);
    // The prompt as estimated (5 bytes of role's value, 7 of content ...), and three events.
    running.settles_to("running", 4).await;
    let left = running.left("tokens").await;
    assert!((970..997).contains(&left), "{left}");
    running.stop().await;
}

#[tokio::test]
async fn a_provider_that_dies_in_a_stream_is_settled_for_what_came() {
    let running = run(POLICY, |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(500);
    call["stream"] = true.into();
    let response = running.begin("/v1/chat/completions", &call).await;
    let mut body = response.into_body();
    events
        .send("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n".into())
        .await;
    body.frame().await.unwrap().unwrap();
    events.break_off().await;
    assert!(body.frame().await.unwrap().is_err(), "the caller is told");
    running.settles_to("running", 4).await;
    assert!(running.left("tokens").await > 970);
    running.stop().await;
}

/// The gateway's connection went with the provider's, and what it had not written yet with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_provider_says_before_it_dies_reaches_the_caller() {
    const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
    let at = provider::says(format!("{head}\r\n\r\n{:x}\r\n{EVENT}\r\n", EVENT.len())).await;
    let base = format!("http://{at}").parse().unwrap();
    let running = run(POLICY, |settings| settings.upstreams[0].base = base).await;
    let mut call = chat(5);
    call["stream"] = true.into();
    for _ in 0..40 {
        let response = running.begin("/v1/chat/completions", &call).await;
        let mut body = response.into_body();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), EVENT);
        assert!(body.frame().await.unwrap().is_err(), "the caller is told");
    }
    running.settles_to("running", 4).await;
    running.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_not_cheaper_for_a_caller_that_goes_away() {
    let running = run(POLICY, |_| {}).await;
    let pieces = running.provider.next(Reply::pieces());
    let response = running.begin("/v1/chat/completions", &chat(500)).await;
    let mut body = response.into_body();
    pieces.send("{\"choices\":".into()).await;
    body.frame().await.unwrap().unwrap();
    drop(body);
    running.settles_to("running", 4).await;
    let left = running.left("tokens").await;
    assert!(left < 500, "what was reserved is charged: {left}");
    running.stop().await;
}

#[tokio::test]
async fn a_stream_that_has_ended_is_charged_what_it_said_and_one_that_has_not_what_came() {
    let running = run(POLICY, |_| {}).await;
    let mut call = chat(500);
    call["stream"] = true.into();
    call["stream_options"] = json!({ "include_usage": true });
    // The caller goes at the last event, before the body's end.
    let events = running.provider.next(Reply::stream());
    let response = running.begin("/v1/chat/completions", &call).await;
    let mut body = response.into_body();
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":2}}\n\n";
    let word = "data: {\"choices\":[{\"delta\":{}}]}\n\n";
    for event in [word, word, word, usage, "data: [DONE]\n\n"] {
        events.send(event.into()).await;
        body.frame().await.unwrap().unwrap();
    }
    drop(body);
    running.settles_to("tokens", 990).await;
    // A stream of Anthropic's that ends in the middle has said no more than how it began.
    let events = running.provider.next(Reply::stream());
    let response = running.begin("/v1/messages", &call).await;
    let begun = "data: {\"message\":{\"usage\":{\"input_tokens\":8,\"output_tokens\":1}}}\n\n";
    for event in [begun, word, word, word] {
        events.send(event.into()).await;
    }
    drop(events);
    response.into_body().collect().await.unwrap();
    running.settles_to("tokens", 990 - 12).await;
    running.stop().await;
}

/// It was taken for one that broke off before its first event, and charged its prompt alone.
#[tokio::test]
async fn a_stream_that_cannot_be_read_was_used_as_reserved() {
    let running = run(POLICY, |_| {}).await;
    // The beginning of what gzip makes: no event is in sight.
    let packed = bytes::Bytes::from_static(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03");
    let reply = Reply::Answer(200, vec![], packed.clone())
        .with("content-type", "text/event-stream")
        .with("content-encoding", "gzip");
    running.provider.next(reply);
    let mut call = chat(500);
    call["stream"] = true.into();
    let response = running.begin("/v1/chat/completions", &call).await;
    assert_eq!(response.headers()["content-encoding"], "gzip");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, packed);
    running.settles_to("running", 4).await;
    let left = running.left("tokens").await;
    assert!((400..500).contains(&left), "{left}");
    running.stop().await;
}

#[tokio::test]
async fn what_a_provider_does_not_say_of_an_answer_was_used_as_reserved() {
    let running = run(POLICY, |_| {}).await;
    let said = r#"{"usage":{"prompt_tokens":1e300,"completion_tokens":-1,"reasoning":1}}"#;
    let half = r#"{"usage":{"prompt_tokens":10}}"#;
    for (body, left) in [(half, 1_000 - 110), (said, 1_000 - 220)] {
        running.provider.next(Reply::refusal(200, body));
        assert_eq!(
            running.post("/v1/chat/completions", &chat(100)).await.0,
            200
        );
        running.settles_to("running", 4).await;
        let found = running.left("tokens").await;
        assert!(found <= left + 5, "{found}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_refusal_that_passes_is_asked_again_and_money_that_is_spent_is_not() {
    let running = run(POLICY, |settings| settings.wait = Duration::from_secs(5)).await;
    running
        .provider
        .next(Reply::refusal(429, "{}").with("retry-after-ms", "10"));
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.post("/v1/chat/completions", &chat(50)).await.0, 200);
    assert_eq!(running.provider.seen().len(), 2);
    running.settles_to("tokens", 980).await;
    let spent = r#"{"error":{"code":"insufficient_quota"}}"#;
    running.provider.next(Reply::refusal(429, spent));
    let (status, headers, body) = running.post("/v1/chat/completions", &chat(50)).await;
    assert_eq!(
        (status.as_u16(), &body["error"]["code"]),
        (429, &json!("insufficient_quota"))
    );
    assert_eq!(headers["x-should-retry"], "false");
    assert_eq!(running.provider.seen().len(), 3);
    running.settles_to("tokens", 980).await;
    running.stop().await;
}

#[tokio::test]
async fn a_pool_moves_on_to_a_member_that_has_room() {
    let pool = two_of(TOKENS);
    let running = run(&pool, |_| {}).await;
    running
        .provider
        .next(Reply::refusal(429, "{}").with("retry-after", "30"));
    running.provider.next(Reply::answer(10, 10));
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.post("/v1/chat/completions", &chat(50)).await.0, 200);
    assert_eq!(running.post("/v1/chat/completions", &chat(50)).await.0, 200);
    let seen = running.provider.seen();
    let paths: Vec<&str> = seen.iter().map(|seen| &*seen.path).collect();
    let [first, second, third] = paths[..] else {
        panic!("{paths:?}")
    };
    assert_ne!(first, second, "another member");
    assert_eq!(second, third, "the first one cools down");
    running.stop().await;
}

#[tokio::test]
async fn a_member_whose_provider_says_to_wait_for_no_time_keeps_no_lease() {
    let pool = two_of("running = { concurrency = 1, ttl = '1h' }");
    let running = run(&pool, |_| {}).await;
    for _ in 0..2 {
        let refusal = Reply::refusal(429, "{}").with("retry-after", "0");
        running.provider.next(refusal);
    }
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.post("/v1/chat/completions", &chat(50)).await.0, 200);
    running.stop().await;
}

#[tokio::test]
async fn a_pool_moves_on_from_a_member_that_cannot_be_reached() {
    let pool = two_of("running = { concurrency = 4, ttl = '1h' }");
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = nowhere.local_addr().unwrap();
    drop(nowhere);
    let running = run(&pool, |settings| {
        settings.upstreams[0].base = format!("http://{at}").parse().unwrap();
    })
    .await;
    for _ in 0..6 {
        running.provider.next(Reply::answer(10, 10));
        assert_eq!(running.post("/v1/chat/completions", &chat(50)).await.0, 200);
    }
    running.stop().await;
}

#[tokio::test]
async fn all_attempts_of_a_call_together_wait_no_longer_than_they_may() {
    let running = run(POLICY, |settings| settings.wait = Duration::from_secs(2)).await;
    for _ in 0..2 {
        let refusal = Reply::refusal(429, "{}").with("retry-after-ms", "1500");
        running.provider.next(refusal);
    }
    assert_eq!(running.post("/v1/chat/completions", &chat(50)).await.0, 429);
    assert_eq!(
        running.provider.seen().len(),
        2,
        "1.5 s twice are more than 2 s"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_refusal_whose_body_does_not_end_holds_no_call() {
    let running = run(POLICY, |settings| {
        settings.pause = Duration::from_millis(100)
    })
    .await;
    let events = running.provider.next(Reply::endless(429));
    let (status, _, _) = running.post("/v1/chat/completions", &chat(50)).await;
    assert_eq!(status, 429);
    running.settles_to("running", 4).await;
    drop(events);
    running.stop().await;
}

/// An answer that was longer than what is read to understand it came empty.
#[tokio::test]
async fn an_error_with_a_long_answer_passes_and_one_without_end_is_cut() {
    let running = run(POLICY, |settings| settings.attempts = 1).await;
    let long = "x".repeat(200_000);
    running.provider.next(Reply::refusal(400, &long));
    let (status, _, body) = running.post("/v1/chat/completions", &chat(50)).await;
    assert_eq!((status.as_u16(), body), (400, Value::String(long)));
    let longer = "x".repeat(1024 * 1024 + 1);
    running.provider.next(Reply::refusal(500, &longer));
    let (status, _, body) = running.post("/v1/chat/completions", &chat(50)).await;
    let passed = body.as_str().map(str::len);
    assert_eq!((status.as_u16(), passed), (500, Some(1024 * 1024)));
    running.settles_to("running", 4).await;
    running.stop().await;
}

#[tokio::test]
async fn a_call_goes_to_a_member_that_grants_what_it_may_use() {
    let pool = pool(
        "",
        &[
            ("one", "tokens = { rate = 100, per = '1h' }"),
            ("two", "tokens = { rate = 2000, per = '1h' }"),
        ],
    );
    let running = run(&pool, |_| {}).await;
    for _ in 0..3 {
        running.provider.next(Reply::answer(10, 10));
        assert_eq!(
            running.post("/v1/chat/completions", &chat(500)).await.0,
            200
        );
    }
    let seen = running.provider.seen();
    assert!(seen.iter().all(|seen| seen.path.starts_with("/two/")));
    running.stop().await;
}

#[tokio::test]
async fn a_call_that_an_upstream_would_show_its_credential_is_not_forwarded() {
    let running = run(POLICY, |_| {}).await;
    let request = http::Request::builder()
        .method("TRACE")
        .uri(format!("http://{}/v1/models", running.at))
        .body(Full::default())
        .unwrap();
    assert_eq!(running.client.request(request).await.unwrap().status(), 405);
    assert!(running.provider.seen().is_empty());
    running.stop().await;
}

/// It counted as `anonymous`, and went on to the provider beside the gateway's own credential.
#[tokio::test]
async fn a_key_in_the_query_of_gemini_is_the_callers_credential() {
    let running = run(POLICY, |settings| {
        settings.upstreams[0].provider = Dialect::Gemini;
        settings.upstreams[0].secret = Some("ours".parse().unwrap());
    })
    .await;
    let call = json!({"contents": [], "generationConfig": {"maxOutputTokens": 50}});
    running
        .provider
        .next(Reply::Answer(200, vec![], "{}".into()));
    let uri = format!(
        "http://{}/v1beta/models/g:generateContent?alt=json&%6bey=sk%2Dtest",
        running.at
    );
    let request = http::Request::post(uri).body(Full::from(call.to_string()));
    let answer = running.client.request(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    drop(answer);
    let seen = running.provider.seen().remove(0);
    assert_eq!(seen.path, "/one/v1beta/models/g:generateContent?alt=json");
    assert_eq!(seen.header("x-goog-api-key"), "ours");
    // That of `sk-test`.
    running.settles_to("requests", 99).await;
    running.stop().await;
}

/// Elsewhere an estimate of 1,024 tokens at least locked out every key with a smaller limit (LiteLLM #29191).
#[tokio::test]
async fn a_caller_without_a_bound_is_not_locked_out_of_a_small_limit() {
    let small = r#"
        [policy.llm.limits]
        tokens = { rate = 100, per = "1h" }
    "#;
    let running = run(small, |_| {}).await;
    running.provider.next(Reply::answer(10, 20));
    let call = json!({ "model": "gpt-5", "messages": [{ "role": "user", "content": "Hello" }] });
    assert_eq!(running.post("/v1/chat/completions", &call).await.0, 200);
    running.settles_to("tokens", 70).await;
    // Five at once: the one that is admitted takes all; none of the others is.
    let (status, _, _) = running.post("/v1/chat/completions", &call).await;
    assert_eq!(
        status, 429,
        "the estimate is the whole limit until something was learnt"
    );
    running.stop().await;
}

#[tokio::test]
async fn money_is_counted_by_price_and_a_model_without_one_is_refused() {
    let money = r#"
        [policy.llm.limits]
        usd = { budget = 10, per = "day", zone = "UTC", unit = "0.000001" }
    "#;
    let price = Price {
        input: 2_000_000,
        output: 8_000_000,
        ..Price::default()
    };
    let running = run(money, |settings| {
        settings.prices = [("gpt-5".to_owned(), price)].into_iter().collect();
    })
    .await;
    running.provider.next(Reply::answer(1_000, 100));
    assert_eq!(
        running.post("/v1/chat/completions", &chat(500)).await.0,
        200
    );
    // 1,000 at 2 millionths and 100 at 8.
    running.settles_to("usd", 10_000_000 - 2_800).await;
    let mut other = chat(500);
    other["model"] = "unknown".into();
    let (status, _, body) = running.post("/v1/chat/completions", &other).await;
    assert_eq!(status, 400);
    assert!(
        body["error"]["message"]
            .as_str()
            .unwrap()
            .contains("has no price")
    );
    running.stop().await;
}

/// Prices could be given at the start alone, so that a new one was a restart.
#[tokio::test]
async fn prices_of_a_file_hold_from_the_next_call_on_and_those_of_the_start_before_them() {
    let example = include_str!("../../../examples/llm-prices.toml");
    let costs = |text: &str| {
        let config = tidegate_policy::parse_config("llm.toml", text).expect("a sound file");
        tidegate_gateway::file_costs(&config)
    };
    let money = example.split("[price]").next().unwrap();
    let running = run(money, |settings| {
        settings.file_costs = costs(example);
        let price = Price {
            input: 1_000_000,
            output: 1_000_000,
            ..Price::default()
        };
        settings.prices = [("gpt-5-nano".to_owned(), price)].into_iter().collect();
    })
    .await;
    let call = async |model: &str| {
        running.provider.next(Reply::answer(1_000, 100));
        let mut call = chat(500);
        call["model"] = model.into();
        let (status, _, body) = running.post("/v1/chat/completions", &call).await;
        assert_eq!(status, 200, "{body}");
    };
    let mut left = 50_000_000;
    // A name, a beginning, and what goes before the file.
    for (model, cost) in [
        ("gpt-5-2026-02-01", 1_250 + 1_000),
        ("gpt-5-mini", 250 + 200),
        ("gpt-5-nano", 1_000 + 100),
    ] {
        call(model).await;
        left -= cost;
        running.settles_to("usd", left).await;
    }
    let dearer = example.replace("\"1.25\"", "\"2.50\"");
    running.gateway.exchange_costs(costs(&dearer));
    call("gpt-5").await;
    running.settles_to("usd", left - 2_500 - 1_000).await;
    let policies = tidegate_policy::parse("llm.toml", money).unwrap();
    let without = tidegate_llm::Costs::default();
    assert!(
        running.gateway.check(&policies, Some(&without)).is_ok(),
        "one has a price"
    );
    running.stop().await;
}

/// Elsewhere a body that could not be estimated passed unchecked (LiteLLM #18730).
#[tokio::test]
async fn other_paths_count_as_requests_alone_and_bodies_that_are_none_are_refused() {
    let running = run(POLICY, |_| {}).await;
    running.provider.next(Reply::answer(0, 0));
    let request = http::Request::get(format!("http://{}/v1/models?limit=2", running.at))
        .header("authorization", "Bearer sk-test")
        .body(Full::default())
        .unwrap();
    assert_eq!(running.client.request(request).await.unwrap().status(), 200);
    assert_eq!(running.provider.seen()[0].path, "/one/v1/models?limit=2");
    running.settles_to("requests", 99).await;
    assert_eq!(running.left("tokens").await, 1_000);
    let (status, _, body) = running.post("/v1/chat/completions", &json!([1])).await;
    assert_eq!(
        (status.as_u16(), &body["error"]["type"]),
        (400, &json!("invalid_request_error"))
    );
    running.stop().await;
}

#[tokio::test]
async fn a_caller_for_whom_no_slot_is_free_is_told_to_come_again_soon() {
    let one = "[policy.llm.limits]\nrunning = { concurrency = 1, ttl = '10m' }";
    let running = run(one, |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(10);
    call["stream"] = true.into();
    let first = running.begin("/v1/chat/completions", &call).await;
    let (status, headers, body) = running.post("/v1/chat/completions", &call).await;
    assert_eq!(status, 429);
    assert_eq!(headers["retry-after"], "1");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(
        message.ends_with("try again when a call has ended"),
        "{message}"
    );
    drop((first, events));
}

#[tokio::test]
async fn bodies_beyond_what_is_held_at_once_are_told_to_come_again() {
    let slots = "[policy.llm.limits]\nrunning = { concurrency = 4, ttl = '1m' }";
    let running = run(slots, |settings| {
        settings.max_held_bytes = 128 * 1024;
        settings.max_body_bytes = 64 * 1024;
    })
    .await;
    let events = running.provider.next(Reply::stream());
    let mut large = chat(10);
    large["input"] = "x".repeat(40_000).into();
    large["stream"] = true.into();
    // It is answered, so that its body is held no more.
    let first = running.begin("/v1/chat/completions", &large).await;
    assert_eq!(first.status(), 200);
    running.provider.next(Reply::silence());
    let path = "/v1/chat/completions";
    let mut small = chat(10);
    small["input"] = "y".repeat(30_000).into();
    let silent = running.begin(path, &small);
    tokio::pin!(silent);
    // The second is held, and there is no room for a third.
    let third = async {
        while running.provider.seen().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut large = chat(10);
        large["input"] = "z".repeat(40_000).into();
        running.post(path, &large).await
    };
    let third = tokio::select! {
        _ = &mut silent => panic!("nobody answers it"),
        third = third => third,
    };
    assert_eq!(third.0, 503, "{}", third.2);
    drop((first, events));
}

#[tokio::test]
async fn a_caller_that_takes_nothing_of_its_answer_holds_its_slot_no_longer_than_its_lease() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let short = r#"
        [policy.llm.limits]
        running = { concurrency = 1, ttl = "1s" }
    "#;
    let running = run(short, |settings| {
        settings.pause = Duration::from_millis(200)
    })
    .await;
    let events = running.provider.next(Reply::stream());
    let mut caller = tokio::net::TcpStream::connect(&running.at).await.unwrap();
    let body = r#"{"model":"m","stream":true}"#;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-test\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    caller.write_all(head.as_bytes()).await.unwrap();
    caller.read_exact(&mut [0; 16]).await.unwrap();
    // More than the sockets hold: nobody takes it.
    let filling = tokio::spawn(async move {
        loop {
            events
                .send(format!("data: {}\n\n", "x".repeat(60_000)))
                .await;
        }
    });
    running.settles_to("running", 1).await;
    filling.abort();
    drop(caller);
}

#[test]
fn settings_that_make_no_gateway_say_what_to_write() {
    let policies = |text: &str| tidegate_policy::parse("p.toml", text).unwrap();
    let begin = |text: &str, settings: Settings| {
        let policies = policies(text);
        let service = Service::builder().build(&policies).unwrap();
        Gateway::new(service, &policies, settings, tls()).err()
    };
    let openai = || vec![Upstream::of(Dialect::OpenAi).unwrap()];
    assert_eq!(
        begin(POLICY, Settings::new("llm", vec![])),
        Some(BadSettings::NoUpstream)
    );
    assert_eq!(
        begin(POLICY, Settings::new("other", openai())),
        Some(BadSettings::NoPolicy {
            name: "other".into(),
            known: "`llm`".into()
        })
    );
    let unclear = "[policy.llm.limits]\nthings = { rate = 1, per = '1m' }";
    let error = begin(unclear, Settings::new("llm", openai()))
        .unwrap()
        .to_string();
    assert!(error.contains("--counts things=tokens"), "{error}");
    assert_eq!(begin(POLICY, Settings::new("llm", openai())), None);
    let uneven = pool(
        "",
        &[
            ("one", "tokens = { rate = 1, per = '1m' }"),
            ("two", "usd = { rate = 1, per = '1m' }"),
        ],
    );
    let error = begin(&uneven, Settings::new("llm", openai()));
    let error = error.unwrap().to_string();
    assert!(
        error.starts_with("member `two` of policy `llm` has no limit `tokens`"),
        "{error}"
    );
    let named = |base: &str| Upstream {
        base: base.parse().unwrap(),
        ..openai().remove(0)
    };
    let of = |upstream: Upstream| begin(POLICY, Settings::new("llm", vec![upstream]));
    let hidden = named("https://user:hush@example.com/x");
    assert!(!format!("{hidden:?}").contains("hush"), "{hidden:?}");
    let error = of(hidden).unwrap();
    assert_eq!(error, BadSettings::Credentials("openai".into()));
    assert!(error.to_string().contains("TIDEGATE_KEY_OPENAI"), "{error}");
    let error = of(named("http://127.0.0.1:8000/v1/")).unwrap().to_string();
    assert!(
        error.contains("write http://127.0.0.1:8000, without"),
        "{error}"
    );
    assert_eq!(of(named("http://127.0.0.1:8000/v1/eu")), None);
    let two = [openai(), openai()].concat();
    assert_eq!(
        begin(POLICY, Settings::new("llm", two)),
        Some(BadSettings::Twice("openai".into()))
    );
    let mut two = [openai(), openai()].concat();
    two[1].name = "other".into();
    assert_eq!(
        begin(POLICY, Settings::new("llm", two)),
        Some(BadSettings::NoPool("llm".into()))
    );
    for header in [
        "authorization",
        "X-Api-Key",
        "api-key",
        "x-goog-api-key",
        "cookie",
    ] {
        let mut settings = Settings::new("llm", openai());
        settings.key_header = Some(header.parse().unwrap());
        let refused = BadSettings::SecretKey(header.to_lowercase());
        assert_eq!(begin(POLICY, settings), Some(refused));
    }
    let money = "[policy.llm.limits]\nusd = { budget = 1, per = '1d' }";
    assert_eq!(
        begin(money, Settings::new("llm", openai())),
        Some(BadSettings::NoPrices("llm".into()))
    );
}

/// The page's first file had money, and no prices: it did not start.
#[test]
fn each_file_of_the_page_without_flags_of_its_own_starts_a_gateway() {
    let page = include_str!("../../../docs/gateway.md");
    let (first, _) = page.split_once("## What limits count").unwrap();
    let files = first.split("```toml\n").skip(1);
    let files = files.map(|rest| rest.split("```").next().unwrap());
    let started = files.map(|text| {
        let config = tidegate_policy::parse_config("llm.toml", text).unwrap();
        let service = Service::builder().build(&config.policies).unwrap();
        let mut settings = Settings::new("llm", vec![Upstream::of(Dialect::OpenAi).unwrap()]);
        settings.file_costs = tidegate_gateway::file_costs(&config);
        Gateway::new(service, &config.policies, settings, tls()).err()
    });
    assert_eq!(started.collect::<Vec<_>>(), [None, None]);
}

/// Each call cost a whole dollar at least, and nothing said so.
#[test]
fn money_in_whole_ones_is_refused_at_the_start_and_when_the_file_is_read_again() {
    let policies = |unit: &str| {
        let text = format!("[policy.llm.limits]\nusd = {{ budget = 50, per = '1d'{unit} }}");
        tidegate_policy::parse("p.toml", &text).unwrap()
    };
    let begin = |policies: &PolicyFile| {
        let service = Service::builder().build(policies).unwrap();
        let upstreams = vec![Upstream::of(Dialect::OpenAi).unwrap()];
        let mut settings = Settings::new("llm", upstreams);
        settings.prices = [("gpt-5".to_owned(), Price::default())]
            .into_iter()
            .collect();
        Gateway::new(service, policies, settings, tls())
    };
    let expected = BadSettings::WholeMoney {
        policy: "llm".into(),
        limit: "usd".into(),
    };
    assert_eq!(
        expected.to_string(),
        "limit `usd` of policy `llm` counts money in whole ones, so every call costs 1 at least: \
         give it unit = \"0.000001\""
    );
    assert_eq!(begin(&policies("")).err(), Some(expected.clone()));
    let gateway = begin(&policies(", unit = '0.000001'")).unwrap();
    assert_eq!(gateway.check(&policies(""), None), Err(expected));
    assert_eq!(gateway.check(&policies(", unit = '0.01'"), None), Ok(()));
}

/// Such a gateway started, and every call was a 400.
#[test]
fn keys_of_more_levels_than_callers_have_are_refused_at_the_start() {
    let begin = |key: &str, change: fn(&mut Settings)| {
        let text = format!(
            "[policy.llm]\n{key}\n[policy.llm.limits]\ntokens = {{ rate = 9, per = '1m', level = 'account' }}"
        );
        let policies = tidegate_policy::parse("p.toml", &text).unwrap();
        let service = Service::builder().build(&policies).unwrap();
        let mut settings = Settings::new("llm", vec![Upstream::of(Dialect::OpenAi).unwrap()]);
        change(&mut settings);
        let begun = Gateway::new(service, &policies, settings, tls());
        begun.err().map(|error| error.to_string())
    };
    let (two, three) = ("key = 'account/caller'", "key = 'account/team/caller'");
    let nothing: fn(&mut Settings) = |_| {};
    let root: fn(&mut Settings) = |settings| settings.key_root = Some("openai".into());
    let header: fn(&mut Settings) =
        |settings| settings.key_header = Some(http::HeaderName::from_static("x-who"));
    assert_eq!(
        begin(two, nothing).as_deref(),
        Some(
            "policy `llm` has keys of 2 levels, and a credential is one: start with --key-root \
             NAME, or name callers with --key-header"
        )
    );
    assert_eq!(
        begin(three, root).as_deref(),
        Some(
            "policy `llm` has keys of 3 levels, and a credential below a root is two: name \
             callers with --key-header"
        )
    );
    assert_eq!(begin(two, root), None);
    assert_eq!(begin(two, header), None);
    assert_eq!(begin(three, header), None);
    let partial = "key = 'account/caller'\npartial_keys = true";
    assert_eq!(begin(partial, nothing), None);
}

#[tokio::test]
async fn a_wait_that_is_longer_than_the_services_longest_is_cut_down_to_it() {
    let running = run(POLICY, |settings| {
        settings.wait = Duration::from_secs(3_600)
    })
    .await;
    running.provider.next(Reply::answer(12, 30));
    let (status, _, answer) = running.post("/v1/chat/completions", &chat(500)).await;
    assert_eq!(status, 200, "{answer}");
    running.stop().await;
}
