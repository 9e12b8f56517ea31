//! Limits that the provider says: taken over, shared with others, and never exceeded.

use tidegate::ManualClock;
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
    pub async fn account(&self, limit: &str) -> (u64, u64) {
        let caller = self.service.enter(None).unwrap();
        let question = Question {
            policy: "llm",
            whose: b"account/credential-f3abf2a6cc4f0098"[..].into(),
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

    /// A call that reserves so much and uses 2.
    async fn answered(&self, max_tokens: u64, said: [&str; 2]) -> StatusCode {
        self.provider.next(self::said(Reply::answer(1, 1), said));
        self.post("/v1/chat/completions", &chat(max_tokens)).await.0
    }

    /// Until every call is settled.
    pub async fn settled(&self) {
        for _ in 0..2_000 {
            if self.account("running").await.1 == 4 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("a call is not settled");
    }

    /// The same, once it is settled.
    async fn call(&self, max_tokens: u64, said: [&str; 2]) -> StatusCode {
        let status = self.answered(max_tokens, said).await;
        self.settled().await;
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

/// What it used beyond its reservation was charged as somebody else's when its headers came, and once
/// more at its end: 502 were left of 700.
#[tokio::test]
async fn what_a_call_uses_beyond_its_reservation_is_charged_once() {
    let running = learning(LEARNT).await;
    // The bound is 100, and the prompt has 200 tokens, of which few were reserved.
    let reply = Reply::answer(200, 100);
    running.provider.next(said(reply, ["1000", "700"]));
    let (status, ..) = running.post("/v1/chat/completions", &chat(100)).await;
    assert_eq!(status, 200);
    running.settled().await;
    assert_eq!(running.account("tokens").await, (1_000, 700));
    running.stop().await;
}

/// It was charged as used, and once more as somebody else's.
#[tokio::test]
async fn a_call_of_which_nobody_knows_the_end_is_charged_once() {
    let running = learning(LEARNT).await;
    let reply = said(Reply::refusal(504, "{}"), ["1000", "900"]);
    running.provider.next(reply);
    let (status, ..) = running.post("/v1/chat/completions", &chat(100)).await;
    assert_eq!(status, 504);
    running.settled().await;
    let (_, left) = running.account("tokens").await;
    assert!((880..=900).contains(&left), "{left}");
    running.stop().await;
}

/// A bound that held for each of four answers was kept counted for one.
#[tokio::test]
async fn what_stays_counted_is_the_bound_of_all_answers() {
    let running = learning(LEARNT).await;
    let reply = Reply::answer(10, 320);
    running.provider.next(said(reply, ["1000", "600"]));
    let mut call = chat(100);
    call["n"] = 4.into();
    let (status, ..) = running.post("/v1/chat/completions", &call).await;
    assert_eq!(status, 200);
    running.settled().await;
    assert_eq!(running.account("tokens").await, (1_000, 600));
    running.stop().await;
}

/// It was a mistake of its caller's, 400: it had asked for no more than there was.
#[tokio::test]
async fn a_call_that_waits_while_the_limit_falls_waits_on() {
    let waiting = |settings: &mut Settings| {
        with_secrets(settings);
        settings.wait = Duration::from_secs(5);
    };
    let running = run(LEARNT, waiting).await;
    let stream = running.provider.next(Reply::stream());
    let mut call = chat(700);
    call["stream"] = true.into();
    let first = running.begin("/v1/chat/completions", &call).await;
    let large = chat(500);
    let waits = running.post("/v1/chat/completions", &large);
    let falls = async {
        let caller = running.service.enter(None).unwrap();
        let active = running
            .service
            .policy(&caller, tidegate_service::Scope::Decide, "llm");
        let active = active.unwrap();
        while active.waiting() == 0 && running.provider.seen().len() == 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(running.answered(10, ["300", "0"]).await, 200);
        assert_eq!(running.account("tokens").await.0, 300);
    };
    let ((status, headers, _), ()) = tokio::join!(waits, falls);
    assert_eq!(status, 429);
    let millis: u64 = headers["retry-after-ms"].to_str().unwrap().parse().unwrap();
    assert!((1..=61_000).contains(&millis), "{millis}");
    drop((first, stream));
    running.stop().await;
}

/// A limit that nobody says may be tried with more: a call that wants more waits for that. Refused as
/// a mistake of its caller's, it never was.
#[tokio::test]
async fn a_call_that_wants_more_than_is_tried_is_told_when_more_is() {
    let running = learning(LEARNT).await;
    running.provider.next(Reply::refusal(429, "{}"));
    let (status, ..) = running.post("/v1/chat/completions", &chat(10)).await;
    assert_eq!(status, 429);
    assert_eq!(running.account("tokens").await.0, 750);
    let long = |length| {
        json!({
            "model": "gpt-5",
            "max_tokens": 10,
            "messages": [{ "role": "user", "content": "x ".repeat(length) }],
        })
    };
    let path = "/v1/chat/completions";
    let (status, headers, body) = running.post(path, &long(3_000)).await;
    assert_eq!(status, 429);
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("is still being learnt"), "{message}");
    let millis: u64 = headers["retry-after-ms"].to_str().unwrap().parse().unwrap();
    assert!((1..=60_000).contains(&millis), "{millis}");
    // It is never tried with more than eight times the start.
    let (status, _, body) = running.post(path, &long(50_000)).await;
    assert_eq!(status, 400, "{body}");
    running.stop().await;
}

/// Another number to start with took away what the provider had said, and a call of the old file that
/// ended took away what was learnt since.
#[tokio::test]
async fn a_file_that_is_read_again_takes_nothing_away_that_the_provider_has_said() {
    let running = learning(LEARNT).await;
    let stream = running.provider.next(Reply::pieces());
    let old = running.begin("/v1/chat/completions", &chat(10)).await;
    assert_eq!(running.answered(100, ["500", "390"]).await, 200);
    let file = LEARNT.replace("rate = 1000", "rate = 2000");
    let file = tidegate_policy::parse("p.toml", &file).unwrap();
    let changes = running.service.exchange("a test", &file).unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    running.provider.next(Reply::answer(1, 1));
    let (status, ..) = running.post("/v1/chat/completions", &chat(10)).await;
    assert_eq!(status, 200);
    assert_eq!(running.account("tokens").await.0, 500);
    drop((old, stream));
    running.stop().await;
}

/// What was given back here was taken for counted there: calls were refused that the provider had room
/// for.
#[tokio::test]
async fn calls_that_failed_hold_nobody_up_after_a_refusal() {
    let running = learning(LEARNT).await;
    assert_eq!(running.answered(100, ["1000", "890"]).await, 200);
    for status in [[500; 8].as_slice(), &[429]].concat() {
        running.provider.next(Reply::refusal(status, "{}"));
        let (answered, ..) = running.post("/v1/chat/completions", &chat(100)).await;
        assert_eq!(answered, status);
    }
    assert_eq!(running.provider.seen().len(), 10);
    running.provider.next(Reply::answer(1, 1));
    let (status, _, body) = running.post("/v1/chat/completions", &chat(100)).await;
    assert_eq!(status, 200, "{body}");
    running.stop().await;
}

/// Two members that learn what their account may use.
fn two_that_learn() -> String {
    let learnt = "tokens = { rate = 1000, per = '1m', level = 'account', learnt = true }";
    let settings = format!("key = 'account/caller'\n{IN_ORDER}");
    pool(&settings, &[("one", learnt), ("two", learnt)])
}

/// Each was refused, or waited for minutes, though the other member had room.
#[tokio::test]
async fn a_call_goes_to_a_member_that_has_room_before_it_waits_for_one_whose_limit_has_fallen() {
    for wait in [Duration::ZERO, Duration::from_secs(300)] {
        let (clock, provider) = (ManualClock::default(), Provider::begin().await);
        clock.advance(Duration::from_secs(1_000_000));
        let service = Service::builder().clock(clock.clock());
        let change = |settings: &mut Settings| {
            with_secrets(settings);
            settings.wait = wait;
        };
        let running = start(&provider, &two_that_learn(), service, change).await;
        let full = said(Reply::answer(1, 1), ["1000", "900"]);
        let fallen = Reply::answer(1, 1)
            .with("x-ratelimit-limit-tokens", "100")
            .with("x-ratelimit-remaining-tokens", "0")
            .with("x-ratelimit-reset-tokens", "5m");
        for reply in [full, fallen] {
            provider.next(reply);
            let (status, ..) = running.post("/v1/chat/completions", &chat(100)).await;
            assert_eq!(status, 200);
        }
        // Ours has forgotten it, and the provider counts more than its limit for four minutes.
        clock.advance(Duration::from_secs(121));
        provider.next(Reply::answer(1, 1));
        let (status, _, body) = running.post("/v1/chat/completions", &chat(50)).await;
        assert_eq!(status, 200, "{body}");
        let seen = provider.seen();
        let paths = seen.iter().map(|seen| seen.path.split('/').nth(1));
        let paths: Vec<_> = paths.flatten().collect();
        assert_eq!(paths, ["one", "one", "two"]);
        if wait > Duration::ZERO {
            // The other one fails it, and is waited for.
            let failed = Reply::refusal(500, "{}").with("retry-after-ms", "1");
            provider.next(failed);
            provider.next(Reply::answer(1, 1));
            let (status, ..) = running.post("/v1/chat/completions", &chat(50)).await;
            assert_eq!((status.as_u16(), provider.seen().len()), (200, 5));
            let last = &provider.seen()[4].path;
            assert!(last.starts_with("/two/"), "{last}");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn members_of_a_pool_have_accounts_of_their_own() {
    let running = learning(&two_that_learn()).await;
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
    assert!(error.contains("TIDEGATE_KEY_OPENAI"), "{error}");
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
