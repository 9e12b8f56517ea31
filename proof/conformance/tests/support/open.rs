//! Stores on servers, as a test opens them: by the caller's clock, and patient.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Store;
use tidegate_mysql::MysqlStore;
use tidegate_postgres::PostgresStore;
use tidegate_redis::RedisStore;
use tidegate_remote::RemoteStore;
use tidegate_shm::ShmStore;

const DEADLINE: Duration = Duration::from_secs(60);

pub fn redis(url: &str) -> Arc<dyn Store> {
    opened(url, true)
}

pub fn redis_by_scripts(url: &str) -> Arc<dyn Store> {
    opened(url, false)
}

fn opened(url: &str, functions: bool) -> Arc<dyn Store> {
    let options = tidegate_redis::Options {
        clock: tidegate_redis::Clock::Caller,
        deadline: DEADLINE,
        functions,
        ..tidegate_redis::Options::default()
    };
    Arc::new(RedisStore::open(url, options).expect("a server"))
}

pub fn postgres(url: &str) -> Arc<dyn Store> {
    let options = tidegate_postgres::Options {
        clock: tidegate_postgres::Clock::Caller,
        deadline: DEADLINE,
        waits_for_disk: false,
        ..tidegate_postgres::Options::default()
    };
    Arc::new(PostgresStore::open(url, options).expect("a server"))
}

pub fn mariadb(url: &str) -> Arc<dyn Store> {
    let options = tidegate_mysql::Options {
        clock: tidegate_mysql::Clock::Caller,
        deadline: DEADLINE,
        connections: 2,
        ..tidegate_mysql::Options::default()
    };
    Arc::new(MysqlStore::open(url, options).expect("a server"))
}

/// That of a server which offers it.
pub fn remote(url: &str) -> Arc<dyn Store> {
    let options = tidegate_remote::Options {
        deadline: DEADLINE,
        ..tidegate_remote::Options::default()
    };
    RemoteStore::open(url, options).expect("a server")
}

/// The segment in a directory.
pub fn shm(dir: &str) -> Arc<dyn Store> {
    let options = tidegate_shm::Options {
        dir: dir.into(),
        size: 1 << 30,
        clock: tidegate_shm::Clock::Caller,
        deadline: DEADLINE,
        ..tidegate_shm::Options::default()
    };
    Arc::new(ShmStore::open("suite", options).expect("a segment"))
}
