//! What is charged of a stream that its caller does not wait for.

use super::failover::CHAT;
use super::*;

/// Each event was charged as one token, whatever it said: who left before the last one had the rest
/// for nothing.
#[tokio::test]
async fn a_caller_that_goes_away_pays_for_the_length_of_what_came() {
    let running = run(POLICY, |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(500);
    call["stream"] = true.into();
    let response = running.begin(CHAT, &call).await;
    let mut body = response.into_body();
    // 200 tokens each.
    let words = "word ".repeat(160);
    for _ in 0..2 {
        let event =
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{words}\"}}}}]}}\n\n");
        events.send(event).await;
        body.frame().await.unwrap().unwrap();
    }
    drop((body, events));
    running.settles_to("running", 4).await;
    let left = running.left("tokens").await;
    assert!((570..=600).contains(&left), "{left}");
    running.stop().await;
}

/// What was told as a file counted as 1,500 tokens, and nobody said otherwise of a stream that broke
/// off.
#[tokio::test]
async fn a_text_that_looks_like_a_file_is_charged_by_its_length() {
    let running = run(&POLICY.replace("1000", "50_000"), |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(500);
    call["stream"] = true.into();
    let text = format!("data:text/plain;base64,{}", "QUJD".repeat(10_000));
    call["messages"][0]["content"] = text.into();
    let response = running.begin(CHAT, &call).await;
    let mut body = response.into_body();
    events
        .send("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n".into())
        .await;
    body.frame().await.unwrap().unwrap();
    drop((body, events));
    running.settles_to("running", 4).await;
    let left = running.left("tokens").await;
    assert!((39_000..40_000).contains(&left), "{left}");
    running.stop().await;
}

/// Its slot came back, and its connection stayed, with the provider's, for as long as it held it.
#[tokio::test]
async fn a_caller_that_takes_nothing_of_its_answer_is_cut_off() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let running = run(POLICY, |settings| {
        settings.pause = Duration::from_millis(200);
    })
    .await;
    let events = running.provider.next(Reply::stream());
    let mut caller = tokio::net::TcpStream::connect(&running.at).await.unwrap();
    let body = r#"{"model":"m","stream":true}"#;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-test\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    caller.write_all(head.as_bytes()).await.unwrap();
    caller.read_exact(&mut [0; 16]).await.unwrap();
    let filling = async {
        loop {
            tokio::select! {
                biased;
                () = events.gone() => return,
                () = events.send(format!("data: {}\n\n", "x".repeat(60_000))) => {}
            }
        }
    };
    let cut = tokio::time::timeout(Duration::from_secs(100), filling).await;
    cut.expect("long before");
    running.settles_to("running", 4).await;
    drop(caller);
    running.stop().await;
}

/// A limit of so many tokens, of which nothing comes back while a test runs.
fn granting(tokens: u64) -> String {
    let window = "per = \"400d\", algorithm = \"first_use_window\"";
    let limit = format!("budget = {tokens}, {window}");
    POLICY.replace("rate = 1000, per = \"1h\"", &limit)
}

/// So much that nothing to speak of comes back while a test runs.
pub fn long() -> String {
    granting(1_000_000)
}

/// So many words of an answer.
pub fn event(words: usize) -> String {
    let words = "word ".repeat(words);
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{words}\"}}}}]}}\n\n")
}

