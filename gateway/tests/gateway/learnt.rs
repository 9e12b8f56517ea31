//! Limits that the provider says: taken over, shared with others, and never exceeded.

use tidegate_service::Told;

use super::*;

pub const LEARNT: &str = r#"
[policy.llm]
key = "account/caller"
[policy.llm.limits]
requests = { calls = 100, per = "1m", level = "account", learnt = true }
tokens   = { rate = 1000, per = "1m", level = "account", learnt = true }
running  = { concurrency = 4, ttl = "1m" }
"#;

async fn learning(policy: &str) -> Running {
    run(policy, with_secrets).await
}

pub fn with_secrets(settings: &mut Settings) {
    for upstream in &mut settings.upstreams {
        upstream.secret = Some("Bearer ours".parse().unwrap());
    }
}

/// What OpenAI says.
pub fn said(reply: Reply, [limit, remaining]: [&str; 2]) -> Reply {
    reply
        .with("x-ratelimit-limit-tokens", limit)
        .with("x-ratelimit-remaining-tokens", remaining)
        .with("x-ratelimit-reset-tokens", "1m")
}

impl Running {
    /// The most that a limit grants, and what is left of it.
    async fn account(&self, limit: &str) -> (u64, u64) {
        let caller = self.service.enter(None).unwrap();
        let question = Question {
            policy: "llm",
            key: b"account/credential-f3abf2a6cc4f0098",
            cost: Some(Number::Whole(1)),
            ..Question::default()
        };
        let peek = self.service.call(&caller, Call::Peek(question)).await;
        let Ok(Answer::Foretold(decided, _)) = peek else {
            panic!("a peek is foretold: {peek:?}")
        };
        let told: Told<'_> = decided.told();
        let stand = told.limits().find(|stand| stand.name == limit).unwrap();
        (stand.standing.limit, stand.standing.remaining)
    }

