//! The line of a Redis: a sorted set for each root.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use redis::{Connection, FromRedisValue};
use tidegate_conformance::redis_server::RedisServer;

use super::{Lines, Move};

/// The line of the suite's key.
const QUEUE: &str = "{tidegate:gpus:k}:q";

pub struct Server(RedisServer);

impl Lines for Server {
    const GIVEN_UP: Duration = Duration::from_secs(3);

    fn start() -> Option<Self> {
        RedisServer::start().map(Self)
    }

    fn url(&self) -> String {
        self.0.url()
    }

    fn standing(&self) -> usize {
        ask(&mut connect(&self.0), &["ZCARD", QUEUE])
    }

    /// What the server's scripts do to its line: `ZADD` and `ZREM`, with the entry.
    fn watch(&self) -> Box<dyn FnOnce() -> Vec<Move>> {
        const END: &str = "the test is over";
        let mut stream = TcpStream::connect(("127.0.0.1", self.0.port())).expect("a server");
        stream.write_all(b"MONITOR\r\n").expect("a command");
        let mut lines = BufReader::new(stream)
            .lines()
            .map(|line| line.expect("a line"));
        assert_eq!(lines.next().as_deref(), Some("+OK"));
        let reader = std::thread::spawn(move || {
            let lines = lines.take_while(|line| !line.contains(END));
            lines.filter_map(|line| as_move(&line)).collect()
        });
        let mut connection = connect(&self.0);
        Box::new(move || {
            let () = ask(&mut connection, &["SET", END, ""]);
            reader.join().expect("the reader ends")
        })
    }

    fn cut(&self) {
        let mut connection = connect(&self.0);
        for kind in ["normal", "pubsub"] {
            let kill = ["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"];
            let _: usize = ask(&mut connection, &kill);
        }
    }
}

fn as_move(line: &str) -> Option<Move> {
    if !line.contains(" lua]") || !line.contains("}:q\"") {
        return None;
    }
    let words: Vec<_> = line.split("\" \"").collect();
    let (_, verb) = words.first()?.rsplit_once('"')?;
    let entry = words.last()?.to_string();
    match verb {
        "ZADD" => Some(Move::Came(entry)),
        "ZREM" => Some(Move::Went(entry)),
        _ => None,
    }
}

/// A connection of the test's own.
fn connect(server: &RedisServer) -> Connection {
    let client = redis::Client::open(server.url()).expect("an address");
    client.get_connection().expect("a server")
}

/// Asks the server something in words.
fn ask<T: FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(connection).expect("an answer")
}
