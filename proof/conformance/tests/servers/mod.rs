//! Stores on each of the servers that this machine has, a connection of its own for each.

use std::sync::Arc;
use std::time::Duration;

use tidegate_mysql::MysqlStore;
use tidegate_postgres::PostgresStore;
use tidegate_redis::RedisStore;
use tidegate_store::Store;

/// Opens a store on the server of this address.
pub type Open = fn(&str) -> Arc<dyn Store>;

/// Longer than a server takes.
const DEADLINE: Duration = Duration::from_secs(20);

pub fn redis(url: &str) -> Arc<dyn Store> {
    let options = tidegate_redis::Options {
        deadline: DEADLINE,
        ..Default::default()
    };
    Arc::new(RedisStore::open(url, options).expect("a server"))
}

pub fn postgres(url: &str) -> Arc<dyn Store> {
    let options = tidegate_postgres::Options {
        deadline: DEADLINE,
        ..Default::default()
    };
    Arc::new(PostgresStore::open(url, options).expect("a server"))
}

pub fn mariadb(url: &str) -> Arc<dyn Store> {
    let options = tidegate_mysql::Options {
        deadline: DEADLINE,
        ..Default::default()
    };
    Arc::new(MysqlStore::open(url, options).expect("a server"))
}

/// A test of the same name on each of the servers that this machine has.
macro_rules! on_each {
    ($($name:ident)*) => {
        $crate::servers::on_each!(@ on_redis, redis: $($name)*);
        $crate::servers::on_each!(@ on_postgres, postgres: $($name)*);
        $crate::servers::on_each!(@ on_mariadb, mariadb: $($name)*);
    };
    (@ $room:ident, $server:ident: $($name:ident)*) => {
        mod $room { $(#[test] fn $name() {
            let servers = tidegate_conformance::Beyond::$server();
            servers.iter().for_each(|server| super::$name(server, crate::servers::$server));
        })* }
    };
}
pub(crate) use on_each;
