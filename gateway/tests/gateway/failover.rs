//! What is sent again, where, and what is charged of what nobody knows the end of.

use tidegate_service::Scope;

use super::*;

pub(super) const CHAT: &str = "/v1/chat/completions";

const SPENT: &str = r#"{"error":{"code":"insufficient_quota"}}"#;

impl Running {
    /// Whom the provider was asked as, call by call.
    pub(super) fn members(&self) -> Vec<String> {
        let seen = self.provider.seen();
        let member = |path: &str| path.split('/').nth(1).unwrap().to_owned();
        seen.iter().map(|seen| member(&seen.path)).collect()
    }

    /// How many calls wait for their limits.
    pub(super) fn waiting(&self) -> u64 {
        let caller = self.service.enter(None).unwrap();
        let policy = self.service.policy(&caller, Scope::Observe, "llm").unwrap();
        policy.waiting()
    }

    pub(super) async fn chat(&self) -> StatusCode {
        self.post(CHAT, &chat(50)).await.0
    }
}

/// The member that had just failed was asked three times, and the other never.
#[tokio::test]
async fn a_call_that_a_member_fails_goes_on_to_another() {
    let running = run(&in_order(TOKENS), |_| {}).await;
    for refusal in [500, 429] {
        running.provider.next(Reply::refusal(refusal, "{}"));
        running.provider.next(Reply::answer(10, 10));
        assert_eq!(running.chat().await, 200);
    }
    assert_eq!(running.members(), ["one", "two", "one", "two"]);
    running.stop().await;
}

#[tokio::test]
async fn money_that_is_spent_is_asked_once_at_each_member_and_then_at_the_other_first() {
    let running = run(&in_order(TOKENS), |_| {}).await;
    for _ in 0..2 {
        running.provider.next(Reply::refusal(429, SPENT));
    }
    let (status, headers, body) = running.post(CHAT, &chat(50)).await;
    assert_eq!(
        (status.as_u16(), &body["error"]["code"]),
        (429, &json!("insufficient_quota"))
    );
    assert_eq!(headers["x-should-retry"], "false");
    assert_eq!(running.members(), ["one", "two"]);
    running.stop().await;
    let running = run(&in_order(TOKENS), |_| {}).await;
    running.provider.next(Reply::refusal(429, SPENT));
    for _ in 0..2 {
        running.provider.next(Reply::answer(10, 10));
        assert_eq!(running.chat().await, 200);
    }
    assert_eq!(running.members(), ["one", "two", "two"]);
    running.stop().await;
}

/// It was passed over for as long as it said: 400 days, at every gateway of the store.
#[tokio::test]
async fn a_member_is_passed_over_for_an_hour_at_most_whatever_its_provider_says() {
    let running = run(&in_order(TOKENS), |_| {}).await;
    let days = Reply::refusal(429, "{}").with("retry-after", "34000000");
    running.provider.next(days);
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.chat().await, 200);
    let caller = running.service.enter(None).unwrap();
    let policy = running
        .service
        .policy(&caller, Scope::Observe, "llm")
        .unwrap();
    let until = policy.members()[0].cooling().expect("it cools down");
    let hour = tidegate::Span::from_secs(3_600);
    assert!(until.since(policy.now()) <= hour, "{until:?}");
    running.stop().await;
}

/// The fourth was never asked.
#[tokio::test]
async fn a_pool_of_more_members_than_attempts_is_tried_to_its_end() {
    let four = ["one", "two", "three", "four"].map(|name| (name, TOKENS));
    let four = pool(IN_ORDER, &four);
    let running = run(&four, |_| {}).await;
    for _ in 0..3 {
        running.provider.next(Reply::refusal(429, SPENT));
    }
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.chat().await, 200);
    assert_eq!(running.members(), ["one", "two", "three", "four"]);
    running.stop().await;
    // What passes is waited for, and there are three attempts besides those at new members.
    let running = run(&four, |settings| settings.wait = Duration::from_secs(30)).await;
    for _ in 0..7 {
        let refusal = Reply::refusal(500, "{}").with("retry-after-ms", "1");
        running.provider.next(refusal);
    }
    assert_eq!(running.chat().await, 500);
    let members = ["one", "two", "three", "four", "one", "two"];
    assert_eq!(running.members(), members);
    running.stop().await;
}