/// What came beyond the reservation was charged at the end alone: until then the limit granted it to
/// others.
#[tokio::test]
async fn a_stream_that_outgrows_its_reservation_takes_more_while_it_comes() {
    const LIMIT: u64 = 1_000_000;
    let running = run(&long(), |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let call = json!({ "model": "m", "stream": true, "messages": [] });
    let mut body = running.begin(CHAT, &call).await.into_body();
    let reserved = LIMIT - running.left("tokens").await;
    // 1,000 tokens each.
    let event = event(800);
    let mut came = 0;
    while came <= reserved + 3_000 {
        events.send(event.clone()).await;
        body.frame().await.unwrap().unwrap();
        came += 1_000;
    }
    let mut left = LIMIT;
    for _ in 0..2_000 {
        left = running.left("tokens").await;
        if left <= LIMIT - came {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let taken = LIMIT - left;
    assert!(
        (came..came + came / 2).contains(&taken),
        "{taken} of {came}"
    );
    let usage = r#"{"usage":{"prompt_tokens":10,"completion_tokens":7000}}"#;
    events
        .send(format!("data: {usage}\n\ndata: [DONE]\n\n"))
        .await;
    drop(events);
    while body.frame().await.is_some() {}
    running.settles_to("tokens", LIMIT - 7_010).await;
    running.settles_to("running", 4).await;
    running.stop().await;
}

/// A text may be measured as longer than it is: a bound of the caller's own says better what it comes to.
#[tokio::test]
async fn a_stream_takes_no_more_than_its_bound() {
    let running = run(&long(), |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(500);
    call["stream"] = true.into();
    let mut body = running.begin(CHAT, &call).await.into_body();
    let left = running.left("tokens").await;
    for _ in 0..2 {
        events.send(of_tokens(490)).await;
        body.frame().await.unwrap().unwrap();
        assert_eq!(running.left("tokens").await, left);
    }
    events.send("data: [DONE]\n\n".into()).await;
    drop(events);
    while body.frame().await.is_some() {}
    running.settles_to("running", 4).await;
    assert_eq!(running.left("tokens").await, left, "nor is it charged more");
    running.stop().await;
}

/// A stream of a call with that bound, to which `many` events of 1,000 tokens each have come.
async fn begun(
    running: &Running,
    max_tokens: u64,
    many: usize,
) -> (super::provider::Events, hyper::body::Incoming) {
    let events = running.provider.next(Reply::stream());
    let mut call = chat(max_tokens);
    call["stream"] = true.into();
    let mut body = running.begin(CHAT, &call).await.into_body();
    for _ in 0..many {
        events.send(of_tokens(1_000)).await;
        body.frame().await.unwrap().unwrap();
    }
    (events, body)
}

/// An event that brings a text of so many tokens.
fn of_tokens(tokens: usize) -> String {
    let words = "word".repeat(tokens);
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{words}\"}}}}]}}\n\n")
}

/// The stream ends by itself, and does not say its usage.
async fn ends(
    running: &Running,
    (events, mut body): (super::provider::Events, hyper::body::Incoming),
) {
    events.send("data: [DONE]\n\n".into()).await;
    drop(events);
    while body.frame().await.is_some() {}
    running.settles_to("running", 4).await;
}

/// An estimate that is larger than the limit takes all of it, and no more: what came was compared with the
/// estimate, so that it took nothing more while it came, and was charged the limit at its end.
#[tokio::test]
async fn a_stream_pays_for_what_it_outgrows_of_a_limit_that_is_smaller_than_its_estimate() {
    let running = run(&granting(1_000), |_| {}).await;
    let stream = begun(&running, 5_000, 4).await;
    let owed = running.owes("tokens", 3_000).await;
    assert!(owed <= 4_100, "the estimate: {owed}");
    ends(&running, stream).await;
    let owed = running.owes("tokens", 3_000).await;
    assert!((3_000..3_050).contains(&owed), "{owed}");
    running.stop().await;
}

/// Where several limits count a stream, each holds what it took or more.
#[tokio::test]
async fn a_stream_that_outgrows_one_limit_holds_what_it_took_of_another() {
    let window = "per = \"400d\", algorithm = \"first_use_window\"";
    let limits = long() + &format!("output-tokens = {{ budget = 1_000, {window} }}\n");
    let running = run(&limits, |_| {}).await;
    let (events, mut body) = begun(&running, 5_000, 0).await;
    let left = running.left("tokens").await;
    for _ in 0..2 {
        events.send(of_tokens(1_000)).await;
        body.frame().await.unwrap().unwrap();
    }
    let owed = running.owes("output-tokens", 1_000).await;
    assert!(owed <= 1_500, "the estimate: {owed}");
    assert_eq!(running.left("tokens").await, left);
    ends(&running, (events, body)).await;
    assert_eq!(running.owes("output-tokens", 1_000).await, 1_000);
    let used = 1_000_000 - running.left("tokens").await;
    assert!((2_000..2_050).contains(&used), "{used}");
    running.stop().await;
}

/// The same of a limit on money.
#[tokio::test]
async fn a_stream_pays_for_what_it_outgrows_of_a_limit_on_money() {
    let budget = "budget = 1000, per = \"400d\"";
    let money = "budget = \"0.001\", unit = \"0.000001\", per = \"400d\"";
    let limits = granting(1_000).replace(budget, money);
    let running = run(&limits.replace("tokens", "usd"), |settings| {
        let price = Price {
            output: 1_000_000,
            ..Price::default()
        };
        settings.prices = [("gpt-5".to_owned(), price)].into_iter().collect();
    })
    .await;
    let stream = begun(&running, 5_000, 2).await;
    let owed = running.owes("usd", 1_000).await;
    assert!(owed <= 1_500, "the estimate: {owed}");
    ends(&running, stream).await;
    assert_eq!(running.owes("usd", 1_000).await, 1_000);
    running.stop().await;
}

/// One event was longer than the bound, by its length: the stream took nothing then, and never did.
#[tokio::test]
async fn a_stream_takes_up_to_its_bound_when_more_than_that_comes_at_once() {
    let running = run(&long(), |settings| {
        settings.upstreams[0].provider = Dialect::Anthropic;
    })
    .await;
    let events = running.provider.next(Reply::stream());
    let mut call = chat(1_000);
    call["stream"] = true.into();
    let mut body = running.begin("/v1/messages", &call).await.into_body();
    // What is reserved of an answer of which nothing is known.
    let left = running.left("tokens").await + 512;
    let delta = json!({ "type": "text_delta", "text": "word".repeat(1_100) });
    let event = json!({ "type": "content_block_delta", "index": 0, "delta": delta });
    events.send(format!("data: {event}\n\n")).await;
    body.frame().await.unwrap().unwrap();
    running.settles_to("tokens", left - 1_000).await;
    drop((events, body));
    running.settles_to("running", 4).await;
    assert_eq!(running.left("tokens").await, left - 1_000);
    running.stop().await;
}

/// The smallest bound that a body said anywhere was taken for the call's: with one that its provider does
/// not read it reserved nothing, and took no more as it came.
#[tokio::test]
async fn a_bound_of_another_dialect_bounds_nothing() {
    let running = run(&long(), |_| {}).await;
    let begin = async |mut call: Value| {
        let before = running.left("tokens").await;
        let events = running.provider.next(Reply::stream());
        call["stream"] = true.into();
        let body = running.begin(CHAT, &call).await.into_body();
        let reserved = before - running.left("tokens").await;
        drop((events, body));
        running.settles_to("running", 4).await;
        reserved
    };
    let honest = begin(chat(100_000)).await;
    for (member, value) in [
        ("generationConfig", json!({ "maxOutputTokens": 1 })),
        ("inferenceConfig", json!({ "maxTokens": 1 })),
        ("max_output_tokens", json!(1)),
    ] {
        let mut call = chat(100_000);
        call[member] = value;
        let reserved = begin(call).await;
        assert!(reserved >= honest, "{member}: {reserved}");
    }
    running.stop().await;
}

/// Whatever a call says, what has come tells better: a provider that does not keep to the bound made such
/// a stream take nothing more.
#[tokio::test]
async fn a_bound_that_is_exceeded_by_far_bounds_nothing() {
    let running = run(&long(), |_| {}).await;
    let stream = begun(&running, 500, 3).await;
    let used = async || 1_000_000 - running.left("tokens").await;
    for _ in 0..2_000 {
        if used().await >= 3_000 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let taken = used().await;
    assert!((3_000..4_100).contains(&taken), "{taken}");
    ends(&running, stream).await;
    let used = used().await;
    assert!((3_000..3_050).contains(&used), "{used}");
    running.stop().await;
}

/// Events that bring no text count as a token each: an answer of 40 tokens was charged 43.
#[tokio::test]
async fn a_stream_is_charged_no_more_events_than_its_bound() {
    let running = run(&long(), |_| {}).await;
    let (events, mut body) = begun(&running, 40, 0).await;
    let left = running.left("tokens").await;
    for _ in 0..42 {
        events.send(of_tokens(1)).await;
        body.frame().await.unwrap().unwrap();
    }
    ends(&running, (events, body)).await;
    assert_eq!(running.left("tokens").await, left);
    let (events, mut body) = begun(&running, 40, 0).await;
    let left = running.left("tokens").await;
    for _ in 0..43 {
        events.send(of_tokens(1)).await;
        body.frame().await.unwrap().unwrap();
    }
    drop((events, body));
    running.settles_to("running", 4).await;
    assert_eq!(
        running.left("tokens").await,
        left,
        "also where it broke off"
    );
    running.stop().await;
}
