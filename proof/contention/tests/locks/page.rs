//! What docs/reference/locks.md tells a resource to do is done here as it stands there.

use std::process::Command;

use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;

const PAGE: &str = include_str!("../../../../docs/reference/locks.md");

/// The first block in a language.
fn block(language: &str) -> &'static str {
    let begin = format!("```{language}\n");
    let (_, rest) = PAGE.split_once(&begin).expect("a block");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_statement_of_the_page_refuses_an_older_fence() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let (add, write) = block("sql").split_once("\n\n").expect("two statements");
    let write = write.split_once("--").expect("a comment").0;
    server.ask("CREATE TABLE account (id bigint PRIMARY KEY, balance numeric)");
    server.ask(add);
    server.ask("INSERT INTO account VALUES (1, 0)");
    let execute = |balance: u32, fence: u32| {
        let write = format!("PREPARE write AS {write} EXECUTE write({balance}, {fence}, 1)");
        server.ask(&write).pop().expect("an answer")
    };
    assert_eq!(execute(10, 5), "UPDATE 1");
    assert_eq!(execute(20, 4), "UPDATE 0");
    assert_eq!(execute(30, 5), "UPDATE 1", "the same holder goes on");
    assert_eq!(execute(40, 6), "UPDATE 1");
    assert_eq!(server.ask("SELECT balance, fence FROM account"), ["40|6"]);
}

#[test]
fn the_script_of_the_page_refuses_an_older_fence() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let port = server.port().to_string();
    let execute = |fence: &str, value: &str| {
        let mut ask = Command::new("redis-cli");
        ask.args([
            "-p",
            &port,
            "EVAL",
            block("lua"),
            "1",
            "account",
            fence,
            value,
        ]);
        let answer = ask.output().expect("redis-cli runs (redis-tools)").stdout;
        String::from_utf8_lossy(&answer).trim().to_owned()
    };
    // As large as fences are.
    assert_eq!(execute("1800000000000005", "a"), "1");
    assert_eq!(execute("1800000000000004", "b"), "0");
    assert_eq!(execute("1800000000000005", "c"), "1");
    assert_eq!(execute("1800000000000006", "d"), "1");
}