    /// A call that reserves so much and uses 2, once it is settled.
    async fn call(&self, max_tokens: u64, said: [&str; 2]) -> StatusCode {
        self.provider.next(self::said(Reply::answer(1, 1), said));
        let (status, ..) = self.post("/v1/chat/completions", &chat(max_tokens)).await;
        for _ in 0..2_000 {
            if self.account("running").await.1 == 4 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        status
    }
}

#[tokio::test]
async fn a_limit_that_the_provider_halves_and_doubles_is_followed_at_once() {
    let running = learning(LEARNT).await;
    assert_eq!(running.account("tokens").await, (1_000, 1_000), "the start");
    assert_eq!(running.call(100, ["500", "400"]).await, 200);
    assert_eq!(running.account("tokens").await.0, 500);
    assert_eq!(running.call(300, ["2000", "1500"]).await, 200);
    assert_eq!(running.account("tokens").await.0, 2_000);
    assert_eq!(
        running.account("requests").await,
        (100, 98),
        "of which nothing was said"
    );
    running.stop().await;
}

#[tokio::test]
async fn what_somebody_else_uses_of_the_account_is_charged_once_and_comes_back_never_too_early() {
    let running = learning(LEARNT).await;
    assert_eq!(running.call(100, ["1000", "300"]).await, 200);
    // Of those 700 ours are 100: the bound, of which nothing comes back there, and nothing here.
    let (_, before) = running.account("tokens").await;
    assert!((300..=310).contains(&before), "{before}");
    // The next says the same use, and its own: nothing is charged twice.
    let remaining = (before - 100).to_string();
    assert_eq!(running.call(100, ["1000", &remaining]).await, 200);
    let (_, left) = running.account("tokens").await;
    assert_eq!(left, before - 100);
    // All is used: the next call is refused here, and the provider does not see it.
    assert_eq!(running.call(100, ["1000", "0"]).await, 200);
    let seen = running.provider.seen().len();
    let (status, headers, _) = running.post("/v1/chat/completions", &chat(500)).await;
    assert_eq!(status, 429);
    let millis: u64 = headers["retry-after-ms"].to_str().unwrap().parse().unwrap();
    assert!((1..=61_000).contains(&millis), "{millis}");
    assert_eq!(running.provider.seen().len(), seen);
    running.stop().await;
}

/// A call that asks for more than the provider grants waits for it, and is no mistake.
#[tokio::test]
async fn an_estimate_is_cut_down_to_what_the_provider_grants() {
    let running = learning(LEARNT).await;
    assert_eq!(running.call(100, ["200", "100"]).await, 200);
    let (status, ..) = running.post("/v1/chat/completions", &chat(100_000)).await;
    assert_eq!(status, 429);
    running.stop().await;
}

/// adaptive-rate-limiter: "60 becomes 99 with 39 in flight".
#[tokio::test]
async fn a_higher_remaining_never_frees_what_is_in_flight() {
    let running = learning(LEARNT).await;
    let streams = [(); 2].map(|()| running.provider.next(Reply::stream()));
    let mut call = chat(400);
    call["stream"] = true.into();
    let first = running.begin("/v1/chat/completions", &call).await;
    let second = running.begin("/v1/chat/completions", &call).await;
    let (_, held) = running.account("tokens").await;
    assert!(held < 200, "{held}");
    // The provider has counted none of them.
    assert_eq!(running.provider.seen().len(), 2);
    running
        .provider
        .next(said(Reply::answer(1, 1), ["1000", "999"]));
    let (status, ..) = running.post("/v1/chat/completions", &chat(10)).await;
    assert_eq!(status, 200);
    let (_, left) = running.account("tokens").await;
    assert!(left <= held, "{left} of {held}");
    drop((first, second, streams));
    running.stop().await;
}

/// A provider that says no limits refuses: less is tried, and what was in flight with it tells
/// nothing more.
#[tokio::test]
async fn without_headers_a_refusal_takes_the_limit_down() {
    let running = learning(LEARNT).await;
    running.provider.next(Reply::refusal(429, "{}"));
    running.provider.next(Reply::answer(1, 1));
    let (status, ..) = running.post("/v1/chat/completions", &chat(10)).await;
    assert_eq!(status, 429, "no time to wait in");
    assert_eq!(running.account("tokens").await.0, 750);
    assert_eq!(running.account("requests").await.0, 75);
    running.stop().await;
}

#[tokio::test]
async fn members_of_a_pool_have_accounts_of_their_own() {
    let pool = r#"
        [policy.llm]
        key = "account/caller"
        balancer = "first_available"
        [policy.llm.member.one.limits]
        tokens = { rate = 1000, per = "1m", level = "account", learnt = true }
        [policy.llm.member.two.limits]
        tokens = { rate = 1000, per = "1m", level = "account", learnt = true }
    "#;
    let running = learning(pool).await;
    running
        .provider
        .next(said(Reply::answer(1, 1), ["800", "0"]));
    running
        .provider
        .next(said(Reply::answer(1, 1), ["600", "500"]));
    for path in ["/one/", "/two/"] {
        let (status, ..) = running.post("/v1/chat/completions", &chat(100)).await;
        assert_eq!(status, 200);
        let seen = running.provider.seen();
        assert!(seen.last().unwrap().path.starts_with(path), "{seen:?}");
    }
    let caller = running.service.enter(None).unwrap();
    let active = running
        .service
        .policy(&caller, tidegate_service::Scope::Decide, "llm");
    let sets = active.unwrap();
    let capacities: Vec<_> = sets.sets().map(|set| set.capacity("tokens")).collect();
    assert_eq!(capacities, [Some(800), Some(600)]);
    running.stop().await;
}

#[test]
fn limits_that_cannot_be_learnt_say_what_to_write() {
    let begin = |text: &str, change: fn(&mut Settings)| {
        let policies = tidegate_policy::parse("p.toml", text).unwrap();
        let service = Service::builder().build(&policies).unwrap();
        let openai = Upstream::of(Dialect::OpenAi).unwrap();
        let mut settings = Settings::new("llm", vec![openai]);
        change(&mut settings);
        let error = Gateway::new(service, &policies, settings, tls()).err();
        error.map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(begin(LEARNT, with_secrets), "");
    let error = begin(LEARNT, |_| {});
    assert!(error.contains("TIDEGATE_KEY_"), "{error}");
    let by_caller = LEARNT.replace("level = \"account\", ", "");
    let error = begin(&by_caller, with_secrets);
    assert!(error.contains(r#"key = "account/caller""#), "{error}");
    let money = LEARNT.replace("tokens  ", "usd");
    let error = begin(&money, |settings| {
        with_secrets(settings);
        let price = Price::default();
        settings.prices = [("gpt-5".to_owned(), price)].into_iter().collect();
    });
    assert!(
        error.contains("`usd` of policy `llm` counts money"),
        "{error}"
    );
}
