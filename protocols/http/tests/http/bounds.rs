//! Bodies too long, too slow; requests too many.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use futures_util::stream::unfold;
use http_body::Frame;
use serde_json::json;
use tidegate_http::Settings;
use tidegate_service::Scope;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::support::{House, Reply};

/// A body that does not say how long it is, and may never end.
struct Chunks {
    left: usize,
    hangs: bool,
}

impl HttpBody for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return if self.hangs {
                Poll::Pending
            } else {
                Poll::Ready(None)
            };
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b" ")))))
    }
}

async fn send(house: &House, chunks: Chunks) -> Reply {
    let request = Request::post("/v1/check").header("content-type", "application/json");
    house.send(request.body(Body::new(chunks)).unwrap()).await
}

#[tokio::test]
async fn a_body_has_as_many_bytes_as_are_allowed_and_no_more() {
    let house = House::new();
    let body = json!({"policy": "shady", "key": "k"}).to_string();
    let padded = |bytes: usize| body.clone() + &" ".repeat(bytes - body.len());
    assert_eq!(
        house.post_text("/v1/check", &padded(65_536)).await.status,
        200
    );
    let reply = house.post_text("/v1/check", &padded(65_537)).await;
    let detail = reply.problem(413, "too_large");
    assert_eq!(detail, "the body has more than 65536 bytes");
    // The connection was closed, and the next request on it failed without an answer.
    assert_eq!(reply.header("connection"), Some("close"));
}

#[tokio::test]
async fn a_body_that_does_not_say_its_length_is_cut_off_too() {
    let house = House::new();
    for (left, hangs) in [(65_537, false), (usize::MAX, true)] {
        let reply = send(&house, Chunks { left, hangs }).await;
        reply.problem(413, "too_large");
    }
    let empty = Chunks {
        left: 65_536,
        hangs: false,
    };
    send(&house, empty).await.problem(400, "invalid");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_given_up() {
    let house = House::new();
    let slow = Chunks {
        left: 10,
        hangs: true,
    };
    send(&house, slow).await.problem(408, "timeout");
}

#[tokio::test(start_paused = true)]
async fn one_too_many_is_told_to_come_again() {
    let house = House::with(Settings {
        max_in_flight: 1,
        ..Settings::default()
    });
    let request = json!({"policy": "web", "key": "k"});
    let slow = Chunks {
        left: 10,
        hangs: true,
    };
    let others = async {
        tokio::task::yield_now().await;
        let reply = house.post("/v1/check", request.clone()).await;
        let detail = reply.problem(503, "busy");
        assert!(detail.contains("`max_in_flight`"), "{detail}");
        assert_eq!(reply.header("retry-after"), Some("1"));
        // Whether it lives can be asked all the same.
        assert_eq!(house.get("/healthz").await.status, 200);
        assert_eq!(house.get("/readyz").await.status, 200);
    };
    let (reply, ()) = tokio::join!(send(&house, slow), others);
    reply.problem(408, "timeout");
    assert_eq!(house.post("/v1/check", request).await.status, 200);
}

#[tokio::test]
async fn who_waits_keeps_nobody_from_being_served() {
    let house = House::with(Settings {
        max_in_flight: 1,
        ..Settings::default()
    });
    let id = house.hold("k").await;
    let waits = json!({"policy": "jobs", "key": "k", "wait_ms": 10_000});
    let others = async {
        tokio::task::yield_now().await;
        let release = json!({"policy": "jobs", "key": "k", "lease": id});
        assert_eq!(house.post("/v1/release", release).await.status, 200);
    };
    let (reply, ()) = tokio::join!(house.post("/v1/acquire", waits), others);
    assert_eq!(reply.status, 200);
}

/// Whoever had one token had all of them with it, and the others none.
#[tokio::test(start_paused = true)]
async fn one_token_has_half_of_the_requests_in_flight_at_most() {
    let house = House::with(Settings {
        max_in_flight: 4,
        metrics: Some(Arc::new(|| "tidegate_up 1\n".to_owned())),
        ..Settings::default()
    });
    let scopes = &[Scope::Decide, Scope::Observe][..];
    house.lock(&[("greedy", scopes, &[]), ("modest", scopes, &[])]);
    let slow = || {
        let request = Request::post("/v1/check")
            .header("content-type", "application/json")
            .header("authorization", "Bearer greedy");
        let chunks = Chunks {
            left: 10,
            hangs: true,
        };
        house.send(request.body(Body::new(chunks)).unwrap())
    };
    let request = json!({"policy": "web", "key": "k"});
    let others = async {
        tokio::task::yield_now().await;
        let reply = house.post_as("greedy", "/v1/check", request.clone()).await;
        let detail = reply.problem(503, "busy");
        assert!(detail.starts_with("this token"), "{detail}");
        let reply = house.post_as("modest", "/v1/check", request.clone()).await;
        assert_eq!(reply.status, 200);
        assert_eq!(house.get_as("modest", "/metrics").await.status, 200);
        assert_eq!(house.get("/healthz").await.status, 200);
        // Another one's token is asked for first.
        house
            .get_as("nobody", "/metrics")
            .await
            .problem(401, "unauthenticated");
    };
    let (first, second, ()) = tokio::join!(slow(), slow(), others);
    first.problem(408, "timeout");
    second.problem(408, "timeout");
    let reply = house.post_as("greedy", "/v1/check", request).await;
    assert_eq!(reply.status, 200);
}

/// A connection, and what it was answered last.
struct Connected(DuplexStream);

impl Connected {
    /// Asks with this token; the status, `None` once the connection is closed.
    async fn check(&mut self, token: &str) -> Option<u16> {
        // The limits of each key are its own.
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let key = ASKED.fetch_add(1, Ordering::Relaxed);
        let body = format!(r#"{{"policy": "web", "key": "k{key}"}}"#);
        let request = format!(
            "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(request.as_bytes()).await.ok()?;
        let mut answer = vec![0; 4_096];
        let read = self.0.read(&mut answer).await.ok()?;
        let answer = std::str::from_utf8(&answer[..read]).expect("text");
        let status = answer.strip_prefix("HTTP/1.1 ")?.get(..3)?;
        status.parse().ok()
    }

    async fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]).await, Ok(0) | Err(_))
    }
}

