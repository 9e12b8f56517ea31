//! Asks of several processes that wait in one line.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use support::{ask, connect};
use tidegate::contract::Store;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::waiting::{Lines, Move};
use tidegate_conformance::waiting_suite;
use tidegate_redis::{Options, RedisStore};

/// The line of the suite's key.
const QUEUE: &str = "{tidegate:gpus:k}:q";

struct Server(RedisServer);

impl Lines for Server {
    fn start() -> Option<Self> {
        RedisServer::start().map(Self)
    }

    fn address(&self) -> String {
        self.0.url()
    }

    fn open(address: &str) -> Arc<dyn Store> {
        let options = Options {
            deadline: Duration::from_secs(30),
            ..Options::default()
        };
        Arc::new(RedisStore::open(address, options).expect("a server"))
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

waiting_suite!(Server);
