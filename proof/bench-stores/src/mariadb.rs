//! MariaDB: two round trips a decision, beside one `UPDATE` of one row by its key.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_mysql::{MysqlStore, Options};
use tokio::sync::Mutex;

use crate::bench::Bench;
use crate::drive::{Clients, drive, runtime};
use crate::host::Host;
use crate::measure::{Contender, Outcome, compare};
use crate::ours::{Counted, Ours};

const KEYS: u32 = 10_000;
const CONNECTIONS: usize = 8;

pub fn rows(bench: &Bench) -> Vec<Outcome> {
    let Some(server) = MariadbServer::start() else {
        return Vec::new();
    };
    let (host, runtime) = (Host::new(server.pid()), runtime());
    let options = Options {
        connections: CONNECTIONS,
        deadline: Duration::from_secs(60),
        ..Options::default()
    };
    let store = MysqlStore::open(&server.url(), options).expect("a server");
    let (one, three) = (Ours::new(&store, "one", 1), Ours::new(&store, "three", 3));
    let leases = Ours::of_leases(&store, "leases");
    let counted = Counted::new(&store);
    let connections = runtime.block_on(connections(&server));
    let update = move |client: usize, key: u32| {
        let connection = Arc::clone(&connections[client]);
        async move {
            let update = "UPDATE plain SET used = used + 1 WHERE name = ?";
            let mut connection = connection.lock().await;
            let done = connection.exec_drop(update, (format!("key {key}"),)).await;
            done.expect("an answer");
        }
    };
    let mut outcomes = Vec::new();
    for (number, keys) in [(1, 1), (CONNECTIONS, 1), (1, KEYS), (CONNECTIONS, KEYS)] {
        let clients = Clients { number, keys };
        let contenders = vec![
            Contender {
                what: "UPDATE of one row",
                lap: Box::new(|lap| drive(&runtime, clients, lap, update.clone())),
            },
            one.contender("one limit", &runtime, clients),
            three.contender("three limits", &runtime, clients),
        ];
        let row = format!("mariadb, {}", clients.name());
        outcomes.extend(compare(bench, &row, host, contenders));
        let row = format!("mariadb, leases, {}", clients.name());
        let contenders = leases.beside_two_of(
            "three limits, lease, settle (aim 0.4)",
            update.clone(),
            &runtime,
            clients,
        );
        outcomes.extend(compare(bench, &row, host, contenders));
        outcomes.extend(counted.rows(bench, ("mariadb", host), &runtime, clients));
    }
    outcomes
}

/// One for each client, to a server that has the rows.
async fn connections(server: &MariadbServer) -> Vec<Arc<Mutex<Conn>>> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let options = Opts::from_url(&format!("{}?prefer_socket=false", server.url()));
        let connection = Conn::new(options.expect("an address")).await;
        connections.push(Arc::new(Mutex::new(connection.expect("a server"))));
    }
    let mut first = connections[0].lock().await;
    let make = "CREATE TABLE plain (name VARBINARY(201) PRIMARY KEY, used BIGINT NOT NULL)";
    first.query_drop(make).await.expect("a table");
    let rows: Vec<String> = (0..KEYS).map(|key| format!("('key {key}', 0)")).collect();
    let fill = format!("INSERT INTO plain VALUES {}", rows.join(", "));
    first.query_drop(fill).await.expect("rows");
    drop(first);
    connections
}
