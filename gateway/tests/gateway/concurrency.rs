//! Concurrency that is learnt from how an upstream answers: by refusals and time-outs, with an
//! estimator that takes no time into account, so that what it does is known to the last call.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_gateway::{BadSettings, ConcurrencyBy, Gateway, Settings, Upstream};
use tidegate_llm::Provider as Dialect;
use tidegate_redis::{Options, RedisStore};
use tidegate_service::Service;
use tidegate_store::Store;

use super::fleet::Fleet;
use super::provider::{Events, Provider, Reply};
use super::{Running, chat, run, start, tls};

const LEARNT: &str = r#"
[policy.llm]
key = "account/caller"
[policy.llm.limits]
running = { concurrency = 4, ttl = "1m", level = "account", learnt = true }
"#;

const PATH: &str = "/v1/chat/completions";

fn aimd(settings: &mut Settings) {
    settings.concurrency_by = ConcurrencyBy::Aimd;
    settings.attempts = 1;
}

/// A stream that has begun, from both ends.
struct Streaming {
    events: Events,
    answer: http::Response<hyper::body::Incoming>,
}

impl Streaming {
    /// Its first token has come through.
    async fn says(&mut self) {
        let event = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
        self.events.send(event.into()).await;
        self.answer.body_mut().frame().await.unwrap().unwrap();
    }
}

impl Running {
    async fn stream(&self) -> Streaming {
        let events = self.provider.next(Reply::stream());
        let mut call = chat(5);
        call["stream"] = true.into();
        let answer = self.begin(PATH, &call).await;
        assert_eq!(answer.status(), StatusCode::OK);
        Streaming { events, answer }
    }

    async fn grants(&self) -> u64 {
        self.account("running").await.0
    }

    /// Until nothing is held: ends of leases are tasks of their own.
    async fn holds_nothing(&self) {
        loop {
            let (limit, left) = self.account("running").await;
            if limit == left {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn refusals_for_want_of_room_lower_it_and_answers_raise_it() {
    let running = run(LEARNT, aimd).await;
    let (call, provider) = (chat(5), running.provider.clone());
    let mut grants = Vec::new();
    for (status, body) in [
        (429, "{}"),
        (503, "{}"),
        (529, "{}"),
        // The caller's own mistake, money that is spent, and a provider that fails say nothing of it.
        (400, "{}"),
        (429, r#"{"error":{"code":"insufficient_quota"}}"#),
        (500, "{}"),
    ] {
        provider.next(Reply::refusal(status, body));
        assert_eq!(running.post(PATH, &call).await.0, status);
        grants.push(running.grants().await);
    }
    assert_eq!(grants, [3, 2, 1, 1, 1, 1]);
    provider.next(Reply::answer(3, 5));
    assert_eq!(running.post(PATH, &call).await.0, 200);
    running.holds_nothing().await;
    assert_eq!(running.grants().await, 2, "it has room for more");
    running.stop().await;
}

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_lowers_it() {
    let running = run(LEARNT, |settings| {
        aimd(settings);
        settings.answer_within = Duration::from_millis(20);
    });
    let running = running.await;
    running.provider.next(Reply::silence());
    assert_eq!(running.post(PATH, &chat(5)).await.0, 504);
    assert_eq!(running.grants().await, 3);
    running.stop().await;
}

/// How long a stream takes is how long its answer is: what counts of it is when its first token came.
#[tokio::test]
async fn a_stream_counts_when_its_first_token_comes_and_one_whose_caller_leaves_before_does_not() {
    let running = run(LEARNT, aimd).await;
    let mut first = running.stream().await;
    let mut second = running.stream().await;
    assert_eq!(running.grants().await, 4);
    second.says().await;
    assert_eq!(running.grants().await, 5, "two of four are in use");
    second.says().await;
    assert_eq!(running.grants().await, 5, "once");
    first.says().await;
    assert_eq!(running.grants().await, 5, "one alone says nothing of five");
    let left = running.stream().await;
    drop((first, second, left));
    running.holds_nothing().await;
    assert_eq!(running.grants().await, 5);
    running.stop().await;
}

#[tokio::test]
async fn gateways_on_one_store_hold_together_what_one_may_and_not_the_sum() {
    let store: Arc<Fleet> = Arc::default();
    share_one(|| Arc::clone(&store) as _).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_on_one_redis_hold_together_what_one_may_and_not_the_sum() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    share_one(|| Arc::new(RedisStore::open(&server.url(), Options::default()).unwrap())).await;
}

/// Two gateways, each of which opens the same store.
async fn share_one(store: impl Fn() -> Arc<dyn Store>) {
    let provider = Provider::begin().await;
    let gateway = || start(&provider, LEARNT, Service::builder().store(store()), aimd);
    let (one, other) = tokio::join!(gateway(), gateway());
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(one.stream().await);
    }
    let refused = other.post(PATH, &chat(5)).await.0;
    assert_eq!(refused, 429, "four of four are held");
    // The upstream has room: what the one has learnt of it is for both.
    for stream in &mut streams {
        stream.says().await;
    }
    assert_eq!(one.grants().await, 7);
    while streams.len() < 7 {
        streams.push(one.stream().await);
    }
    assert_eq!(one.post(PATH, &chat(5)).await.0, 429);
    let refused = other.post(PATH, &chat(5)).await.0;
    assert_eq!(refused, 429, "seven of seven are held");
    drop(streams.pop());
    // The other one goes by what is held: it has no calls to learn from.
    loop {
        provider.next(Reply::answer(3, 5));
        match other.post(PATH, &chat(5)).await.0.as_u16() {
            200 => break,
            status => assert_eq!(status, 429, "its place is on its way back"),
        }
    }
    drop(streams);
    one.stop().await;
    other.stop().await;
}

#[test]
fn what_callers_do_not_share_is_not_learnt_and_whose_account_it_is_does_not_matter() {
    let begin = |policy: &str| {
        let policies = tidegate_policy::parse("p.toml", policy).unwrap();
        let service = Service::builder().build(&policies).unwrap();
        let settings = Settings::new("llm", vec![Upstream::of(Dialect::OpenAi).unwrap()]);
        Gateway::new(service, &policies, settings, tls()).err()
    };
    assert_eq!(begin(LEARNT), None, "no credential of the upstream's own");
    let example = include_str!("../../../examples/learnt-concurrency.toml");
    assert_eq!(begin(example), None);
    let own = LEARNT.replace("level = \"account\", ", "");
    let wrong = BadSettings::LearntByCaller {
        policy: "llm".into(),
        limit: "running".into(),
    };
    assert_eq!(begin(&own), Some(wrong));
}
