//! What the tests share: a store on a server, and words for it.
#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

use redis::{Connection, FromRedisValue};
pub use tidegate_conformance::fixture::*;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::{Clock, Options, RedisStore};

pub fn open(server: &RedisServer, clock: Clock) -> RedisStore {
    open_at(&server.url(), clock)
}

pub fn open_at(url: &str, clock: Clock) -> RedisStore {
    let options = Options {
        clock,
        deadline: std::time::Duration::from_secs(30),
        ..Options::default()
    };
    RedisStore::open(url, options).expect("a server")
}

/// A connection of the test's own.
pub fn connect(server: &RedisServer) -> Connection {
    let client = redis::Client::open(server.url()).expect("an address");
    client.get_connection().expect("a server")
}

/// Asks the server something in words.
pub fn ask<T: FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query(connection).expect("an answer")
}
