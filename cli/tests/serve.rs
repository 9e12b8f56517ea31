//! `tidegate serve`, as a process: its listeners, its file, its restart.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tidegate_grpc::proto;
use tidegate_grpc::proto::tidegate_client::TidegateClient;

const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n\
                      running = { concurrency = 2 }\n";

/// A server on free ports, killed when it is dropped.
struct Server {
    process: Child,
    http: SocketAddr,
    grpc: SocketAddr,
    resp: SocketAddr,
}

impl Server {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let mut command = command(folder);
        command.args(["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
        command.args(["--resp", "127.0.0.1:0"]).args(more);
        let mut process = command.spawn().expect("the program runs");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let mut lines = said.lines().map(|line| line.expect("text"));
        let mut address = |protocol: &str| {
            let line = lines.find(|line| line.trim_start().starts_with(protocol));
            let line = line.unwrap_or_else(|| panic!("{protocol} is announced"));
            let at = line.split_whitespace().nth(1).expect("an address");
            at.trim_start_matches("http://")
                .parse()
                .expect("an address")
        };
        Self {
            http: address("HTTP"),
            grpc: address("gRPC"),
            resp: address("RESP"),
            process,
        }
    }

    /// The status and body of the answer to a JSON request.
    fn post(&self, path: &str, body: &str, token: Option<&str>) -> (u16, String) {
        let mut stream = TcpStream::connect(self.http).expect("it listens");
        let token = token.map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{token}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status.expect("a status"), body.to_owned())
    }

