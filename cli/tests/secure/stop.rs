//! How it stops: nobody new, everyone inside answered, everything written.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use tidegate_grpc::proto::tidegate_client::TidegateClient;
use tidegate_grpc::proto::{AcquireRequest, CheckRequest};

use crate::support::{POLICY, Server, folder, serve, text, wait_for};

const SLOT: &str = "{\"policy\":\"chat\",\"key\":\"k\",\"wait_ms\":60000}";

fn connect(at: std::net::SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    stream
}

fn post(path: &str, body: &str, more: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{more}\
         Content-Length: {}\r\n\r\n",
        body.len()
    )
}

/// All that still comes.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is cut off has said what it has said.
    let _ = stream.read_to_end(&mut bytes);
    text(&bytes)
}

/// Half a request whose head was read: the server has said `100 Continue`.
fn half_a_request(server: &Server, body: &str) -> TcpStream {
    let mut stream = connect(server.http);
    let head = post("/v1/check", body, "Expect: 100-continue\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100 Continue"));
    stream
}

fn waiting(server: &Server) -> usize {
    let url = format!("http://{}/metrics", server.http);
    let metrics = text(&server.curl(&[&url]).stdout);
    let line = metrics
        .lines()
        .find(|line| line.starts_with("tidegate_waiting{policy=\"chat\"}"));
    let count = line.and_then(|line| line.rsplit(' ').next());
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn wait_over_grpc(server: &Server) -> std::thread::JoinHandle<tonic::Code> {
    let at = format!("http://{}", server.grpc);
    let request = AcquireRequest {
        request: Some(CheckRequest {
            policy: "chat".into(),
            key: b"k".to_vec().into(),
            ..Default::default()
        }),
        wait_ms: Some(60_000),
        ..Default::default()
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut client = TidegateClient::connect(at).await.unwrap();
            client.acquire(request).await.unwrap_err().code()
        })
    })
}

#[test]
fn who_waits_at_the_stop_is_answered_at_every_listener() {
    let folder = folder(POLICY);
    let server = Server::start(folder.path(), &[]);
    let held = server.redis(&["TG.ACQUIRE", "chat", "k"]);
    assert!(text(&held.stdout).contains("lease"), "{held:?}");
    let mut http = connect(server.http);
    let request = post("/v1/acquire", SLOT, "") + SLOT;
    http.write_all(request.as_bytes()).unwrap();
    let mut resp = connect(server.resp);
    let request = b"TG.ACQUIRE chat k WAIT 60000\r\n";
    resp.write_all(request).unwrap();
    let grpc = wait_over_grpc(&server);
    wait_for(|| waiting(&server) == 3);
    server.signal("TERM");
    let answer = rest(http);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    let answer = rest(resp);
    assert!(answer.starts_with("-UNAVAILABLE"), "{answer}");
    assert_eq!(grpc.join().unwrap(), tonic::Code::Unavailable);
    assert_eq!(server.ended().0, 0);
}

#[test]
fn a_request_in_flight_at_the_stop_is_answered() {
    let folder = folder(POLICY);
    let server = Server::start(folder.path(), &[]);
    let body = "{\"policy\":\"chat\",\"key\":\"k\",\"amounts\":{\"running\":0}}";
    let mut stream = half_a_request(&server, body);
    server.signal("INT");
    wait_for(|| TcpStream::connect(server.http).is_err());
    stream.write_all(body.as_bytes()).unwrap();
    let answer = rest(stream);
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(server.ended().0, 0);
}

#[test]
fn a_client_that_never_ends_holds_the_stop_up_for_its_time_alone() {
    let folder = folder(&format!("[server]\nshutdown_timeout = '200ms'\n{POLICY}"));
    let server = Server::start(folder.path(), &[]);
    let stream = half_a_request(&server, "{}");
    server.signal("TERM");
    let (code, said) = server.ended();
    assert!(
        said.contains("did not take their answers in time"),
        "{said}"
    );
    assert_eq!(code, 0);
    drop(stream);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = folder(&format!("[server]\nshutdown_timeout = '1h'\n{POLICY}"));
    let server = Server::start(folder.path(), &[]);
    let stream = half_a_request(&server, "{}");
    server.signal("TERM");
    wait_for(|| TcpStream::connect(server.http).is_err());
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(
        (code, said.contains("told to stop again")),
        (1, true),
        "{said}"
    );
    drop(stream);
}

#[test]
fn a_stop_writes_what_the_store_was_not_told_to_write() {
    let folder = folder(POLICY);
    let store = ["--store", "file:state?sync=never"];
    let start = || {
        let mut command = serve(folder.path());
        command.args(["--config", "tidegate.toml"]).args(store);
        Server::spawn(folder.path(), &mut command)
    };
    let server = start();
    for _ in 0..7 {
        server.redis(&["TG.CHECK", "chat", "k", "AMOUNT", "running", "0"]);
    }
    server.signal("TERM");
    assert_eq!(server.ended().0, 0);
    let server = start();
    let left = text(&server.redis(&["TG.PEEK", "chat", "k"]).stdout);
    assert!(left.contains("993"), "{left}");
}

/// As systemd hears it.
#[test]
fn the_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let folder = folder(POLICY);
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut command = serve(folder.path());
    command.env("NOTIFY_SOCKET", &path);
    let server = Server::spawn(folder.path(), command.args(crate::support::CONFIG));
    let told = || {
        let mut bytes = [0; 64];
        let length = manager.recv(&mut bytes).unwrap();
        text(&bytes[..length])
    };
    assert_eq!(told(), "READY=1");
    server.signal("TERM");
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(server.ended().0, 0);
}