/// The time that was named was not waited for.
#[tokio::test]
async fn a_call_that_every_member_fails_waits_before_it_is_sent_again() {
    let running = run(&in_order(TOKENS), |settings| {
        settings.wait = Duration::from_secs(30)
    })
    .await;
    let begun = tokio::time::Instant::now();
    running.provider.next(Reply::refusal(500, "{}"));
    let last = Reply::refusal(500, "{}").with("retry-after-ms", "700");
    running.provider.next(last);
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.chat().await, 200);
    assert_eq!(running.members(), ["one", "two", "one"]);
    assert!(begun.elapsed() >= Duration::from_millis(700));
    running.stop().await;
}

#[tokio::test]
async fn a_call_waits_for_the_member_that_failed_it_where_no_other_has_room() {
    let slots = in_order("running = { concurrency = 1, ttl = '1h' }");
    let running = run(&slots, |settings| settings.wait = Duration::from_secs(30)).await;
    let refusal = Reply::refusal(500, "{}");
    running.provider.next(refusal);
    let events = running.provider.next(Reply::stream());
    let mut stream = chat(50);
    stream["stream"] = true.into();
    let held = running.begin(CHAT, &stream).await;
    running.provider.next(Reply::refusal(500, "{}"));
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.chat().await, 200);
    assert_eq!(running.members(), ["one", "two", "one", "one"]);
    drop((held, events));
    running.stop().await;
}

/// It was sent nowhere: it may go to the first no more, and did not wait for the second.
#[tokio::test]
async fn after_the_last_attempt_a_call_waits_for_a_member_where_it_never_was() {
    let slots = in_order("running = { concurrency = 1, ttl = '1h' }");
    let running = run(&slots, |settings| {
        settings.wait = Duration::from_secs(300);
        settings.attempts = 1;
    })
    .await;
    running.provider.next(Reply::refusal(500, "{}"));
    let events = running.provider.next(Reply::stream());
    let mut stream = chat(50);
    stream["stream"] = true.into();
    let held = running.begin(CHAT, &stream).await;
    running.provider.next(Reply::refusal(500, "{}"));
    let waits = async {
        while running.waiting() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        running.provider.next(Reply::answer(10, 10));
        drop((held, events));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        status = running.chat() => assert_eq!(status, 200),
        () = waits => unreachable!("it never ends"),
    }
    assert_eq!(running.members(), ["one", "two", "one", "two"]);
    running.stop().await;
}

/// It wanted what only the largest grants, of which no other was ever asked.
#[tokio::test]
async fn a_call_that_only_the_largest_member_grants_whole_is_cut_down_for_those_that_are_left() {
    let tokens = |most: u64| format!("tokens = {{ rate = {most}, per = '1h' }}");
    let (large, small) = (tokens(1_000), tokens(500));
    let members = [("one", &*large), ("two", &*small), ("three", &*small)];
    let running = run(&pool(IN_ORDER, &members), |_| {}).await;
    running.provider.next(Reply::refusal(429, SPENT));
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.post(CHAT, &chat(900)).await.0, 200);
    // The first is passed over for a minute, and the second has no longer 500.
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.post(CHAT, &chat(900)).await.0, 200);
    assert_eq!(running.members(), ["one", "two", "three"]);
    running.stop().await;
}

