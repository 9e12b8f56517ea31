//! Spellings of a call that others may read otherwise: none takes its tokens away.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::failover::CHAT;
use super::*;

impl Running {
    /// The status of a call that begins with this line.
    async fn line(&self, line: &str) -> String {
        let body = chat(10).to_string();
        let call = format!(
            "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-test\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut caller = TcpStream::connect(&self.at).await.unwrap();
        caller.write_all(call.as_bytes()).await.unwrap();
        let mut told = [0; 12];
        caller.read_exact(&mut told).await.unwrap();
        String::from_utf8_lossy(&told[9..]).into_owned()
    }
}

/// Each passed, and counted as a call alone.
#[tokio::test]
async fn a_path_that_others_may_read_otherwise_is_refused() {
    let running = run(POLICY, |_| {}).await;
    for path in [
        "/v1/chat\\completions",
        "/v1/chat%5Ccompletions",
        "/v1/chat/completions;a=b",
        "/v1/chat;a=b/completions",
        "/v1/chat/completions%3Ba=b",
        "/v1/chat/completions%00",
        "/v1/chat/completions%20",
        "/v1/chat/completions%09",
        "/v1/chat/completions%C2%A0",
        "/v1/chat/completions%3F",
        "/v1/chat/completions%23",
        "/v1/chat/completion%2573",
    ] {
        assert_eq!(running.line(&format!("POST {path}")).await, "400", "{path}");
    }
    assert!(running.provider.seen().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn a_method_that_others_may_read_otherwise_is_refused() {
    let running = run(POLICY, |_| {}).await;
    for method in ["post", "Post", "QUERY", "POSTS"] {
        let told = running.line(&format!("{method} {CHAT}")).await;
        assert_eq!(told, "405", "{method}");
    }
    assert!(running.provider.seen().is_empty());
    // It is counted whichever changes something.
    for method in ["POST", "PUT", "PATCH"] {
        running.provider.next(Reply::answer(10, 10));
        assert_eq!(running.line(&format!("{method} {CHAT}")).await, "200");
    }
    running.settles_to("tokens", 1_000 - 60).await;
    running.stop().await;
}

/// Frameworks and proxies go by these in place of the method and the path.
#[tokio::test]
async fn a_header_that_says_another_method_or_path_is_not_forwarded() {
    let running = run(POLICY, |_| {}).await;
    let names = [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
        "x-original-url",
        "x-rewrite-url",
    ];
    let mut request = http::Request::get("/v1/models").header("x-other", "1");
    for name in names {
        request = request.header(name, "POST");
    }
    running.provider.next(Reply::answer(0, 0));
    assert_eq!(running.send(request, "").await.status(), 200);
    let seen = &running.provider.seen()[0];
    assert!(names.iter().all(|name| seen.header(name).is_empty()));
    assert_eq!(seen.header("x-other"), "1");
    running.stop().await;
}
