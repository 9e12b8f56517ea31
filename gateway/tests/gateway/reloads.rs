//! Calls that are under way while policies are exchanged.

use super::failover::CHAT;
use super::*;

const BEFORE: &str = r#"
[policy.llm.limits]
requests      = { calls = 100, per = "1h" }
tpd           = { rate = 1000, per = "1h" }
output-tokens = { rate = 1000, per = "1h" }
running       = { concurrency = 1, ttl = "1h" }
"#;

/// A limit has another name.
fn after() -> PolicyFile {
    tidegate_policy::parse("p.toml", &BEFORE.replace("tpd", "tph")).unwrap()
}

fn stream() -> Value {
    let mut call = chat(500);
    call["stream"] = true.into();
    call
}

/// Nothing of it was settled: its slot stayed taken until its lease expired, and what it had
/// reserved of other limits stayed charged.
#[tokio::test]
async fn a_call_is_settled_although_a_limit_has_gone_that_it_was_granted_by() {
    let running = run(BEFORE, |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let response = running.begin(CHAT, &stream()).await;
    running.service.exchange("a test", &after()).unwrap();
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":2}}\n\n";
    events.send(usage.into()).await;
    events.send("data: [DONE]\n\n".into()).await;
    drop(events);
    response.into_body().collect().await.unwrap();
    running.settles_to("running", 1).await;
    running.settles_to("output-tokens", 998).await;
    running.stop().await;
}

/// 400: "there is no limit `tpd` here".
#[tokio::test]
async fn a_call_that_waits_goes_by_the_policy_that_is_in_force_when_its_turn_comes() {
    for is_fair in [false, true] {
        let running = run(BEFORE, |settings| {
            settings.wait = Duration::from_secs(300);
            settings.fair = is_fair;
            settings.key_header = Some(http::HeaderName::from_static("x-who"));
        })
        .await;
        let events = running.provider.next(Reply::stream());
        let held = running.begin(CHAT, &stream()).await;
        let exchanged = async {
            while running.waiting() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            running.service.exchange("a test", &after()).unwrap();
            running.provider.next(Reply::answer(10, 10));
            drop((held, events));
            std::future::pending::<()>().await;
        };
        let call = chat(500);
        tokio::select! {
            (status, _, body) = running.post(CHAT, &call) => assert_eq!(status, 200, "{body}"),
            () = exchanged => unreachable!("it never ends"),
        }
        running.settles_to("tph", 980).await;
        running.stop().await;
    }
}

/// Another member still has it: nothing of the call was settled.
#[tokio::test]
async fn a_call_is_settled_although_its_member_alone_has_lost_a_limit() {
    const SLOT: &str = "running = { concurrency = 1, ttl = '1h' }";
    let whole = format!("{SLOT}\ntpd = {{ rate = 1000_000, per = '1h' }}");
    let before = pool(IN_ORDER, &[("one", &whole), ("two", &whole)]);
    let after = pool(IN_ORDER, &[("one", SLOT), ("two", &whole)]);
    let policies = |text: &str| tidegate_policy::parse("p.toml", text).unwrap();
    let running = run(&before, |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let response = running.begin(CHAT, &stream()).await;
    let exchange = |text: &str| running.service.exchange("a test", &policies(text));
    exchange(&after).unwrap();
    events.send("data: [DONE]\n\n".into()).await;
    drop(events);
    response.into_body().collect().await.unwrap();
    // No call goes to a member without a limit that another one has.
    exchange(&before).unwrap();
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.chat().await, 200);
    assert_eq!(running.members(), ["one", "one"], "its slot is free");
    running.stop().await;
}

/// It took more of none of its limits.
#[tokio::test]
async fn a_stream_takes_more_of_the_limits_that_a_reload_has_left() {
    let before = BEFORE.replace(
        "rate = 1000, per = \"1h\"",
        "rate = 1_000_000, per = \"400d\"",
    );
    let running = run(&before, |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let call = json!({ "model": "m", "stream": true, "messages": [] });
    let mut body = running.begin(CHAT, &call).await.into_body();
    let after = before.replace("tpd", "tph");
    let after = tidegate_policy::parse("p.toml", &after).unwrap();
    running.service.exchange("a test", &after).unwrap();
    let reserved = 1_000_000 - running.left("output-tokens").await;
    // 1,000 tokens each.
    let words = "word ".repeat(800);
    let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{words}\"}}}}]}}\n\n");
    let mut came = 0;
    while came <= reserved {
        events.send(event.clone()).await;
        body.frame().await.unwrap().unwrap();
        came += 1_000;
    }
    for _ in 0..2_000 {
        if running.left("output-tokens").await <= 1_000_000 - came {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(running.left("output-tokens").await <= 1_000_000 - came);
    drop((body, events));
    running.settles_to("running", 1).await;
    running.stop().await;
}
