//! Bodies too long, too slow; requests too many.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use http_body::Frame;
use serde_json::json;
use tidegate_http::Settings;

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
        reply.problem(503, "busy");
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
