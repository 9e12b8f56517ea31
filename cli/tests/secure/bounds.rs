//! What the file's `[server]` says holds at every listener.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use tidegate_conformance::redis_server::RedisServer;

use crate::support::{POLICY, Server, folder, serve, text};

/// A connection that has been answered, and so has a place.
fn inside(at: SocketAddr, says: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    stream.write_all(says).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 1);
    stream
}

/// All that one connection more is told.
fn one_more(at: SocketAddr) -> String {
    let mut told = Vec::new();
    let _ = TcpStream::connect(at).unwrap().read_to_end(&mut told);
    text(&told)
}

#[test]
fn one_connection_more_than_the_file_says_is_closed_at_every_listener() {
    let folder = folder(&format!("[server]\nmax_connections = 1\n{POLICY}"));
    let server = Server::start(folder.path(), &[]);
    let http = inside(server.http, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let grpc = inside(server.grpc, hello);
    let resp = inside(server.resp, b"PING\r\n");
    assert!(one_more(server.http).starts_with("HTTP/1.1 503"));
    assert_eq!(one_more(server.grpc), "");
    assert!(one_more(server.resp).starts_with("-ERR max number of clients"));
    drop((http, grpc, resp));
}

/// Exporters and clients send INFO by themselves. It counted the keys of each policy by
/// a walk through everything that the store holds.
#[test]
fn info_does_not_walk_through_the_store() {
    let Some(redis) = RedisServer::start() else {
        return;
    };
    let folder = folder(POLICY);
    let mut command = serve(folder.path());
    command.args(["--config", "tidegate.toml", "--store", &redis.url()]);
    let server = Server::spawn(folder.path(), &mut command);
    let port = redis.port().to_string();
    let store = |words: &[&str]| {
        let mut cli = Command::new("redis-cli");
        let said = cli.args(["-p", &port]).args(words).output();
        text(&said.expect("redis-cli runs").stdout)
    };
    store(&["CONFIG", "RESETSTAT"]);
    let info = text(&server.redis(&["INFO"]).stdout);
    let commands = store(&["INFO", "commandstats"]);
    assert!(!commands.contains("cmdstat_scan"), "{commands}");
    assert!(info.contains("policy_chat:waiting=0"), "{info}");
}

#[test]
fn the_bounds_are_told_with_their_defaults() {
    let help = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "--help"])
        .output();
    let help = text(&help.unwrap().stdout);
    for bound in [
        "max_connections   10,000",
        "max_in_flight      4,096",
        "shutdown_timeout     10s",
    ] {
        assert!(help.contains(bound), "{bound}");
    }
}
