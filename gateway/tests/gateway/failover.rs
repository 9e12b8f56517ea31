//! What is sent again, and where.

use super::*;

const CHAT: &str = "/v1/chat/completions";

/// In this order, of which the first that has room is asked.
const IN_ORDER: &str = r#"
[policy.llm]
balancer = "first_available"
[policy.llm.member.one.limits]
tokens = { rate = 1000, per = "1h" }
[policy.llm.member.two.limits]
tokens = { rate = 1000, per = "1h" }
"#;

const SPENT: &str = r#"{"error":{"code":"insufficient_quota"}}"#;

impl Running {
    /// Whom the provider was asked as, call by call.
    fn members(&self) -> Vec<String> {
        let seen = self.provider.seen();
        let member = |path: &str| path.split('/').nth(1).unwrap().to_owned();
        seen.iter().map(|seen| member(&seen.path)).collect()
    }

    async fn chat(&self) -> StatusCode {
        self.post(CHAT, &chat(50)).await.0
    }
}

/// The member that had just failed was asked three times, and the other never.
#[tokio::test]
async fn a_call_that_a_member_fails_goes_on_to_another() {
    let running = run(IN_ORDER, |_| {}).await;
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
    let running = run(IN_ORDER, |_| {}).await;
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
    let running = run(IN_ORDER, |_| {}).await;
    running.provider.next(Reply::refusal(429, SPENT));
    for _ in 0..2 {
        running.provider.next(Reply::answer(10, 10));
        assert_eq!(running.chat().await, 200);
    }
    assert_eq!(running.members(), ["one", "two", "two"]);
    running.stop().await;
}

/// The time that was named was not waited for.
#[tokio::test]
async fn a_call_that_every_member_fails_waits_before_it_is_sent_again() {
    let running = run(IN_ORDER, |settings| settings.wait = Duration::from_secs(30)).await;
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
    let slots = r#"
        [policy.llm]
        balancer = "first_available"
        [policy.llm.member.one.limits]
        running = { concurrency = 1, ttl = "1h" }
        [policy.llm.member.two.limits]
        running = { concurrency = 1, ttl = "1h" }
    "#;
    let running = run(slots, |settings| settings.wait = Duration::from_secs(30)).await;
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
