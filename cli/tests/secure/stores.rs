//! The way to a store, encrypted, and to nobody who has no certificate for it.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::ports;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;

use crate::certificates::Authority;

/// A folder with `ca.pem`, `server.pem` and `server.key`, which a server that is
/// started as somebody else may read.
fn folder(user: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("an authority of this test");
    authority.write(folder.path(), "ca");
    authority.issue(folder.path(), "server");
    let key = folder.path().join("server.key");
    let chmod = |mode: &str, path: &Path| Command::new("chmod").arg(mode).arg(path).status();
    assert!(chmod("755", folder.path()).unwrap().success());
    assert!(chmod("600", &key).unwrap().success());
    // Nobody but root may give a file away; nobody but root starts it as another.
    let _ = Command::new("chown").arg(user).arg(&key).output();
    folder
}

/// `tidegate run` on a store: its exit code and what it says. Whom it trusts beside
/// nobody else is `ca.pem` in a folder.
fn run(url: &str, trusted: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["run", "--store", url, "--limit", "gpu=1", "--", "true"]);
    command.env("SSL_CERT_FILE", trusted.join("ca.pem"));
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// By one URL it is reached by who trusts its authority, and by nobody else.
fn is_reached_in_confidence(url: &str, folder: &TempDir) {
    let (code, said) = run(url, folder.path());
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(url, self::folder("root").path());
    assert_eq!(code, Some(125), "another's certificate: {said}");
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn a_redis_is_reached_by_tls_where_the_url_says_so() {
    let folder = folder("root");
    let at = |name: &str| folder.path().join(name).display().to_string();
    // Redis has a port of its own for TLS.
    let port = ports::next_free().expect("a free port");
    let server = RedisServer::start_with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &at("server.pem"),
        "--tls-key-file",
        &at("server.key"),
        "--tls-ca-cert-file",
        &at("ca.pem"),
        "--tls-auth-clients",
        "no",
    ]);
    let Some(_server) = server else { return };
    is_reached_in_confidence(&format!("rediss://localhost:{port}"), &folder);
}

#[test]
fn a_postgresql_is_reached_by_tls_where_the_url_says_so() {
    let folder = folder("postgres");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let server = PostgresServer::start_with(&[
        "ssl=on",
        &format!("ssl_cert_file={}", at("server.pem")),
        &format!("ssl_key_file={}", at("server.key")),
    ]);
    let Some(server) = server else { return };
    let url = format!("postgres://tidegate@localhost:{}/postgres", server.port());
    is_reached_in_confidence(&format!("{url}?sslmode=require"), &folder);
    // Who says nothing of it is in the clear, also at a server that could.
    assert_eq!(run(&url, self::folder("root").path()).0, Some(0));
}

#[test]
fn a_mariadb_is_reached_by_tls_where_the_url_says_so() {
    let folder = folder("mysql");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let server = MariadbServer::start_with(&[
        &format!("--ssl-cert={}", at("server.pem")),
        &format!("--ssl-key={}", at("server.key")),
    ]);
    let Some(server) = server else { return };
    let url = format!("mysql://root@localhost:{}/tidegate", server.port());
    is_reached_in_confidence(&format!("{url}?require_ssl=true"), &folder);
}
