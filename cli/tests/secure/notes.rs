//! What it notes: the audit log, and logs that programs read.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_conformance::Beyond;

use crate::support::{POLICY, Server, folder, serve, wait_for};

fn reset(server: &Server, key: &str) {
    let url = format!("http://{}/v1/reset", server.http);
    let body = format!("{{\"policy\":\"chat\",\"key\":\"{key}\"}}");
    let json = "content-type: application/json";
    assert!(
        server
            .curl(&["-f", "-H", json, "-d", &body, &url])
            .status
            .success()
    );
}

/// The subjects of a log's lines, each of which is a JSON object.
fn noted(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["fields"]["subject"].as_str().unwrap().to_owned()
    });
    lines
        .filter(|subject| subject.starts_with("chat/"))
        .collect()
}

#[test]
fn the_audit_log_of_the_file_goes_on_in_a_new_one_when_it_was_moved_away() {
    let folder = folder(&format!("[server]\naudit = 'audit.log'\n{POLICY}"));
    let [log, moved] = ["audit.log", "audit.log.1"].map(|name| folder.path().join(name));
    let server = Server::start(folder.path(), &[]);
    reset(&server, "first");
    assert_eq!(noted(&log), ["chat/first"]);
    std::fs::rename(&log, &moved).unwrap();
    // Until it is told, it writes where it has written.
    reset(&server, "second");
    assert_eq!(noted(&moved), ["chat/first", "chat/second"]);
    server.signal("HUP");
    wait_for(|| log.exists());
    reset(&server, "third");
    assert_eq!(noted(&log), ["chat/third"]);
    assert_eq!(noted(&moved).len(), 2);
}

#[test]
fn an_audit_log_that_cannot_be_written_is_an_error_and_at_a_reload_changes_nothing() {
    let folder = folder(&format!("[server]\naudit = 'audit.log'\n{POLICY}"));
    let server = Server::start(folder.path(), &[]);
    let elsewhere = format!("[server]\naudit = 'no/such/folder'\n{POLICY}");
    std::fs::write(folder.path().join("tidegate.toml"), elsewhere).unwrap();
    server.signal("HUP");
    wait_for(|| server.said().contains("cannot write no/such/folder"));
    reset(&server, "still");
    assert_eq!(noted(&folder.path().join("audit.log")), ["chat/still"]);
    let refused = crate::support::refusal(folder.path(), &[]);
    assert!(refused.contains("cannot write no/such/folder"), "{refused}");
}

/// Drivers tell of their own connections, without a word of which store: an operator read
/// `Connection error: db error`.
#[test]
fn what_drivers_tell_of_their_connections_is_logged_only_if_that_is_asked() {
    let log_of = |rust_log: Option<&str>| {
        let folder = folder(POLICY);
        let store = Beyond::postgres()?;
        let words = ["--store", &store.url, "--log", "json"];
        let mut command = serve(folder.path());
        command
            .args(["--config", "tidegate.toml"])
            .args(words)
            .env_remove("RUST_LOG");
        command.envs(rust_log.map(|level| ("RUST_LOG", level)));
        let server = Server::spawn(folder.path(), &mut command);
        reset(&server, "first");
        let end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let mut ended = Command::new("psql");
        let ended = ended.args([&store.url, "-qc", end_all]);
        let ended = ended.output().expect("psql runs");
        assert!(ended.status.success(), "{ended:?}");
        let again = format!("http://{}/v1/reset", server.http);
        let body = "{\"policy\":\"chat\",\"key\":\"second\"}";
        server.curl(&["-H", "content-type: application/json", "-d", body, &again]);
        server.signal("TERM");
        Some(server.ended().1)
    };
    let (Some(asked), Some(usual)) = (log_of(Some("info")), log_of(None)) else {
        return;
    };
    let is_of_a_driver = |line: &&str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let target = line["target"].as_str().expect("a target");
        target.starts_with("deadpool") || target.starts_with("tokio_postgres")
    };
    assert!(asked.lines().any(|line| is_of_a_driver(&line)), "{asked}");
    assert!(!usual.lines().any(|line| is_of_a_driver(&line)), "{usual}");
}

#[test]
fn logs_are_one_json_object_a_line_if_that_is_asked() {
    let folder = folder(POLICY);
    let server = Server::start(folder.path(), &["--log", "json"]);
    server.signal("TERM");
    let (_, said) = server.ended();
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told = |message: &str| {
        lines
            .iter()
            .any(|line| line["fields"]["message"] == message)
    };
    assert!(told("stopped"), "{said}");
    assert!(
        lines
            .iter()
            .all(|line| line["timestamp"].is_string() && line["level"].is_string())
    );
}
