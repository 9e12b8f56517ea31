//! The differential test for as long as one likes, on the memory store or on
//! another: `cargo xtask differential --commands 1000000 --seed 1 --store redis`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tidegate::contract::Store;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::{Subject, differential};
use tidegate_memory::MemoryStore;
use tidegate_mysql::MysqlStore;
use tidegate_postgres::PostgresStore;
use tidegate_redis::{Clock, Options, RedisStore};

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
                "{wrong}; --commands N, --seed N and --store memory, mariadb, postgres or redis are understood"
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
        "memory" => Ok(Subject::new(|| Arc::new(MemoryStore::default()) as _)),
        "mariadb" => mariadb(),
        "redis" => redis(),
        "postgres" => postgres(),
        other => Err(format!("`{other}` is no store")),
    }
}

/// A server of its own, which runs for as long as the subject is there.
fn mariadb() -> Result<Subject, String> {
    let server = MariadbServer::start().ok_or("a MariaDB server is needed")?;
    let options = tidegate_mysql::Options {
        clock: tidegate_mysql::Clock::Caller,
        deadline: Duration::from_secs(60),
        ..tidegate_mysql::Options::default()
    };
    let store = MysqlStore::open(&server.url(), options).map_err(|error| error.to_string())?;
    let store = Arc::new(store);
    Ok(Subject::new(move || {
        let _stays = &server;
        Arc::clone(&store) as Arc<dyn Store>
    }))
}

/// A server of its own, which runs for as long as the subject is there.
fn redis() -> Result<Subject, String> {
    let server = RedisServer::start().ok_or("a Redis server is needed")?;
    let options = Options {
        clock: Clock::Caller,
        deadline: Duration::from_secs(60),
        ..Options::default()
    };
    let store = RedisStore::open(&server.url(), options).map_err(|error| error.to_string())?;
    let store = Arc::new(store);
    Ok(Subject::new(move || {
        let _stays = &server;
        Arc::clone(&store) as Arc<dyn Store>
    }))
}

/// Likewise.
fn postgres() -> Result<Subject, String> {
    let server = PostgresServer::start().ok_or("a PostgreSQL server is needed")?;
    let options = tidegate_postgres::Options {
        clock: tidegate_postgres::Clock::Caller,
        deadline: Duration::from_secs(60),
        waits_for_disk: false,
        ..tidegate_postgres::Options::default()
    };
    let store = PostgresStore::open(&server.url(), options).map_err(|error| error.to_string())?;
    let store = Arc::new(store);
    Ok(Subject::new(move || {
        let _stays = &server;
        Arc::clone(&store) as Arc<dyn Store>
    }))
}
