//! The differential test for as long as one likes, on the memory store or on
//! another: `cargo xtask differential --commands 1000000 --seed 1 --store redis`.
//!
//! Several processes ask one segment of shared memory at once where `TIDEGATE_SHM_DIR` names
//! a directory for it.

#[path = "../tests/support/open.rs"]
mod open;

use std::process::ExitCode;
use std::sync::Arc;

use tidegate::Store;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::{Subject, differential};
use tidegate_memory::MemoryStore;

/// How often it says how far it is.
const REPORTS: usize = 20;

/// Seeds lie this far apart from report to report.
const STRIDE: u64 = 1 << 32;

/// What is asked for.
struct Wish {
    commands: usize,
    seed: u64,
    subject: Subject,
}

fn main() -> ExitCode {
    match wish(std::env::args().skip(1)) {
        Ok(wish) => run(&wish),
        Err(wrong) => {
            eprintln!(
                "{wrong}; --commands N, --seed N and --store memory, shm, mariadb, postgres, redis or redis-by-scripts are understood"
            );
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run(wish: &Wish) {
    let mut asked = 0;
    for report in 0..REPORTS {
        let seed = wish.seed.wrapping_add(STRIDE * report as u64);
        asked += differential(&wish.subject, seed, wish.commands.div_ceil(REPORTS));
        println!("{asked:>12} commands answered as by the reference, from seed {seed} on");
    }
}

fn wish(mut arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
    let (mut commands, mut seed, mut store) = (1_000_000, 1, "memory".to_owned());
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = value.parse::<u64>();
        let number = number.map_err(|_| format!("`{argument} {value}` is no number"));
        match argument.as_str() {
            "--commands" => commands = number? as usize,
            "--seed" => seed = number?,
            "--store" => store = value,
            other => return Err(format!("`{other}` is not known")),
        }
    }
    Ok(Wish {
        commands,
        seed,
        subject: subject(&store)?,
    })
}

fn subject(store: &str) -> Result<Subject, String> {
    match store {
        "memory" => {
            let subject = Subject::new(|| Arc::new(MemoryStore::default()) as _);
            Ok(subject.drops_spent_state_early())
        }
        "shm" => {
            let own = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
            let dir = std::env::var("TIDEGATE_SHM_DIR");
            let dir = dir.unwrap_or_else(|_| own.path().display().to_string());
            Ok(served(open::shm, &dir, own))
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
    let store = open(url);
    Subject::new(move || {
        let _stays = &server;
        Arc::clone(&store)
    })
}
