//! Clients that do not say what they want. Time stands still but for them.

use std::time::Duration;

use axum::serve::Listener;
use tidegate_http::serve;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::support::House;

/// One connection, and no other.
struct One(Option<DuplexStream>);

impl Listener for One {
    type Io = DuplexStream;
    type Addr = ();

    async fn accept(&mut self) -> (DuplexStream, ()) {
        match self.0.take() {
            Some(io) => (io, ()),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What comes back to a client that says `said` and no more, and after how long.
async fn answer_to(said: &str) -> (String, Duration) {
    let house = House::new();
    let (mut client, server) = tokio::io::duplex(65_536);
    let serving = serve(
        One(Some(server)),
        house.router.clone(),
        std::future::pending(),
    );
    tokio::spawn(serving);
    let begun = tokio::time::Instant::now();
    client.write_all(said.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    (answer, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_let_go() {
    for said in [
        "",
        "GET",
        "PRI * HTTP/2.0",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX-",
    ] {
        let (_, after) = answer_to(said).await;
        assert!((30..=61).contains(&after.as_secs()), "{said}: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_lies_idle_is_closed() {
    let (answer, after) = answer_to("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!((30..=61).contains(&after.as_secs()), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_answered_and_the_connection_closed() {
    let head = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 10\r\n\r\n{";
    let (answer, after) = answer_to(head).await;
    assert!(
        answer.starts_with("HTTP/1.1 408 Request Timeout"),
        "{answer}"
    );
    assert_eq!(after.as_secs(), 10);
}