#[tokio::test(start_paused = true)]
async fn one_token_has_half_of_the_connections_at_most() {
    let house = House::with(Settings {
        max_connections: 4,
        ..Settings::default()
    });
    house.lock(&[
        ("greedy", &[Scope::Decide], &[]),
        ("modest", &[Scope::Decide], &[]),
    ]);
    let (connect, connections) = tokio::sync::mpsc::channel(8);
    let connections = unfold(connections, |mut connections| async {
        let stream: Option<DuplexStream> = connections.recv().await;
        Some((stream?, connections))
    });
    tokio::spawn(house.server.clone().serve(connections, pending::<()>()));
    let open = || async {
        let (client, server) = tokio::io::duplex(65_536);
        connect.send(server).await.expect("it serves");
        Connected(client)
    };
    let mut greedy = [open().await, open().await];
    for connection in &mut greedy {
        assert_eq!(connection.check("greedy").await, Some(200));
        assert_eq!(connection.check("greedy").await, Some(200));
    }
    let mut third = open().await;
    assert_eq!(third.check("greedy").await, Some(503));
    assert!(third.is_closed().await, "it takes nobody's place");
    let mut modest = [open().await, open().await];
    for connection in &mut modest {
        assert_eq!(connection.check("modest").await, Some(200));
    }
    // A connection is the share of the one that asked by it last, as a proxy's is.
    drop(modest);
    let [first, _second] = &mut greedy;
    assert_eq!(first.check("modest").await, Some(200));
    let mut again = open().await;
    assert_eq!(again.check("greedy").await, Some(200));
}
