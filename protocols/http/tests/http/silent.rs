//! Clients that do not say what they want. Time stands still but for them.

use std::time::Duration;

use futures_util::stream::{iter, pending, poll_fn};
use futures_util::{Stream, StreamExt};
use tidegate_http::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::support::House;

/// One connection, and no other.
fn one(server: DuplexStream) -> impl Stream<Item = DuplexStream> {
    iter([server]).chain(pending())
}

/// What comes back to a client that says `said` and no more, and after how long.
async fn answer_to(said: &str) -> (String, Duration) {
    let house = House::new();
    let (mut client, server) = tokio::io::duplex(65_536);
    let serving = house
        .server
        .clone()
        .serve(one(server), std::future::pending());
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

#[tokio::test]
async fn one_connection_too_many_is_told_so_and_a_place_is_given_on() {
    let house = House::with(Settings {
        max_connections: 1,
        ..Settings::default()
    });
    let (accept, mut accepted) = tokio::sync::mpsc::channel(4);
    let connections = poll_fn(move |context| accepted.poll_recv(context));
    let serving = house
        .server
        .clone()
        .serve(connections, std::future::pending());
    tokio::spawn(serving);
    let connect = async || {
        let (client, server) = tokio::io::duplex(65_536);
        accept.send(server).await.unwrap();
        client
    };
    let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let first = connect().await;
    let mut answer = String::new();
    connect().await.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 503 Service Unavailable"),
        "{head}"
    );
    assert!(head.contains("retry-after: 1"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["code"], "busy");
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("`max_connections`"), "{detail}");
    drop(first);
    loop {
        let mut next = connect().await;
        // Whoever comes before the place is free has not read it.
        let _ = next.write_all(request).await;
        let mut answer = String::new();
        next.read_to_string(&mut answer).await.unwrap();
        if answer.starts_with("HTTP/1.1 200 OK") {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_of_http2_that_does_not_say_that_it_lives_is_let_go() {
    let hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let house = House::new();
    let (mut client, server) = tokio::io::duplex(65_536);
    let serving = house
        .server
        .clone()
        .serve(one(server), std::future::pending());
    tokio::spawn(serving);
    let begun = tokio::time::Instant::now();
    client.write_all(hello.as_bytes()).await.unwrap();
    let mut told = Vec::new();
    let _ = client.read_to_end(&mut told).await;
    assert!(
        (60..=61).contains(&begun.elapsed().as_secs()),
        "{:?}",
        begun.elapsed()
    );
    // Its SETTINGS came first: so many requests at once (3), so long a head (6).
    let length = usize::from(told[2]);
    let pairs: Vec<_> = told[9..9 + length].chunks(6).collect();
    assert!(pairs.contains(&&[0, 3, 0, 0, 1, 0][..]), "{pairs:?}");
    assert!(pairs.contains(&&[0, 6, 0, 0, 0x80, 0][..]), "{pairs:?}");
}
