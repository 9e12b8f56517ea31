//! Usage that a provider says behind its answer.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// They were dropped unread.
#[tokio::test]
async fn usage_that_comes_behind_the_answer_is_charged() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let provider = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut call = Vec::new();
        while !call.ends_with(b"}") {
            stream.read_buf(&mut call).await.unwrap();
        }
        let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\
            x-amzn-bedrock-input-token-count: 10\r\nx-amzn-bedrock-output-token-count: 90\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream
    });
    let to = format!("http://{at}/");
    let running = run(POLICY, |settings| {
        settings.upstreams[0].base = to.parse().unwrap();
    })
    .await;
    let (status, _, body) = running.post("/v1/chat/completions", &chat(500)).await;
    assert_eq!((status.as_u16(), body), (200, json!({})));
    running.settles_to("tokens", 900).await;
    running.stop().await;
    drop(provider.await.unwrap());
}
