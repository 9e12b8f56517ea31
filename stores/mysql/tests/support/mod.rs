//! What the tests share: a store on a server, and words for it.
#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

pub use tidegate_conformance::desk::*;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_mysql::{Clock, MysqlStore, Options};

pub fn options(clock: Clock) -> Options {
    Options {
        clock,
        deadline: std::time::Duration::from_secs(30),
        ..Options::default()
    }
}

pub fn open(server: &MariadbServer, clock: Clock) -> MysqlStore {
    MysqlStore::open(&server.url(), options(clock)).expect("a server")
}

/// Asks the server something in SQL; the first column of the answer.
pub fn ask(server: &MariadbServer, sql: &str) -> Vec<String> {
    let mut client = std::process::Command::new("mariadb");
    client.args([
        "--no-defaults",
        "--user=root",
        "--host=127.0.0.1",
        "--protocol=tcp",
    ]);
    client.args([
        "--skip-column-names",
        "--batch",
        "tidegate",
        "--execute",
        sql,
    ]);
    client.arg(format!("--port={}", server.port()));
    let output = client.output().expect("mariadb runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sql}: {trouble}");
    said.lines().map(str::to_owned).collect()
}

/// A number that the server says.
pub fn number(server: &MariadbServer, sql: &str) -> u64 {
    let said = ask(server, sql);
    let last = said.first().and_then(|line| line.split('\t').next_back());
    last.and_then(|word| word.parse().ok()).expect("a number")
}
