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
