//! Load of others' making, so many requests and no more: none fails, and what
//! was admitted is what the limit says, by the client's count and by the server's.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::server::{Server, folder};
use crate::tools;

/// One that is soon spent, and one that nobody here spends. Nothing comes back.
const POLICIES: &str = "
[policy.narrow.limits]
calls = { calls = 500, per = '400d', algorithm = 'first_use_window' }

[policy.wide.limits]
calls = { calls = 1_000_000, per = '400d', algorithm = 'first_use_window' }
";
const NARROW: u64 = 500;
const WIDE: u64 = 1_000_000;

/// How often each client asks, of one key.
const ASKS: u64 = 4_000;

struct House {
    folder: TempDir,
    server: Server,
}

impl House {
    fn new() -> Self {
        let folder = folder(POLICIES);
        let server = Server::start(folder.path(), &["--store", "memory:"]);
        Self { folder, server }
    }

    /// What is left of `policy`, by the server's own word.
    fn remaining(&self, policy: &str) -> u64 {
        let url = format!("http://{}", self.server.http);
        let mut peek = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        peek.args(["peek", "--json", "--server", &url]);
        peek.args(["--policy", policy, "--key", "hot"]);
        let output = peek.output().expect("it runs");
        let said = serde_json::from_slice(&output.stdout);
        let said: Value = said.unwrap_or_else(|_| panic!("{}", tools::said(&output)));
        let standing = &said["limits"]["calls"];
        assert_eq!(standing["debt"].as_u64().unwrap_or(0), 0, "{said}");
        standing["remaining"].as_u64().expect("a number")
    }

    fn body(policy: &str) -> String {
        format!("{{\"policy\":\"{policy}\",\"key\":\"hot\"}}")
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    /// `h2load` with these arguments: what it says.
    fn h2load(&self, data: &PathBuf, more: &[&str], url: &str) -> Option<String> {
        let program = tools::on_path("h2load", "nghttp2-client")?;
        let mut h2load = Command::new(program);
        h2load.args(["-n", &ASKS.to_string(), "-c", "10", "-m", "10", "-d"]);
        Some(said(h2load.arg(data).args(more).arg(url).output()))
    }
}

fn said(output: std::io::Result<Output>) -> String {
    let output = output.expect("it runs");
    let said = tools::said(&output);
    assert!(output.status.success(), "{said}");
    said
}

/// The number before a word.
fn before(text: &str, word: &str) -> u64 {
    let (text, _) = text.split_once(word).unwrap_or_else(|| panic!("{text}"));
    let number = text.rsplit([' ', '\n']).next().expect("a word");
    number.parse().unwrap_or_else(|_| panic!("{word}: {text}"))
}

#[test]
fn h2load_is_answered_over_both_versions_of_http() {
    let json = ["-H", "content-type: application/json"];
    for versions in [&json[..], &[json[0], json[1], "--h1"]] {
        let house = House::new();
        let url = format!("http://{}/v1/check", house.server.http);
        for (policy, admitted, left) in [("wide", ASKS, WIDE - ASKS), ("narrow", NARROW, 0)] {
            let body = house.file("body", House::body(policy).as_bytes());
            let Some(said) = house.h2load(&body, versions, &url) else {
                return;
            };
            let counted = [" done,", " errored,", " timeout", " 2xx", " 4xx", " 5xx"];
            let counted = counted.map(|word| before(&said, word));
            let expected = [ASKS, 0, 0, admitted, ASKS - admitted, 0];
            assert_eq!(counted, expected, "{policy}: {said}");
            assert_eq!(house.remaining(policy), left);
        }
    }
}

#[test]
fn h2load_is_answered_over_grpc() {
    let house = House::new();
    let url = format!("http://{}/tidegate.v1.Tidegate/Check", house.server.grpc);
    for (policy, left) in [("wide", WIDE - ASKS), ("narrow", 0)] {
        // policy = 1, key = 2, in a frame of gRPC's.
        let named = [&[10, policy.len() as u8], policy.as_bytes()].concat();
        let message = [&named[..], b"\x12\x03hot"].concat();
        let frame = [&[0, 0, 0, 0, message.len() as u8], &message[..]].concat();
        let message = house.file("message", &frame);
        let head = ["-H", "content-type: application/grpc", "-H", "te: trailers"];
        let Some(said) = house.h2load(&message, &head, &url) else {
            return;
        };
        // A refusal is an answer: the status says whether it was given.
        let well = [" done,", " succeeded,", " 2xx"].map(|word| before(&said, word));
        assert_eq!(well, [ASKS; 3], "{said}");
        assert_eq!(house.remaining(policy), left);
    }
}

#[test]
fn wrk_is_answered_and_counts_what_was_admitted() {
    let Some(wrk) = tools::on_path("wrk", "wrk") else {
        return;
    };
    let house = House::new();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/clients/scripts/check.lua"
    );
    let url = format!("http://{}/v1/check", house.server.http);
    for (policy, limit) in [("wide", WIDE), ("narrow", NARROW)] {
        // Two threads, each with its half of the requests; `wrk` is there for all of
        // the time, whether it still asks or not.
        let mut wrk = Command::new(&wrk);
        wrk.args(["-t", "2", "-c", "10", "-d", "2s", "--timeout", "60s"]);
        wrk.args(["-s", script, &url, "--", &House::body(policy)]);
        let said = said(wrk.output());
        let after = |word: &str| {
            let (_, rest) = said.split_once(word).unwrap_or_else(|| panic!("{said}"));
            let number = rest.split_whitespace().next().expect("a word");
            number.parse::<u64>().expect("a number")
        };
        let [admitted, refused] = ["admitted=", "refused="].map(after);
        assert_eq!(["strange=", "broken="].map(after), [0, 0], "{said}");
        assert!(admitted > 0, "{said}");
        let left = house.remaining(policy);
        assert!(refused == 0 || left == 0, "{left}: {said}");
        // It goes without reading the last answer of each connection.
        let taken = limit - left;
        assert!(
            (admitted..=admitted + 10).contains(&taken),
            "{taken}: {said}"
        );
    }
}

#[test]
fn redis_benchmark_is_answered_and_takes_what_the_limit_has() {
    let Some(program) = tools::on_path("redis-benchmark", "redis-tools") else {
        return;
    };
    let house = House::new();
    let port = house.server.resp.port().to_string();
    for depth in [1, 16] {
        for (policy, left) in [("wide", WIDE - ASKS), ("narrow", 0)] {
            let mut benchmark = Command::new(&program);
            benchmark.args(["-p", &port, "-c", "50", "-n", &ASKS.to_string()]);
            benchmark.args(["-q", "-P", &depth.to_string()]);
            let said = said(benchmark.args(["TG.CHECK", policy, "hot"]).output());
            assert!(said.contains("requests per second"), "{said}");
            assert!(!said.contains("Error"), "{said}");
            assert_eq!(house.remaining(policy), left);
            reset(&port, policy);
        }
    }
}

/// The key again as if nobody had asked.
fn reset(port: &str, policy: &str) {
    let mut cli = Command::new("redis-cli");
    let said = said(cli.args(["-p", port, "TG.RESET", policy, "hot"]).output());
    assert_eq!(said.trim(), "OK");
}
