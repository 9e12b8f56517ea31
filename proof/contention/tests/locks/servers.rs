//! The servers that keep the slots, and stores of them. A test opens a store for
//! each process that it stands for.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Store;
use tidegate::lock::LeasedSemaphore;
use tidegate_conformance::Paused;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::{DURABLE, RedisServer};
use tidegate_conformance::with_options;

/// One that remembers what it has answered, even if it is killed.
pub enum Server {
    Redis(RedisServer),
    Postgres(PostgresServer),
    Mariadb(MariadbServer),
}

impl Server {
    /// Those that this machine has.
    pub fn all() -> Vec<Self> {
        let each: [fn() -> Option<Self>; 3] = [
            || RedisServer::start_with(&DURABLE).map(Self::Redis),
            || PostgresServer::start().map(Self::Postgres),
            || MariadbServer::start().map(Self::Mariadb),
        ];
        each.into_iter().filter_map(|start| start()).collect()
    }

    pub fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres(server) => server.url(),
            Self::Mariadb(server) => server.url(),
        }
    }

    pub fn port(&self) -> u16 {
        match self {
            Self::Redis(server) => server.port(),
            Self::Postgres(server) => server.port(),
            Self::Mariadb(server) => server.port(),
        }
    }

    pub fn kill(&mut self) {
        match self {
            Self::Redis(server) => server.kill(),
            Self::Postgres(server) => server.kill(),
            Self::Mariadb(server) => server.kill(),
        }
    }

    pub fn start_again(&mut self) {
        match self {
            Self::Redis(server) => server.start_again(),
            Self::Postgres(server) => server.start_again(),
            Self::Mariadb(server) => server.start_again(),
        }
    }

    /// It stands still with all its processes, and answers nobody, until this is dropped.
    pub fn pause(&self) -> Paused {
        Paused::new(match self {
            Self::Redis(server) => server.pid(),
            Self::Postgres(server) => server.pid(),
            Self::Mariadb(server) => server.pid(),
        })
    }
}

/// Runs `act` on each server of this machine, beside one another: most of the
/// time they wait.
pub fn on_each(act: impl Fn(&mut Server) + Sync) {
    let mut servers = Server::all();
    std::thread::scope(|scope| {
        let act = &act;
        for server in &mut servers {
            scope.spawn(move || act(server));
        }
    });
}

/// What a process opens: it waits for longer than any ttl here, so that nobody
/// learns of an outage by it.
fn patient(url: &str) -> String {
    with_options(url, "deadline=60s")
}

/// A store of its own, as a process has.
pub fn store(url: &str) -> Arc<dyn Store> {
    let opened = tidegate_url::open(&patient(url));
    opened.expect("a server").store
}

/// A semaphore as a process of its own has it.
pub fn semaphore(url: &str, slots: u64, ttl: Duration) -> LeasedSemaphore {
    let builder = LeasedSemaphore::builder("gpu", slots).ttl(ttl);
    builder.store(store(url)).build().expect("sound")
}

/// The same, of which each command takes that long at most.
pub fn hasty(url: &str, slots: u64, ttl: Duration, deadline: Duration) -> LeasedSemaphore {
    let options = format!("deadline={}s", deadline.as_secs());
    let opened = tidegate_url::open(&with_options(url, &options));
    let builder = LeasedSemaphore::builder("gpu", slots).ttl(ttl);
    let store = opened.expect("a server").store;
    builder.store(store).build().expect("sound")
}

/// A process that does what `verb` says with a semaphore as [`semaphore`] makes it.
pub fn process(verb: &str, url: &str, slots: u64, ttl: Duration) -> Command {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate-contention"));
    process.args([verb, "--store", &patient(url)]);
    process.args(["--slots", &slots.to_string()]);
    process.args(["--ttl", &ttl.as_millis().to_string()]);
    process
}
