//! Text said to be requests: the HTTP listener answers each, without a panic, and
//! with no status that blames itself.
//!
//! Requests are kept apart by a zero byte. One is a line with its method and
//! path, lines with its headers, an empty line, and its body. `WAIT 1500` lets
//! so many milliseconds go by instead. The clock stands still but for that, and
//! for an ask that waits: then it goes on to whatever wakes that.

#![no_main]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request, Response};
use libfuzzer_sys::fuzz_target;
use tidegate::ManualClock;
use tidegate_fuzz::Feed;
use tidegate_http::{Server, Settings};
use tidegate_policy::{PolicyFile, parse};
use tidegate_service::Service;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

/// One of every kind of limit, none of which is ever too full to tell.
const POLICIES: &str = r#"
[policy.web.limits]
rpm = { calls = 3, per = "1m" }

[policy.chat]
key = "org/user"
[policy.chat.limits]
tpm = { rate = 6_000, per = "1m", burst = 9_000 }
daily = { budget = 20_000, per = "day", zone = "UTC", level = "org" }
running = { concurrency = 1, ttl = "30s" }

[policy.shady.limits]
rps = { calls = 1, per = "1s", algorithm = "sliding_log", shadow = true }
"#;

/// A server for one input.
struct House {
    time: ManualClock,
    server: Server,
    runtime: Runtime,
}

fuzz_target!(|bytes: &[u8]| {
    let house = House::new();
    let mut feed = Feed::new(bytes);
    while !feed.is_empty() {
        house.hear(feed.rest_until(0));
    }
});

impl House {
    fn new() -> Self {
        static FILE: OnceLock<PolicyFile> = OnceLock::new();
        let file = FILE.get_or_init(|| parse("fuzz.toml", POLICIES).expect("it is sound"));
        let time = ManualClock::default();
        let service = Service::builder().clock(time.clock()).build(file);
        let runtime = Builder::new_current_thread().enable_time().build();
        Self {
            server: Server::new(service.expect("it is sound"), Settings::default()),
            runtime: runtime.expect("it needs nothing"),
            time,
        }
    }

    fn hear(&self, said: &[u8]) {
        let mut lines = Feed::new(said);
        let first = String::from_utf8_lossy(lines.rest_until(b'\n')).into_owned();
        let (method, path) = first.split_once(' ').unwrap_or((&first, "/"));
        if method == "WAIT" {
            let millis = path.parse::<u32>().unwrap_or_default();
            return self.time.advance(Duration::from_millis(millis.into()));
        }
        let mut request = Request::builder().method(method).uri(path);
        loop {
            let line = lines.rest_until(b'\n');
            let Some(colon) = line.iter().position(|&byte| byte == b':') else {
                break;
            };
            request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
        }
        // What is no request in HTTP's own terms never comes to the server.
        if let Ok(request) = request.body(Body::from(lines.rest().to_vec())) {
            let wants_body = request.method() != Method::HEAD;
            let (response, body) = self.runtime.block_on(self.answer(request));
            is_sound(&response, wants_body.then_some(&*body));
        }
    }

    async fn answer(&self, request: Request<Body>) -> (Response<()>, Bytes) {
        let mut answer = pin!(self.server.clone().oneshot(request));
        let response = poll_fn(|context| {
            loop {
                if let Poll::Ready(response) = answer.as_mut().poll(context) {
                    return Poll::Ready(response);
                }
                let alarm = self.time.next_alarm().expect("nothing wakes it");
                self.time.set(alarm);
            }
        });
        let (head, body) = response.await.expect("it never fails").into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("it is whole");
        (Response::from_parts(head, ()), body)
    }
}

/// Its status blames the client, if anyone, and its body, if it has one, is what
/// it says.
fn is_sound(response: &Response<()>, body: Option<&[u8]>) {
    let status = response.status();
    let text = String::from_utf8_lossy(body.unwrap_or_default());
    assert!(!status.is_server_error(), "{status}: {text}");
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.map_or("", |kind| kind.to_str().expect("text"));
    if let Some(body) = body.filter(|_| kind.ends_with("json")) {
        let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        let problem = kind == "application/problem+json";
        assert!(!problem || body["status"] == status.as_u16(), "{text}");
    }
}
