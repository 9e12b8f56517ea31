//! The room that bodies take until their calls are answered.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const SLOTS: &str = "[policy.llm.limits]\nrunning = { concurrency = 40, ttl = '1m' }";

const HEAD: &str =
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-test\r\n";

fn small(settings: &mut Settings) {
    settings.max_held_bytes = 256 * 1024;
    settings.max_body_bytes = 64 * 1024;
}

impl Running {
    async fn write(&self, text: &str) -> TcpStream {
        let mut caller = TcpStream::connect(&self.at).await.unwrap();
        caller.write_all(text.as_bytes()).await.unwrap();
        caller
    }

    async fn has_seen(&self, calls: usize) {
        for _ in 0..2_000 {
            if self.provider.seen().len() == calls {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} of {calls}", self.provider.seen().len());
    }
}

/// Each took as much room as the largest body until it was answered: four shut everybody out.
#[tokio::test]
async fn a_body_without_a_length_takes_the_room_that_it_needs() {
    let running = run(SLOTS, small).await;
    let body = chat(10).to_string();
    let call = format!(
        "{HEAD}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let mut callers = Vec::new();
    for _ in 0..20 {
        running.provider.next(Reply::silence());
        callers.push(running.write(&call).await);
    }
    running.has_seen(20).await;
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.post("/v1/chat/completions", &chat(10)).await.0, 200);
    drop(callers);
}

/// As much as was announced was taken, and none of it had come.
#[tokio::test]
async fn a_body_that_has_not_come_takes_no_room() {
    let running = run(SLOTS, small).await;
    let call = format!("{HEAD}content-length: 65536\r\n\r\n{{");
    let mut callers = Vec::new();
    for _ in 0..20 {
        callers.push(running.write(&call).await);
    }
    // Whoever announces too much is told at once, and stands behind those.
    let call = format!("{HEAD}content-length: 65537\r\n\r\n{{");
    let mut told = [0; 12];
    let mut large = running.write(&call).await;
    large.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 413");
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.post("/v1/chat/completions", &chat(10)).await.0, 200);
    drop(callers);
}

/// One caller's large bodies shut all others out.
#[tokio::test]
async fn the_bodies_of_one_caller_leave_room_for_those_of_others() {
    let running = run(SLOTS, small).await;
    let large = |kib: usize| {
        let mut call = chat(10);
        call["input"] = "x".repeat(kib * 1_024).into();
        call.to_string()
    };
    let call = large(60);
    let call = format!("{HEAD}content-length: {}\r\n\r\n{call}", call.len());
    let mut callers = Vec::new();
    for _ in 0..2 {
        running.provider.next(Reply::silence());
        callers.push(running.write(&call).await);
    }
    running.has_seen(2).await;
    // Half of all is taken. Who has written the whole of a body is told so.
    let request = http::Request::post("/v1/chat/completions");
    let refused = running.send(request, large(60)).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    running.provider.next(Reply::answer(10, 10));
    let request = http::Request::post("/v1/chat/completions");
    let other = request.header("authorization", "Bearer sk-other");
    assert_eq!(running.send(other, large(60)).await.status(), 200);
    drop(callers);
}

/// A connection beyond the most was told nothing of when to come again.
#[tokio::test]
async fn a_connection_too_many_is_told_to_come_again() {
    let running = run(SLOTS, |settings| settings.max_connections = 1).await;
    let held = running.write("GET").await;
    let mut told = String::new();
    let mut refused = running.write("GET").await;
    refused.read_to_string(&mut told).await.unwrap();
    assert!(told.starts_with("HTTP/1.1 503"), "{told}");
    assert!(told.contains("\r\nretry-after: 1\r\n"), "{told}");
    drop(held);
}

/// All of it had to come within 30 s.
#[tokio::test]
async fn a_body_that_comes_steadily_is_waited_for() {
    let running = run(SLOTS, |_| {}).await;
    running.provider.next(Reply::answer(10, 10));
    let mut call = chat(10);
    call["input"] = "x".repeat(600 * 1_024).into();
    let call = call.to_string();
    let head = format!("{HEAD}content-length: {}\r\n\r\n", call.len());
    let mut caller = running.write(&head).await;
    // Time stands still: it goes on by itself only where nothing blocks.
    tokio::time::pause();
    let (end, ended) = std::sync::mpsc::sync_channel::<()>(0);
    let blocks = tokio::task::spawn_blocking(move || ended.recv());
    for piece in call.as_bytes().chunks(call.len().div_ceil(5)) {
        caller.write_all(piece).await.unwrap();
        // Whoever came later is answered: what came before was read.
        let other = "TRACE / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let mut other = running.write(other).await;
        other.read_to_end(&mut Vec::new()).await.unwrap();
        tokio::time::advance(Duration::from_secs(20)).await;
    }
    let mut told = [0; 12];
    caller.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 200");
    drop(end);
    blocks.await.unwrap().unwrap_err();
}
