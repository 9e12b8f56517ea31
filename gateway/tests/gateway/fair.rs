//! Callers that share limits, and queue for them.

use tidegate_gateway::{BadSettings, Gateway, Settings, Upstream};
use tidegate_llm::Provider as Dialect;
use tidegate_service::{Answer, Call, Number, Question, Service};

use super::provider::{Provider, Reply};
use super::store_away::Away;
use super::{Running, chat, run, start, tls};
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;

const SHARED: &str = r#"
[policy.llm]
key = "account/caller"
[policy.llm.limits]
tokens  = { rate = 1000, per = "1h", level = "account" }
running = { concurrency = 2, ttl = "1m", level = "account" }
own     = { concurrency = 1, ttl = "1m" }
"#;

fn fair(settings: &mut Settings) {
    settings.key_root = Some("openai".into());
    settings.fair = true;
    settings.wait = Duration::from_secs(20);
}

/// Until so many wait at the limits themselves.
async fn wait_at_limits(running: &Running, many: u64) {
    let caller = running.service.enter(None).unwrap();
    loop {
        let answer = running.service.call(&caller, Call::Policy("llm")).await;
        let Ok(Answer::Policy(active)) = answer else {
            panic!("there is a policy")
        };
        if active.waiting() == many {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_caller_that_waits_for_a_limit_of_its_own_holds_up_nobody() {
    let running = run(SHARED, fair).await;
    let (call, path) = (chat(5), "/v1/chat/completions");
    running.provider.next(Reply::Silence);
    let first = running.begin(path, &call);
    let second = async {
        wait_at_limits(&running, 0).await;
        while running.provider.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        running.begin(path, &call).await
    };
    let other = async {
        wait_at_limits(&running, 1).await;
        running.provider.next(Reply::answer(1, 1));
        let request = http::Request::post(format!("http://{}{path}", running.at))
            .header("authorization", "Bearer sk-other")
            .body(http_body_util::Full::from(call.to_string()))
            .unwrap();
        running.client.request(request).await.unwrap().status()
    };
    tokio::select! {
        _ = first => panic!("the provider is silent"),
        _ = second => panic!("it has one call at a time"),
        status = other => assert_eq!(status, StatusCode::OK),
    }
    running.stop().await;
}

impl Running {
    /// A call of whoever has this credential.
    async fn begin_as(
        &self,
        credential: &str,
        call: &serde_json::Value,
    ) -> http::Response<hyper::body::Incoming> {
        let uri = format!("http://{}/v1/chat/completions", self.at);
        let request = http::Request::post(uri)
            .header("authorization", format!("Bearer {credential}"))
            .body(http_body_util::Full::from(call.to_string()))
            .unwrap();
        self.client.request(request).await.unwrap()
    }
}

/// What is a caller's own was used up when its call waited for the account's limits already: nobody
/// looked again, and the other callers waited with it.
#[tokio::test]
async fn a_callers_own_limit_that_is_used_up_while_it_waits_holds_up_nobody() {
    const OWN: &str = r#"
[policy.llm]
key = "account/caller"
[policy.llm.limits]
running = { concurrency = 1, ttl = "1m", level = "account" }
tokens  = { rate = 1080, per = "1h" }
"#;
    let running = run(OWN, |settings| {
        fair(settings);
        // Longer than its tokens need: else it is refused at once.
        settings.wait = Duration::from_secs(280);
    });
    let running = running.await;
    let call = chat(5);
    let held = running.provider.next(Reply::stream());
    let first = running.begin("/v1/chat/completions", &call).await;
    let waits = running.begin_as("sk-test", &call);
    let other = async {
        wait_at_limits(&running, 1).await;
        let caller = running.service.enter(None).unwrap();
        let question = Question {
            policy: "llm",
            whose: b"openai/credential-f3abf2a6cc4f0098"[..].into(),
            amounts: [("tokens", Number::Units(1_076))].into_iter().collect(),
            ..Question::default()
        };
        let debited = running.service.call(&caller, Call::Debit(question)).await;
        assert!(debited.is_ok());
        running.provider.next(Reply::answer(1, 1));
        let other = running.begin_as("sk-other", &call);
        let free = async {
            drop((first, held));
        };
        tokio::join!(other, free).0
    };
    tokio::select! {
        response = waits => panic!("its caller has no tokens yet: {}", response.status()),
        response = other => assert_eq!(response.status(), StatusCode::OK),
    }
    running.stop().await;
}

/// While the store is away, a policy's failure mode answers whoever has its turn: the queue goes on,
/// and each caller has its answer.
#[tokio::test]
async fn callers_that_queue_go_by_the_failure_mode_while_the_store_is_away() {
    for (mode, statuses) in [
        ("", [503; 3]),
        ("failure_mode = 'admit'", [200; 3]),
        ("failure_mode = 'share'\nshare = 100", [200, 200, 429]),
    ] {
        let policy = SHARED.replacen("key =", &format!("{mode}\nkey ="), 1);
        let provider = Provider::begin().await;
        let away = Service::builder().store(Arc::new(Away));
        let running = start(&provider, &policy, away, |settings| {
            fair(settings);
            settings.wait = Duration::ZERO;
        });
        let running = running.await;
        // The account's two slots are this process's own meanwhile.
        let mut held = Vec::new();
        for (credential, status) in ["sk-a", "sk-b", "sk-c"].into_iter().zip(statuses) {
            let stream = (status == 200).then(|| running.provider.next(Reply::stream()));
            let mut call = chat(5);
            call["stream"] = true.into();
            let response = running.begin_as(credential, &call).await;
            assert_eq!(response.status(), status, "{mode:?}");
            held.push((stream, response));
        }
        drop(held);
        running.stop().await;
    }
}

#[tokio::test]
async fn what_a_shared_limit_never_grants_is_refused_behind_others_at_once() {
    let running = run(SHARED, fair).await;
    let (call, path) = (chat(5), "/v1/chat/completions");
    running.provider.next(Reply::Silence);
    let held = running.begin(path, &call);
    // One waits for its own, and the rest of its caller's behind it.
    let behind = async {
        while running.provider.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        tokio::join!(running.begin(path, &call), running.begin(path, &call));
    };
    let large = async {
        wait_at_limits(&running, 1).await;
        // A prompt that alone is more than the limit ever grants.
        let mut large = chat(5);
        large["messages"][0]["content"] = "word ".repeat(20_000).into();
        running.post(path, &large).await.0
    };
    tokio::select! {
        _ = held => panic!("the provider is silent"),
        () = behind => panic!("its caller has one call at a time"),
        status = large => assert_eq!(status, StatusCode::BAD_REQUEST),
    }
    running.stop().await;
}

#[tokio::test]
async fn callers_that_wait_are_told_at_once_that_the_gateway_closes() {
    let mut running = run(SHARED, fair).await;
    let (call, path) = (chat(5), "/v1/chat/completions");
    running.provider.next(Reply::Silence);
    let stop = running.stop.take().unwrap();
    let held = running.begin(path, &call);
    let waiting = async {
        while running.provider.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        // One that comes when the gateway has closed is not let in.
        let ask = || async {
            let request = http::Request::post(format!("http://{}{path}", running.at))
                .header("authorization", "Bearer sk-test")
                .body(http_body_util::Full::from(call.to_string()))
                .unwrap();
            let answer = running.client.request(request).await;
            let Ok(answer) = answer else { return };
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(answer.headers()["x-tidegate-refused"], "busy");
            assert_eq!(answer.headers()["retry-after"], "1");
        };
        let stop = async {
            wait_at_limits(&running, 1).await;
            stop.send(()).unwrap();
        };
        tokio::join!(ask(), ask(), ask(), stop)
    };
    tokio::select! {
        _ = held => panic!("the provider is silent"),
        _ = waiting => {}
    }
}

#[test]
fn a_gateway_does_not_begin_to_queue_for_nothing() {
    let begin = |policy: &str, change: &dyn Fn(&mut Settings)| {
        let policies = tidegate_policy::parse("p.toml", policy).unwrap();
        let service = Service::builder().build(&policies).unwrap();
        let mut settings = Settings::new("llm", vec![Upstream::of(Dialect::OpenAi).unwrap()]);
        change(&mut settings);
        Gateway::new(service, &policies, settings, tls()).err()
    };
    assert_eq!(begin(SHARED, &fair), None);
    let flat = "[policy.llm.limits]\nrunning = { concurrency = 1 }";
    assert_eq!(
        begin(flat, &fair),
        Some(BadSettings::FlatKeys("llm".into()))
    );
    let alone = begin(flat, &|settings| settings.fair = true);
    assert_eq!(alone, Some(BadSettings::NothingShared("llm".into())));
    let own = "[policy.llm]\nkey = 'account/caller'\nlimits.running = { concurrency = 1 }";
    assert_eq!(
        begin(own, &fair),
        Some(BadSettings::NothingShared("llm".into()))
    );
    let by_header = |settings: &mut Settings| {
        settings.key_header = Some(http::HeaderName::from_static("x-team"));
        settings.fair = true;
    };
    assert_eq!(begin(flat, &by_header), None, "callers of a team share");
    let root = begin(SHARED, &|settings| settings.key_root = Some("a/b".into()));
    assert_eq!(root, Some(BadSettings::KeyRoot("a/b".into())));
    let weightless = begin(SHARED, &|settings| {
        fair(settings);
        settings.weights = vec![("alice".into(), 0)];
    });
    let weight = BadSettings::Weight {
        caller: "alice".into(),
        weight: 0,
    };
    assert_eq!(weightless, Some(weight));
}
