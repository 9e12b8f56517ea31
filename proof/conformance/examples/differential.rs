//! The differential test for as long as one likes, on the memory store or on
//! another: `cargo xtask differential --commands 1000000 --seed 1 --store redis`.
//!
//! With `--clients 2` two clients of the store ask one table by turns. Of shared memory the
//! second is a process of its own, of a server another connection to it.
//!
//! Several processes ask one segment of shared memory at once, each a table of its own, where
//! `TIDEGATE_SHM_DIR` names a directory for it.

#[path = "../tests/support/offering.rs"]
mod offering;
#[path = "../tests/support/open.rs"]
mod open;

use std::io;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate::Store;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::{OtherProcess, Players, Subject, differential_by};
use tidegate_memory::MemoryStore;

/// How often it says how far it is.
const REPORTS: usize = 20;

/// Seeds lie this far apart from report to report.
const STRIDE: u64 = 1 << 32;

/// Where the segment of shared memory is.
const SHM_DIR: &str = "TIDEGATE_SHM_DIR";

/// Is there for the second of two processes.
const SECOND: &str = "TIDEGATE_SECOND";

/// What is asked for.
struct Wish {
    commands: usize,
    seed: u64,
    subject: Subject,
    players: Players,
}

fn main() -> ExitCode {
    match wish(std::env::args().skip(1)) {
        Ok(mut wish) => run(&mut wish),
        Err(wrong) => {
            eprintln!(
                "{wrong}; --commands N, --seed N, --clients 1 or 2 and --store memory, shm, mariadb, postgres, redis, redis-by-scripts, tidegate (or dynamodb, by `cargo xtask differential`) are understood"
            );
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run(wish: &mut Wish) {
    let mut asked = 0;
    for report in 0..REPORTS {
        let seed = wish.seed.wrapping_add(STRIDE * report as u64);
        let commands = wish.commands.div_ceil(REPORTS);
        asked += differential_by(&mut wish.players, &wish.subject, (seed, commands));
        if std::env::var_os(SECOND).is_some() {
            continue;
        }
        println!("{asked:>12} commands answered as by the reference, from seed {seed} on");
    }
}

fn wish(mut arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
    let (mut commands, mut seed, mut store) = (1_000_000, 1, "memory".to_owned());
    let mut clients = 1;
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = value.parse::<u64>();
        let number = number.map_err(|_| format!("`{argument} {value}` is no number"));
        match argument.as_str() {
            "--commands" => commands = number? as usize,
            "--seed" => seed = number?,
            "--store" => store = value,
            "--clients" => clients = number?,
            other => return Err(format!("`{other}` is not known")),
        }
    }
    let dir = ShmDir::new().map_err(|error| error.to_string())?;
    Ok(Wish {
        commands,
        seed,
        players: players(clients, &store, &dir)?,
        subject: subject(&store, dir)?,
    })
}

fn players(clients: u64, store: &str, dir: &ShmDir) -> Result<Players, String> {
    let other = match (clients, store) {
        (1, _) => return Ok(Players::One),
        (2, "memory") => return Err("`memory` has one client".to_owned()),
        (2, "shm") if std::env::var_os(SECOND).is_some() => OtherProcess::first(),
        (2, "shm") => std::env::current_exe().and_then(|path| {
            let mut second = Command::new(path);
            second.args(std::env::args_os().skip(1));
            OtherProcess::start(second.env(SHM_DIR, &dir.path).env(SECOND, "1"))
        }),
        (2, _) => return Ok(Players::Two),
        _ => return Err(format!("`--clients {clients}` is neither 1 nor 2")),
    };
    other.map(Players::With).map_err(|error| error.to_string())
}

/// A directory in memory, which goes with this if it was made for it.
struct ShmDir {
    path: String,
    _own: Option<TempDir>,
}

impl ShmDir {
    fn new() -> io::Result<Self> {
        if let Ok(path) = std::env::var(SHM_DIR) {
            return Ok(Self { path, _own: None });
        }
        let own = tempfile::tempdir_in("/dev/shm")?;
        Ok(Self {
            path: own.path().display().to_string(),
            _own: Some(own),
        })
    }
}

fn subject(store: &str, dir: ShmDir) -> Result<Subject, String> {
    match store {
        "memory" => {
            let subject = Subject::new(|| Arc::new(MemoryStore::default()) as _);
            Ok(subject.drops_spent_state_early())
        }
        "shm" => {
            let path = dir.path.clone();
            Ok(served(open::shm, &path, dir))
        }
        "tidegate" => {
            let server = offering::Offering::start(Arc::new(MemoryStore::default()));
            let subject = served(open::remote, &server.url(), server);
            Ok(subject.drops_spent_state_early())
        }
        "mariadb" => {
            let server = MariadbServer::start().ok_or("a MariaDB server is needed")?;
            Ok(served(open::mariadb, &server.url(), server))
        }
        "postgres" => {
            let server = PostgresServer::start().ok_or("a PostgreSQL server is needed")?;
            Ok(served(open::postgres, &server.url(), server))
        }
        "redis" => {
            let server = RedisServer::start().ok_or("a Redis server is needed")?;
            Ok(served(open::redis, &server.url(), server))
        }
        "redis-by-scripts" => {
            let server = RedisServer::start().ok_or("a Redis server is needed")?;
            Ok(served(open::redis_by_scripts, &server.url(), server))
        }
        other => Err(format!("`{other}` is no store")),
    }
}

/// The store at `url`. Its server runs for as long as the subject is there.
fn served(open: fn(&str) -> Arc<dyn Store>, url: &str, server: impl Sized + 'static) -> Subject {
    let (store, again) = (open(url), open(url));
    Subject::new(move || {
        let _stays = &server;
        Arc::clone(&store)
    })
    .reopened(move || Arc::clone(&again))
}
