//! Requests as traces: what a collector is told, and what it costs if there is none.
#![cfg(unix)]

mod collector;
#[path = "../secure/support.rs"]
#[allow(dead_code, reason = "the tests of TLS use the rest")]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use collector::{Collector, Told};
use support::{Server, folder};
use tidegate_grpc::proto;
use tidegate_grpc::proto::tidegate_client::TidegateClient;

const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 2, per = '400d' }\n\
                      [policy.slots.limits]\nrunning = { concurrency = 1, ttl = '1h' }\n";

/// What a caller says of its own trace, as the W3C has it: kept, or not.
const KEPT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const NOT_KEPT: &str = "00-11112222333344445555666677778888-00f067aa0ba902b7-00";

/// The status of the answer over HTTP.
fn http(at: SocketAddr, request: &str, head: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(at).expect("it listens");
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("sent");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("text");
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    status.unwrap_or_else(|| panic!("{line}"))
}

fn check(server: &Server, key: &str, traceparent: &str) -> u16 {
    let head = match traceparent {
        "" => String::new(),
        trace => format!("traceparent: {trace}\r\n"),
    };
    let body = format!("{{\"policy\":\"chat\",\"key\":\"{key}\"}}");
    http(server.http, "POST /v1/check", &head, &body)
}

/// Says this over RESP, and reads a line.
fn resp(server: &Server, said: &str) -> String {
    let mut stream = TcpStream::connect(server.resp).expect("it listens");
    stream.write_all(said.as_bytes()).expect("sent");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("text");
    line
}

/// A check over gRPC, as part of a caller's trace.
fn grpc(server: &Server, policy: &str, key: &str) -> Result<bool, tonic::Code> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let url = format!("http://{}", server.grpc);
        let mut client = TidegateClient::connect(url).await.expect("it listens");
        let mut request = tonic::Request::new(proto::CheckRequest {
            policy: policy.to_owned(),
            key: key.as_bytes().to_vec().into(),
            ..Default::default()
        });
        let trace = KEPT.parse().expect("a word");
        request.metadata_mut().insert("traceparent", trace);
        let answer = client.check(request).await;
        answer
            .map(|answer| answer.into_inner().admitted)
            .map_err(|status| status.code())
    })
}

/// Ends it as an operator does; what is left is sent, and everyone was answered.
fn stopped(server: Server) -> String {
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, 0, "{said}");
    said
}

fn tracing(collector: &Collector, more: &[&str]) -> (tempfile::TempDir, Server) {
    let folder = folder(POLICY);
    let arguments = [&["--otlp", &collector.url], more].concat();
    let server = Server::start(folder.path(), &arguments);
    (folder, server)
}

/// Protocol, verb, policy and outcome.
fn words(span: &Told) -> [&str; 4] {
    let word = |name: &str| span.says(name).unwrap_or("-");
    ["protocol", "verb", "policy", "outcome"].map(|name| word(&format!("tidegate.{name}")))
}

#[test]
fn each_request_over_each_protocol_is_a_span_of_its_callers_trace() {
    let collector = Collector::start();
    let (_folder, server) = tracing(&collector, &[]);
    for status in [200, 200, 429] {
        assert_eq!(check(&server, "secret", KEPT), status);
    }
    assert_eq!(http(server.http, "GET /healthz", "", ""), 200);
    assert_eq!(http(server.http, "GET /nowhere", "", ""), 404);
    assert_eq!(grpc(&server, "chat", "secret"), Ok(false));
    assert_eq!(
        grpc(&server, "nowhere", "secret"),
        Err(tonic::Code::NotFound)
    );
    assert!(resp(&server, "TG.CHECK chat other\r\n").starts_with('*'));
    assert!(resp(&server, "TG.ACQUIRE slots k WAIT 60000\r\n").starts_with('*'));
    stopped(server);
    let mut told = collector.told();
    // A span may end after its answer was read.
    told.sort_by_key(|span| words(span).map(str::to_owned));
    let all: Vec<_> = told.iter().map(words).collect();
    let expected = [
        ["grpc", "Check", "-", "not_found"],
        ["grpc", "Check", "chat", "refused"],
        ["http", "check", "chat", "admitted"],
        ["http", "check", "chat", "admitted"],
        ["http", "check", "chat", "refused"],
        ["resp", "TG.ACQUIRE", "slots", "admitted"],
        ["resp", "TG.CHECK", "chat", "admitted"],
    ];
    assert_eq!(all, expected, "{told:#?}");
    for span in &told {
        assert_eq!(
            (&*span.service, Some(&*span.name)),
            ("tidegate", span.says("tidegate.verb"))
        );
        // Nobody asked for keys, whatever they are called.
        assert!(!format!("{span:?}").contains("secret"), "{span:?}");
        let is_the_callers = span.trace == KEPT[3..35] && span.parent == KEPT[36..52];
        let has_a_caller = words(span)[0] != "resp";
        assert_eq!(is_the_callers, has_a_caller, "{span:?}");
    }
    assert_eq!(told[4].says("http.response.status_code"), Some("429"));
}

