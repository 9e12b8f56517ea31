//! Clients that nobody here wrote: `redis-cli`, `redis-benchmark` and the
//! Python package `redis`.
//!
//! Where one is missing its test says so and passes, unless
//! `TIDEGATE_REQUIRE_TOOLS` is set. The Python package is fetched, but where
//! `TIDEGATE_PYTHON` names a Python that has it.

mod support;
#[path = "../../http/tests/http/tools.rs"]
mod tools;

use std::process::{Command, Output};

use support::{TestServer, tokens};
use tidegate_service::Scope;

/// Whether the tool answers; if it does not, why nothing is tested.
fn there(tool: &str, arguments: &[&str], how: &str) -> bool {
    let answer = Command::new(tool).args(arguments).output();
    if answer.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let required = std::env::var_os("TIDEGATE_REQUIRE_TOOLS").is_some();
    assert!(!required, "TIDEGATE_REQUIRE_TOOLS is set; {how}");
    println!("skipped: {how}");
    false
}

fn said(output: &Output) -> String {
    let text = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// What `redis-cli` prints.
fn cli(server: &TestServer, arguments: &[&str]) -> String {
    let port = server.address.port().to_string();
    let mut cli = Command::new("redis-cli");
    let output = cli.args(["-p", &port]).args(arguments).output();
    said(&output.unwrap()).trim_end().to_owned()
}

fn has_cli() -> bool {
    let how = "there is no redis-cli (Debian package redis-tools)";
    there("redis-cli", &["--version"], how)
}

#[test]
fn redis_cli_shows_the_golden_values() {
    if !has_cli() {
        return;
    }
    let server = TestServer::start();
    let throttle = |key| cli(&server, &["CL.THROTTLE", key, "15", "30", "60"]);
    assert_eq!(throttle("a"), "0\n16\n15\n-1\n2");
    assert_eq!(throttle("a"), "0\n16\n14\n-1\n4");
    let negative = cli(&server, &["CL.THROTTLE", "a", "15", "30", "60", "-1"]);
    assert!(negative.starts_with("ERR quantity"), "{negative}");
    let json = cli(&server, &["-3", "--json", "TG.CHECK", "chat", "a"]);
    let fact = "\"limits\":{\"rpm\":{\"limit\":10,\"remaining\":9,\"reset_ms\":360000}}";
    assert!(json.contains(fact), "{json}");
    let docs = cli(&server, &["COMMAND", "DOCS", "CL.THROTTLE"]);
    assert!(docs.contains("key max_burst count period"), "{docs}");
}

#[test]
fn redis_cli_is_let_in_by_its_token() {
    if !has_cli() {
        return;
    }
    let server = TestServer::start();
    let all = [("ci", &Scope::ALL[..], &[][..])];
    server.service.replace_credentials(tokens(&all));
    assert_eq!(cli(&server, &["PING"]), "NOAUTH Authentication required.");
    let quietly = "--no-auth-warning";
    assert_eq!(cli(&server, &["-a", "ci", quietly, "PING"]), "PONG");
    let named = ["--user", "ci", "-a", "ci", quietly, "-3", "PING"];
    assert_eq!(cli(&server, &named), "PONG");
    let wrong = cli(&server, &["-a", "guess", quietly, "PING"]);
    assert!(wrong.contains("WRONGPASS"), "{wrong}");
}

#[test]
fn redis_benchmark_gets_an_answer_to_each_request() {
    let how = "there is no redis-benchmark (Debian package redis-tools)";
    if !there("redis-benchmark", &["--version"], how) {
        return;
    }
    let server = TestServer::start();
    let port = server.address.port().to_string();
    let measure = ["-p", &port, "-c", "50", "-n", "20000", "-P", "16", "-q"];
    let call = ["CL.THROTTLE", "hot", "99", "1", "86400"];
    let mut benchmark = Command::new("redis-benchmark");
    let output = benchmark.args(measure).args(call).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("requests per second"));
    // A hundred were admitted, and nothing of the rest was taken.
    let mut client = server.client();
    let last = client.request("CL.THROTTLE hot 99 1 86400 0");
    assert_eq!(last, "[0,100,0,-1,8640000]");
}

/// The golden values, waiting, pipelines and both protocols, by `redis`.
const PYTHON: &str = r#"
import sys, redis
for protocol in (2, 3):
    r = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)
    assert r.ping() and r.echo("hi") == "hi"
    key = f"a{protocol}"
    assert r.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2]
    assert r.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 14, -1, 4]
    assert r.execute_command("CL.THROTTLE", key, 15, 30, 60, 15) == [1, 16, 14, 2, 4]
    pipeline = r.pipeline(transaction=False)
    for _ in range(5):
        pipeline.execute_command("CL.THROTTLE", "z" + key, 0, 1, 2)
    assert [reply[0] for reply in pipeline.execute()] == [0, 1, 1, 1, 1]
    facts = r.execute_command("TG.ACQUIRE", "slots", "k", "WAIT", 100)
    if protocol == 2:
        facts = dict(zip(facts[::2], facts[1::2]))
    assert facts["verdict"] == "admitted", facts
    r.execute_command("TG.RELEASE", "slots", "k", facts["lease"])
    try:
        r.execute_command("TG.CHECK", "chat", "k", "AMOUNT", "rpm", 11)
        raise SystemExit("it was not refused")
    except redis.ResponseError as error:
        assert str(error).startswith("NEVER "), error
    assert r.info("server")["redis_mode"] == "standalone"
    assert r.client_id() > 0 and r.command_count() > 20
    r.close()
print("all as it should be")
"#;

#[test]
fn the_python_package_sees_the_golden_values() {
    let named = std::env::var_os("TIDEGATE_PYTHON").map(Into::into);
    let python = named.or_else(|| tools::python_with(&["redis==8.1.0"], "redis"));
    let Some(python) = python else {
        return;
    };
    let server = TestServer::start();
    let port = server.address.port().to_string();
    let mut script = Command::new(python);
    let output = script.args(["-c", PYTHON, &port]).output().unwrap();
    assert_eq!(said(&output).trim(), "all as it should be");
}