/// Each was sent three times: three batches, three bills.
#[tokio::test]
async fn what_may_have_been_carried_out_is_not_sent_again_unless_that_is_safe() {
    let calls = "[policy.llm.limits]\nrequests = { calls = 100, per = '1h' }";
    let running = run(calls, |settings| settings.wait = Duration::from_secs(30)).await;
    for status in [408, 409, 500, 503, 504, 524] {
        running.provider.next(Reply::refusal(status, "{}"));
        let request = http::Request::post("/v1/batches");
        assert_eq!(running.send(request, "{}").await.status(), status);
    }
    assert_eq!(running.provider.seen().len(), 6);
    // It was not taken.
    running
        .provider
        .next(Reply::refusal(429, "{}").with("retry-after-ms", "1"));
    running.provider.next(Reply::answer(0, 0));
    let request = http::Request::post("/v1/batches");
    assert_eq!(running.send(request, "{}").await.status(), 200);
    for request in [
        http::Request::post("/v1/batches").header("idempotency-key", "once"),
        http::Request::get("/v1/batches"),
    ] {
        let refusal = Reply::refusal(500, "{}").with("retry-after-ms", "1");
        running.provider.next(refusal);
        running.provider.next(Reply::answer(0, 0));
        assert_eq!(running.send(request, "{}").await.status(), 200);
    }
    let seen = running.provider.seen();
    assert_eq!(seen.len(), 12);
    assert_eq!(seen[8].header("idempotency-key"), "once");
    assert_eq!(seen[11].method, http::Method::GET);
    running.stop().await;
}

/// What it had reserved came back, though the provider may have made the whole answer.
#[tokio::test]
async fn a_call_of_which_nobody_knows_the_end_is_charged_as_reserved() {
    for status in [408, 504, 524] {
        let running = run(POLICY, |_| {}).await;
        running.provider.next(Reply::refusal(status, "{}"));
        assert_eq!(running.post(CHAT, &chat(500)).await.0, status);
        running.settles_to("running", 4).await;
        let left = running.left("tokens").await;
        assert!((400..500).contains(&left), "{left}");
        running.stop().await;
    }
    let running = run(POLICY, |_| {}).await;
    running.provider.next(Reply::refusal(500, "{}"));
    assert_eq!(running.post(CHAT, &chat(500)).await.0, 500);
    running.settles_to("tokens", 1_000).await;
    running.stop().await;
}

#[tokio::test]
async fn a_provider_that_is_silent_or_breaks_off_costs_what_was_reserved() {
    let running = run(POLICY, |settings| {
        settings.answer_within = Duration::from_millis(200);
    })
    .await;
    running.provider.next(Reply::silence());
    let (status, _, body) = running.post(CHAT, &chat(500)).await;
    assert_eq!(status, 504, "{body}");
    running.settles_to("running", 4).await;
    let left = running.left("tokens").await;
    assert!((400..500).contains(&left), "{left}");
    running.stop().await;
    let at = hung_up().await;
    let base = format!("http://{at}").parse().unwrap();
    let running = run(POLICY, |settings| settings.upstreams[0].base = base).await;
    let (status, _, body) = running.post(CHAT, &chat(500)).await;
    assert_eq!(status, 502, "{body}");
    running.settles_to("running", 4).await;
    let left = running.left("tokens").await;
    assert!((400..500).contains(&left), "{left}");
    running.stop().await;
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_costs_nothing() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = nowhere.local_addr().unwrap();
    drop(nowhere);
    let base = format!("http://{at}").parse().unwrap();
    let running = run(POLICY, |settings| settings.upstreams[0].base = base).await;
    assert_eq!(running.post(CHAT, &chat(500)).await.0, 502);
    running.settles_to("tokens", 1_000).await;
    running.settles_to("running", 4).await;
    running.stop().await;
}

/// It was charged what was reserved as if it had been sent, and its caller told that nobody had answered.
#[tokio::test]
async fn a_provider_to_which_no_connection_comes_about_in_time_costs_nothing() {
    // It takes connections, and says nothing of TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let running = run(POLICY, |settings| {
        settings.answer_within = Duration::from_millis(200);
        settings.upstreams[0].base = base.parse().unwrap();
    })
    .await;
    let (status, _, body) = running.post(CHAT, &chat(500)).await;
    assert_eq!(status, 502, "{body}");
    let said = body["error"]["message"].as_str().unwrap();
    assert!(
        said.ends_with("cannot be reached: no connection came about within 200ms"),
        "{said}"
    );
    running.settles_to("tokens", 1_000).await;
    running.settles_to("running", 4).await;
    running.stop().await;
}

/// A provider that takes a whole call, and is gone.
async fn hung_up() -> std::net::SocketAddr {
    use tokio::io::AsyncReadExt;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                stream.read_buf(&mut request).await.unwrap();
            }
        }
    });
    at
}
