//! A server on a real socket.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tidegate_http::Listener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::House;

/// Nothing takes so long, on however busy a machine, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, until it is stopped.
pub struct Live {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Live {
    pub async fn start(house: &House) -> Self {
        let listener = bind().await;
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { _ = stopped.await };
        let connections = Listener::from(listener).connections();
        let serving = house.server.clone().serve(connections, stopped);
        let running = tokio::spawn(serving);
        Self {
            address,
            stop,
            running,
        }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Stops it, and waits until it has.
    pub async fn stop(self) {
        _ = self.stop.send(());
        let stopped = tokio::time::timeout(PATIENCE, self.running);
        stopped.await.expect("it stops").unwrap();
    }
}

/// A free port below those that the system hands out to clients.
pub async fn bind() -> TcpListener {
    /// A port is used once, so that nobody meets a server of another test.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 5_000) as u16;
    while let Some(port) = first.checked_add(NEXT.fetch_add(1, Ordering::Relaxed)) {
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
            return listener;
        }
    }
    panic!("no port is free");
}

/// An HTTP/1.1 request with a JSON body.
pub fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads until what came contains `end`.
pub async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut chunk = [0; 4_096];
    while !text.contains(end) {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut chunk));
        match read.await.expect("something comes").unwrap() {
            0 => break,
            count => text.push_str(&String::from_utf8_lossy(&chunk[..count])),
        }
    }
    text
}

/// Waits until `done` says so.
async fn eventually(done: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not come to pass");
}

/// How many wait for `jobs`.
fn waiting(house: &House) -> u64 {
    let caller = house.service.enter(None).unwrap();
    let scope = tidegate_service::Scope::Observe;
    let jobs = house.service.policy(&caller, scope, "jobs").unwrap();
    jobs.set().statistics().waiting
}

const WAIT: &str = r#"{"policy":"jobs","key":"k","wait_ms":60000}"#;

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let house = House::new();
    let live = Live::start(&house).await;
    let mut client = live.connect().await;
    let request = post("/v1/check", r#"{"policy":"web","key":"k"}"#);
    client
        .write_all(request.repeat(4).as_bytes())
        .await
        .unwrap();
    let text = read_until(&mut client, r#""code":"refused""#).await;
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3);
    assert_eq!(text.matches("HTTP/1.1 429 Too Many Requests").count(), 1);
    drop(client);
    live.stop().await;
}

/// A client sends this, a request that waits first, and goes: the next one gets its turn.
async fn gives_the_place_back(sent: String) {
    let house = House::new();
    let live = Live::start(&house).await;
    let id = house.hold("k").await;
    let mut gone = live.connect().await;
    gone.write_all(sent.as_bytes()).await.unwrap();
    eventually(|| waiting(&house) == 1).await;
    let mut next = live.connect().await;
    next.write_all(post("/v1/acquire", WAIT).as_bytes())
        .await
        .unwrap();
    eventually(|| waiting(&house) == 2).await;
    drop(gone);
    eventually(|| waiting(&house) == 1).await;
    let release = serde_json::json!({"policy": "jobs", "key": "k", "lease": id});
    house.post("/v1/release", release).await;
    let text = read_until(&mut next, "}}").await;
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    drop(next);
    live.stop().await;
}

#[tokio::test]
async fn who_disconnects_while_waiting_gives_the_place_back() {
    gives_the_place_back(post("/v1/acquire", WAIT)).await;
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

/// Behind a request that waits a next one had been sent: nobody looked whether the client was
/// there, and what was granted to it was gone for its whole `ttl`.
#[tokio::test]
async fn who_disconnects_with_a_next_request_under_way_gives_the_place_back() {
    gives_the_place_back(post("/v1/acquire", WAIT) + HEALTH).await;
}

#[tokio::test]
async fn what_is_sent_behind_a_request_that_waits_is_answered_after_it() {
    let house = House::new();
    let live = Live::start(&house).await;
    let id = house.hold("k").await;
    let mut client = live.connect().await;
    let both = post("/v1/acquire", WAIT) + HEALTH;
    client.write_all(both.as_bytes()).await.unwrap();
    eventually(|| waiting(&house) == 1).await;
    // More than is read ahead: the rest stays with the system until then.
    let (mut reads, mut writes) = client.into_split();
    let many = HEALTH.repeat(4_000);
    let sends = writes.write_all(many.as_bytes());
    let reads = async {
        let release = serde_json::json!({"policy": "jobs", "key": "k", "lease": id});
        house.post("/v1/release", release).await;
        let (mut text, mut chunk) = (String::new(), [0; 64 * 1024]);
        while text.matches("HTTP/1.1 200 OK").count() < 4_002 {
            let read = tokio::time::timeout(PATIENCE, reads.read(&mut chunk));
            let count = read.await.expect("something comes").unwrap();
            assert!(count > 0, "it ended after {} bytes", text.len());
            text.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
        text
    };
    let (sent, text) = tokio::join!(sends, reads);
    sent.unwrap();
    let first = text.split("HTTP/1.1").nth(1).unwrap();
    assert!(first.contains(r#""lease""#), "{first}");
    live.stop().await;
}

#[tokio::test]
async fn who_waits_while_the_server_stops_is_answered() {
    let house = House::new();
    let live = Live::start(&house).await;
    house.hold("k").await;
    let mut idle = live.connect().await;
    let mut waits = live.connect().await;
    waits
        .write_all(post("/v1/acquire", WAIT).as_bytes())
        .await
        .unwrap();
    eventually(|| waiting(&house) == 1).await;
    let address = live.address;
    let service = house.service.clone();
    let closing = async {
        eventually(|| std::net::TcpStream::connect(address).is_err()).await;
        service.close();
        read_until(&mut waits, r#""code":"unavailable""#).await
    };
    let ((), text) = tokio::join!(live.stop(), closing);
    assert!(
        text.starts_with("HTTP/1.1 503 Service Unavailable"),
        "{text}"
    );
    assert_eq!(idle.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_head_that_is_too_long_or_no_http_ends_the_connection() {
    let house = House::new();
    let live = Live::start(&house).await;
    let long = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(40_000));
    for (head, status) in [(long.as_str(), "431"), ("hello there\r\n\r\n", "400")] {
        let mut client = live.connect().await;
        // It may be closed before all of it was sent.
        _ = client.write_all(head.as_bytes()).await;
        let text = read_until(&mut client, "\r\n\r\n").await;
        assert!(text.is_empty() || text.contains(status), "{text}");
    }
    live.stop().await;
}