#[test]
fn keys_are_told_to_who_asks_for_them() {
    let collector = Collector::start();
    let (_folder, server) = tracing(&collector, &["--otlp-keys"]);
    assert_eq!(check(&server, "alice", ""), 200);
    let many = r#"{"checks":[{"policy":"chat","key":"a"},{"policy":"chat","key":"b"}]}"#;
    assert_eq!(http(server.http, "POST /v1/check-many", "", many), 200);
    stopped(server);
    let told = collector.told();
    let keys: Vec<_> = told.iter().map(|span| span.says("tidegate.key")).collect();
    // Several asks in one request have no one key.
    assert_eq!(keys, [Some("alice"), None]);
    assert_eq!(words(&told[1]), ["http", "check-many", "-", "-"]);
}

#[test]
fn one_trace_in_so_many_is_kept_but_for_those_that_callers_keep() {
    let collector = Collector::start();
    let (_folder, server) = tracing(&collector, &["--otlp-one-in", "4000000000"]);
    for number in 0..50 {
        assert_eq!(check(&server, &number.to_string(), ""), 200);
    }
    assert_eq!(check(&server, "kept", KEPT), 200);
    assert_eq!(check(&server, "not kept", NOT_KEPT), 200);
    stopped(server);
    let traces: Vec<_> = collector
        .told()
        .into_iter()
        .map(|span| span.trace)
        .collect();
    assert_eq!(traces, [&KEPT[3..35]]);
}

#[test]
fn a_collector_that_is_away_costs_nobody_anything() {
    // It is there, and says nothing; or it is not there at all.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_at = silent.local_addr().expect("an address");
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    let gone_at = gone.local_addr().expect("an address");
    drop(gone);
    for at in [silent_at, gone_at] {
        let folder = folder(POLICY);
        let url = format!("http://{at}");
        let server = Server::start(folder.path(), &["--otlp", &url]);
        // More than the queue holds.
        let mut stream = TcpStream::connect(server.resp).expect("it listens");
        let mut answers = BufReader::new(stream.try_clone().expect("the same"));
        for _ in 0..60 {
            stream
                .write_all("CL.THROTTLE k 9 1 60\r\n".repeat(100).as_bytes())
                .expect("sent");
            for _ in 0..600 {
                let mut line = String::new();
                assert!(
                    answers.read_line(&mut line).expect("text") > 0,
                    "it has hung up"
                );
            }
        }
        drop((stream, answers));
        let said = stopped(server);
        assert!(
            said.matches("the collector takes no traces").count() <= 1,
            "{said}"
        );
    }
}

#[test]
fn what_is_no_collector_is_told_at_the_start() {
    let folder = folder(POLICY);
    let said = support::refusal(folder.path(), &["--otlp", "127.0.0.1:4318"]);
    assert!(
        said.contains("is no collector; write `otlp` as http://"),
        "{said}"
    );
    let file = format!("[server]\notlp = 'redis://x'\notlp_one_in = 0\n{POLICY}");
    std::fs::write(folder.path().join("tidegate.toml"), file).expect("written");
    let said = support::refusal(folder.path(), &[]);
    assert!(said.contains("tidegate.toml:3"), "{said}");
}
