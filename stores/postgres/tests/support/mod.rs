//! What the tests share: a store on a server, and words for it.
#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

use std::time::Duration;

pub use tidegate_conformance::fixture::*;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Clock, Options, PostgresStore};
use tokio_postgres::{NoTls, SimpleQueryMessage};

pub fn options(clock: Clock) -> Options {
    Options {
        clock,
        deadline: Duration::from_secs(30),
        prune_every: Duration::ZERO,
        ..Options::default()
    }
}

pub fn open(server: &PostgresServer, clock: Clock) -> PostgresStore {
    PostgresStore::open(&server.url(), options(clock)).expect("a server")
}

/// Says something to the server, as its owner; what it answers, a row a line.
pub fn sql(server: &PostgresServer, text: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let connected = tokio_postgres::connect(&server.url(), NoTls).await;
        let (client, connection) = connected.expect("a server");
        let driven = tokio::spawn(connection);
        let answer = client.simple_query(text).await.expect("an answer");
        drop(client);
        driven.await.expect("a connection").expect("an end");
        answer.iter().filter_map(line).collect()
    })
}

fn line(message: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = message else {
        return None;
    };
    let words = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
    Some(words.collect::<Vec<_>>().join(" "))
}
