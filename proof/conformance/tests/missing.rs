//! A machine without a server: its tests are skipped, and that is said to whoever runs
//! them; unless the server must be there.

use std::process::{Command, Output};

use tidegate_conformance::redis_server::RedisServer;

/// Run by the others, too.
#[test]
fn it_needs_a_redis() {
    drop(RedisServer::start());
}

/// Runs that test as whoever runs the tests does, where no program is found.
fn where_none_is_found(set: &[(&str, &str)]) -> Output {
    let own = std::env::current_exe().expect("a program");
    let mut tests = Command::new(own);
    // On a thread of its own a test's name is known.
    tests.args(["--exact", "it_needs_a_redis", "--test-threads", "2"]);
    tests.env_remove("TIDEGATE_REQUIRE_REDIS");
    tests.env("PATH", "").envs(set.iter().copied());
    tests.output().expect("it runs")
}

#[test]
fn a_test_that_is_skipped_says_so_though_it_passes() {
    let output = where_none_is_found(&[]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    let line = "skipped it_needs_a_redis: redis-server is not installed";
    assert!(said.contains(line), "{said}");
}

#[test]
fn where_a_server_must_be_there_no_test_is_skipped() {
    let output = where_none_is_found(&[("TIDEGATE_REQUIRE_REDIS", "1")]);
    assert!(!output.status.success());
}