    fn check(&self, key: &str) -> (u16, String) {
        let body =
            format!("{{\"policy\":\"chat\",\"key\":\"{key}\",\"amounts\":{{\"running\":0}}}}");
        self.post("/v1/check", &body, None)
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Ends it as an operator does, and says how it ended.
    fn stop(mut self) -> i32 {
        self.signal("TERM");
        let status = self.process.wait().expect("it ends");
        status.code().expect("by itself")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("serve").current_dir(folder);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn fails(folder: &Path, more: &[&str]) -> Output {
    let output = command(folder).args(more).output();
    let output = output.expect("the program runs");
    assert!(!output.status.success());
    output
}

fn folder(policy: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tidegate.toml"), policy).expect("written");
    folder
}

const CONFIG: [&str; 2] = ["--config", "tidegate.toml"];

/// Until `done`, or for a minute and more.
fn wait_for(mut done: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if done() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("it never came");
}

#[test]
fn without_a_file_it_serves_an_example_over_every_listener() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let request = "{\"policy\":\"example\",\"key\":\"alice\",\"cost\":1}";
    let (status, body) = server.post("/v1/acquire", request, None);
    assert_eq!(status, 200, "{body}");
    let mut redis = TcpStream::connect(server.resp).unwrap();
    redis.write_all(b"PING\r\n").unwrap();
    let mut pong = [0; 7];
    redis.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
    drop(redis);
    assert!(folder.path().join("tidegate.redb").exists());
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_restart_keeps_budgets_and_leases() {
    let folder = folder(POLICY);
    let server = Server::start(folder.path(), &CONFIG);
    for _ in 0..7 {
        assert_eq!(server.check("k").0, 200);
    }
    let request = "{\"policy\":\"chat\",\"key\":\"k\",\"amounts\":{\"rpm\":0,\"running\":2}}";
    let (status, body) = server.post("/v1/acquire", request, None);
    assert_eq!(status, 200);
    let lease: String = body.split("\"id\":\"").nth(1).unwrap()[..32].to_owned();
    assert_eq!(server.stop(), 0);
    let server = Server::start(folder.path(), &CONFIG);
    let admitted = (0..10).filter(|_| server.check("k").0 == 200).count();
    assert_eq!(admitted, 3);
    assert_eq!(server.post("/v1/acquire", request, None).0, 429);
    let release = format!("{{\"policy\":\"chat\",\"key\":\"k\",\"lease\":\"{lease}\"}}");
    assert_eq!(server.post("/v1/release", &release, None).0, 200);
    assert_eq!(server.post("/v1/acquire", request, None).0, 200);
}

#[test]
fn a_file_that_changes_is_gone_over_to_and_a_bad_one_is_not() {
    let folder = folder(POLICY);
    let file = folder.path().join("tidegate.toml");
    let server = Server::start(folder.path(), &CONFIG);
    (0..10).for_each(|_| assert_eq!(server.check("k").0, 200));
    assert_eq!(server.check("k").0, 429);
    std::fs::write(&file, "[policy.chat.limits]\nrpm = { calls = 'many' }").unwrap();
    server.signal("HUP");
    std::thread::park_timeout(Duration::from_millis(300));
    assert_eq!(server.check("other").0, 200);
    assert_eq!(server.check("k").0, 429);
    std::fs::write(&file, POLICY.replace("calls = 10", "calls = 12")).unwrap();
    wait_for(|| server.check("k").0 == 200);
    assert_eq!(server.check("k").0, 200);
    assert_eq!(server.check("k").0, 429);
}

/// The folder of a Kubernetes ConfigMap: what is exchanged is a link beside the file.
#[test]
fn a_file_behind_a_link_that_is_exchanged_is_gone_over_to() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let lay_down = |version: &str, policy: &str| {
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join("tidegate.toml"), policy).unwrap();
        symlink(version, at("..data_tmp")).unwrap();
        std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    };
    lay_down("..1", POLICY);
    symlink("..data/tidegate.toml", at("tidegate.toml")).unwrap();
    let server = Server::start(folder.path(), &CONFIG);
    (0..10).for_each(|_| assert_eq!(server.check("k").0, 200));
    assert_eq!(server.check("k").0, 429);
    lay_down("..2", &POLICY.replace("calls = 10", "calls = 12"));
    wait_for(|| server.check("k").0 == 200);
}

/// Its gauges stood for ever where they stood when it went.
#[test]
fn a_policy_that_is_gone_is_measured_to_hold_nothing() {
    let folder = folder(&format!(
        "{POLICY}[policy.old.limits]\nslots = {{ concurrency = 3 }}\n"
    ));
    let server = Server::start(
        folder.path(),
        &[&CONFIG[..], &["--store", "memory:"]].concat(),
    );
    let request = "{\"policy\":\"old\",\"key\":\"k\"}";
    assert_eq!(server.post("/v1/acquire", request, None).0, 200);
    let measured = |gauge: &str| {
        let metrics = get(server.http, "/metrics");
        let name = format!("tidegate_{gauge}{{policy=\"old\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.expect("it is measured").to_owned()
    };
    assert_eq!(
        (measured("keys"), measured("leases")),
        ("1".into(), "1".into())
    );
    std::fs::write(folder.path().join("tidegate.toml"), POLICY).unwrap();
    wait_for(|| server.post("/v1/acquire", request, None).0 == 404);
    for gauge in ["waiting", "keys", "leases", "leases_remembered"] {
        assert_eq!(measured(gauge), "0", "{gauge}");
    }
}

/// A 0 that nobody had counted looked like "nothing is held".
#[cfg(target_os = "linux")]
#[test]
fn what_a_store_does_not_count_is_not_measured_as_nothing() {
    let folder = folder(POLICY);
    let segment = tempfile::tempdir().unwrap();
    let store = format!("shm:held?dir={}", segment.path().display());
    let server = Server::start(folder.path(), &[&CONFIG[..], &["--store", &store]].concat());
    let request = "{\"policy\":\"chat\",\"key\":\"k\"}";
    assert_eq!(server.post("/v1/acquire", request, None).0, 200);
    let metrics = get(server.http, "/metrics");
    assert!(
        metrics.contains("tidegate_waiting{policy=\"chat\"} 0"),
        "{metrics}"
    );
    for gauge in ["keys", "leases", "leases_remembered"] {
        let series = format!("tidegate_{gauge}{{");
        assert!(!metrics.contains(&series), "{metrics}");
    }
}

#[test]
fn with_a_token_in_the_file_nobody_else_is_let_in() {
    let made = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["token", "ci"])
        .output();
    let made = made.unwrap();
    let entry = String::from_utf8(made.stdout).unwrap();
    let told = String::from_utf8(made.stderr).unwrap();
    let token = told.lines().next().expect("it is shown").to_owned();
    assert!(token.starts_with("tg_") && !entry.contains(&token));
    let folder = folder(&format!("{entry}\n{POLICY}"));
    let server = Server::start(folder.path(), &CONFIG);
    assert_eq!(server.check("k").0, 401);
    let request = "{\"policy\":\"chat\",\"key\":\"k\",\"amounts\":{\"running\":0}}";
    assert_eq!(server.post("/v1/check", request, Some(&token)).0, 200);
    assert_eq!(server.post("/v1/check", request, Some("tg_other")).0, 401);
    let reset = "{\"policy\":\"chat\",\"key\":\"k\"}";
    assert_eq!(server.post("/v1/reset", reset, Some(&token)).0, 403);
}

#[test]
fn a_taken_port_a_bad_file_and_a_used_store_are_errors_that_say_so() {
    let folder = folder(POLICY);
    let server = Server::start(folder.path(), &CONFIG);
    let taken = server.http.to_string();
    let words = |output: Output| String::from_utf8(output.stderr).unwrap();
    let other = [
        "--store", "memory:", "--grpc", "off", "--resp", "off", "--http", &taken,
    ];
    let said = words(fails(folder.path(), &other));
    assert!(said.contains(&taken) && said.contains("--http"), "{said}");
    let said = words(fails(
        folder.path(),
        &["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"],
    ));
    assert!(said.contains("tidegate.redb"), "{said}");
    std::fs::write(
        folder.path().join("bad.toml"),
        "[policy.chat.limits]\nrpm = 3\n",
    )
    .unwrap();
    let said = words(fails(
        folder.path(),
        &["--config", "bad.toml", "--store", "memory:"],
    ));
    assert!(said.contains("bad.toml:2"), "{said}");
}

#[test]
fn administrative_changes_are_noted() {
    let folder = folder(POLICY);
    let server = Server::start(
        folder.path(),
        &[&CONFIG[..], &["--audit", "audit.log"]].concat(),
    );
    let reset = "{\"policy\":\"chat\",\"key\":\"alice\"}";
    assert_eq!(server.post("/v1/reset", reset, None).0, 204);
    let url = format!("http://{}", server.http);
    for words in [
        &["namespaces", "create", "acme"][..],
        &["reset", "--namespace", "acme", "-p", "chat", "-k", "alice"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(words).args(["--server", &url]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(server.stop(), 0);
    let log = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    let resets = log.lines().filter(|line| line.contains("chat/alice"));
    let resets: Vec<_> = resets.collect();
    assert_eq!(resets.len(), 2, "{log}");
    assert!(!resets[0].contains("acme"), "{log}");
    assert!(resets[1].contains("\"namespace\":\"acme\""), "{log}");
}

/// The trace through the server, at 3,600 times its pace: two minutes, which a
/// lease lasts by default, go by while a busy machine does nothing.
#[test]
fn a_trace_is_played_through_a_running_server() {
    let folder = folder(&POLICY.replace("concurrency = 2", "concurrency = 2, ttl = '400d'"));
    let trace: String = (0..60)
        .map(|n| format!("2023-11-16 18:{n:02}:00,10,1\n"))
        .collect();
    let trace = format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{trace}");
    std::fs::write(folder.path().join("trace.csv"), trace).unwrap();
    let speed = ["--speed", "3600", "--store", "memory:"];
    let server = Server::start(folder.path(), &[&CONFIG[..], &speed].concat());
    let url = format!("http://{}", server.http);
    let mut replay = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    replay
        .current_dir(folder.path())
        .args(["replay", "trace.csv", "--policy", "tidegate.toml"]);
    replay.args([
        "--server", &url, "--speed", "3600", "--key", "=one", "--json",
    ]);
    let output = replay.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        said.contains("\"requests\": 60") || said.contains("\"requests\":60"),
        "{said}"
    );
}

/// Of the command as it comes: `cargo xtask test` builds it with traces.
#[test]
#[cfg(not(feature = "otlp"))]
fn who_asks_for_traces_that_were_not_built_is_told_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = fails(folder.path(), &["--otlp", "http://127.0.0.1:4318"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--features otlp"), "{said}");
}

/// The answer to one request without a body.
fn get(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("it listens");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// Asks by gRPC, and answers whether it was admitted.
async fn grpc_check(at: SocketAddr, limit: &str, amount: u64) -> bool {
    let client = TidegateClient::connect(format!("http://{at}")).await;
    let acquire = proto::AcquireRequest {
        request: Some(proto::CheckRequest {
            policy: "chat".into(),
            key: b"k".to_vec().into(),
            amounts: LIMITS
                .map(|name| (name.to_owned(), if name == limit { amount } else { 0 }))
                .into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let answer = client.expect("it listens").acquire(acquire).await;
    answer.expect("an answer").into_inner().lease.is_some()
}

#[test]
fn the_metrics_count_what_a_tier_decides_and_what_it_asks_its_store() {
    let folder = folder(
        "[policy.near]\ntier = { mode = 'leased', batch = 20, outstanding = 40, low_water = 0, idle = '60s' }\n\
         [policy.near.limits]\nrpm = { calls = 50, per = '400d', algorithm = 'fixed_window' }\n",
    );
    let memory = [&CONFIG[..], &["--store", "memory:"]].concat();
    let server = Server::start(folder.path(), &memory);
    let body = "{\"policy\":\"near\",\"key\":\"k\"}";
    let statuses = (0..60).map(|_| server.post("/v1/check", body, None).0);
    assert_eq!(statuses.filter(|status| *status == 200).count(), 50);
    let metrics = get(server.http, "/metrics");
    for (name, outcome, least) in [
        ("tidegate_tier_decisions_total", "admitted", 50),
        ("tidegate_tier_decisions_total", "refused", 1),
        ("tidegate_grants_total", "requested", 4),
        ("tidegate_grants_total", "granted", 3),
    ] {
        let series = format!("{name}{{policy=\"near\",outcome=\"{outcome}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&series));
        let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
        assert!(count >= least, "{series}{count}\n{metrics}");
    }
    // The slots by which the store bounds what is out are nobody's limit.
    assert!(!metrics.contains("outstanding"), "{metrics}");

    // A policy that has gone holds nothing.
    let keys = |count: u8| format!("tidegate_tier_keys{{policy=\"near\"}} {count}\n");
    assert!(metrics.contains(&keys(1)), "{metrics}");
    let other = "[policy.far.limits]\nrpm = { calls = 50, per = '1h' }\n";
    std::fs::write(folder.path().join("tidegate.toml"), other).unwrap();
    wait_for(|| get(server.http, "/metrics").contains(&keys(0)));

    // One of its name counts on: it stood still until it had decided as much.
    let near = "[policy.near]\ntier = { mode = 'leased', batch = 20 }\n\
                [policy.near.limits]\nrpm = { calls = 60, per = '400d' }\n";
    std::fs::write(folder.path().join("tidegate.toml"), near).unwrap();
    wait_for(|| server.post("/v1/check", body, None).0 == 200);
    let series = "tidegate_tier_decisions_total{policy=\"near\",outcome=\"admitted\"} 51\n";
    let metrics = get(server.http, "/metrics");
    assert!(metrics.contains(series), "{metrics}");
}

const LIMITS: [&str; 2] = ["rpm", "running"];

/// A refusal was counted for its policy alone: which of its limits it was, nobody said.
#[test]
fn the_metrics_name_the_limit_that_refused_over_every_protocol() {
    let folder = folder(POLICY);
    let server = Server::start(
        folder.path(),
        &[&CONFIG[..], &["--store", "memory:"]].concat(),
    );
    let acquire = |amounts: &str| {
        let body = format!("{{\"policy\":\"chat\",\"key\":\"k\",\"amounts\":{{{amounts}}}}}");
        server.post("/v1/acquire", &body, None).0
    };
    assert_eq!(acquire("\"rpm\":10,\"running\":2"), 200);
    assert_eq!(acquire("\"rpm\":1,\"running\":0"), 429);
    let mut redis = TcpStream::connect(server.resp).unwrap();
    for limit in LIMITS {
        let other = LIMITS.iter().find(|name| **name != limit).unwrap();
        writeln!(
            redis,
            "TG.ACQUIRE chat k AMOUNT {limit} 1 AMOUNT {other} 0\r"
        )
        .unwrap();
    }
    redis.write_all(b"QUIT\r\n").unwrap();
    let mut answers = String::new();
    redis.read_to_string(&mut answers).unwrap();
    assert!(!answers.contains("-ERR"), "{answers}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert!(!runtime.block_on(grpc_check(server.grpc, "running", 1)));
    assert!(!runtime.block_on(grpc_check(server.grpc, "running", 2)));
    let metrics = get(server.http, "/metrics");
    for (limit, count) in [("rpm", 2), ("running", 3)] {
        let line =
            format!("tidegate_refusals_total{{policy=\"chat\",limit=\"{limit}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let all = "tidegate_decisions_total{policy=\"chat\",outcome=\"refused\"} 5\n";
    assert!(metrics.contains(all), "{metrics}");
}
