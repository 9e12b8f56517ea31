//! A provider that answers as it is told, over real connections.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// What came in.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: http::Method,
    pub path: String,
    pub body: String,
    headers: HeaderMap,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub fn all(&self, name: &str) -> Vec<&str> {
        let all = self.headers.get_all(name).iter();
        all.map(|value| value.to_str().unwrap()).collect()
    }
}

type Event = Result<String, std::io::Error>;

/// What is answered.
pub enum Reply {
    Answer(u16, Vec<(&'static str, String)>, Bytes),
    Stream(
        mpsc::Receiver<Event>,
        mpsc::Sender<Event>,
        u16,
        &'static str,
    ),
    Silence,
}

impl Reply {
    pub fn answer(prompt: u64, completion: u64) -> Self {
        let usage =
            json!({ "usage": { "prompt_tokens": prompt, "completion_tokens": completion } });
        Self::Answer(200, vec![], usage.to_string().into())
    }

    pub fn refusal(status: u16, body: &str) -> Self {
        Self::Answer(status, vec![], Bytes::copy_from_slice(body.as_bytes()))
    }

    pub fn stream() -> Self {
        let (send, receive) = mpsc::channel(1);
        Self::Stream(receive, send, 200, "text/event-stream; charset=utf-8")
    }

    /// One object that comes in pieces.
    pub fn pieces() -> Self {
        let (send, receive) = mpsc::channel(1);
        Self::Stream(receive, send, 200, "application/json")
    }

    /// A refusal whose body does not come.
    pub fn endless(status: u16) -> Self {
        let (send, receive) = mpsc::channel(1);
        Self::Stream(receive, send, status, "application/json")
    }

    pub fn silence() -> Self {
        Self::Silence
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Answer(_, headers, _) = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

/// The far end of a stream.
pub struct Events(Option<mpsc::Sender<Event>>);

impl Events {
    pub async fn send(&self, event: String) {
        self.0.as_ref().unwrap().send(Ok(event)).await.unwrap();
    }

    /// Until nobody takes them any more.
    pub async fn gone(&self) {
        self.0.as_ref().unwrap().closed().await;
    }

    pub async fn break_off(self) {
        let broken = std::io::Error::other("the provider has died");
        self.0.as_ref().unwrap().send(Err(broken)).await.unwrap();
    }
}

#[derive(Clone)]
pub struct Provider {
    pub at: std::net::SocketAddr,
    state: Arc<Mutex<(VecDeque<Reply>, Vec<Seen>)>>,
}

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

impl Provider {
    pub async fn begin() -> Self {
        Self::begin_at("127.0.0.1:0".parse().unwrap()).await
    }

    pub async fn begin_at(at: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let at = listener.local_addr().unwrap();
        let provider = Self {
            at,
            state: Arc::default(),
        };
        let answering = provider.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let provider = answering.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let provider = provider.clone();
                        async move { Ok::<_, Infallible>(provider.answer(request).await) }
                    });
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        provider
    }

    /// What it answers next, after what it was told before.
    pub fn next(&self, mut reply: Reply) -> Events {
        let events = match &mut reply {
            Reply::Stream(_, send, ..) => Some(send.clone()),
            _ => None,
        };
        self.state.lock().unwrap().0.push_back(reply);
        Events(events)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().1.clone()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let reply = {
            let mut state = self.state.lock().unwrap();
            state.1.push(Seen {
                method: head.method,
                path: head.uri.to_string(),
                body: String::from_utf8_lossy(&body).into_owned(),
                headers: head.headers,
            });
            state.0.pop_front().expect("a call that nobody expected")
        };
        match reply {
            Reply::Silence => std::future::pending().await,
            Reply::Answer(status, headers, body) => {
                let mut response = Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                let body = Full::from(body).map_err(|never| match never {});
                response.body(body.boxed_unsync()).unwrap()
            }
            Reply::Stream(receive, send, status, kind) => {
                drop(send);
                let stream = futures_util::stream::unfold(receive, |mut receive| async move {
                    let event = receive.recv().await?;
                    Some((event.map(|event| Frame::data(Bytes::from(event))), receive))
                });
                Response::builder()
                    .status(status)
                    .header("content-type", kind)
                    .body(BodyExt::boxed_unsync(StreamBody::new(Box::pin(stream))))
                    .unwrap()
            }
        }
    }
}

/// A provider that answers every call with these bytes, behind which the connection is gone.
pub async fn says(answer: String) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let is_whole = |request: &[u8]| match request.starts_with(b"GET") {
                true => request.ends_with(b"\r\n\r\n"),
                false => request.ends_with(b"}"),
            };
            while !is_whole(&request) {
                stream.read_buf(&mut request).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    at
}
