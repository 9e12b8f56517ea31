//! How many decisions a second a server takes, beside one `UPDATE` of one row by
//! primary key: `cargo run --release -p tidegate-mysql --example speed`.
//!
//! One client, and eight; one hot key, and ten thousand. The server is one of its
//! own, which does not wait for its disk (`innodb_flush_log_at_trx_commit = 2`).
//! Ratios of one run count.

use std::sync::Arc;
use std::time::Instant;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_contract::core::{Bucket, Payment, Rule, Span, Timestamp};
use tidegate_contract::{Command, Detail, KeyPath, Plan, PlanLimit, Reply, Store, Table, Verb};
use tidegate_mysql::{MysqlStore, Options};

/// Calls of all clients together.
const CALLS: usize = 8_000;
const KEYS: usize = 10_000;
const MOST_CLIENTS: usize = 8;
const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn plan(limits: u32, burst: u64) -> Arc<Plan> {
    let limit = |uid: u32| PlanLimit {
        name: format!("limit {uid}").into(),
        uid,
        rule: Rule::Bucket(Bucket::new(1, Span::from_secs(3_600), burst).expect("a sound rate")),
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
    };
    Arc::new(Plan::new(
        0,
        1,
        (0..limits).map(limit).collect(),
        Span::SECOND,
    ))
}

/// A key of each client's own for each call, or one for all.
fn key(client: usize, call: usize, keys: usize) -> String {
    format!("key {}", (client * 7_919 + call) % keys)
}

/// Runs `one` for every call of every client; answers how many there were a second.
async fn rate<F: Future<Output = ()> + Send + 'static>(
    clients: usize,
    one: impl Fn(usize, usize) -> F + Clone + Send + Sync + 'static,
) -> f64 {
    let start = now();
    let tasks = (0..clients).map(|client| {
        let one = one.clone();
        tokio::spawn(async move {
            for call in 0..CALLS / clients {
                one(client, call).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a client that ends");
    }
    CALLS as f64 / now().duration_since(start).as_secs_f64()
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn now() -> Instant {
    Instant::now()
}

/// One `UPDATE` a call, on a connection for each client.
async fn updates(server: &MariadbServer, clients: usize, keys: usize) -> f64 {
    let mut connections = Vec::new();
    for _ in 0..clients {
        let opts = Opts::from_url(&format!("{}?prefer_socket=false", server.url()));
        let conn = Conn::new(opts.expect("an address")).await;
        connections.push(Arc::new(tokio::sync::Mutex::new(conn.expect("a server"))));
    }
    rate(clients, move |client, call| {
        let conn = Arc::clone(&connections[client]);
        async move {
            let update = "UPDATE plain SET used = used + 1 WHERE name = ?";
            let done = conn
                .lock()
                .await
                .exec_drop(update, (key(client, call, keys),))
                .await;
            done.expect("an answer");
        }
    })
    .await
}

/// One take a call.
async fn takes(table: &Arc<dyn Table>, plan: &Arc<Plan>, clients: usize, keys: usize) -> f64 {
    let (table, plan) = (Arc::clone(table), Arc::clone(plan));
    rate(clients, move |client, call| {
        let key = key(client, call, keys);
        let amounts = vec![1; plan.limits().len()];
        let command = Command {
            plan: &plan,
            key: KeyPath::new(key.as_bytes(), 1).expect("a key"),
            now: START,
            calendars: &[],
            verb: Verb::Take {
                amounts: &amounts,
                lease: None,
                detail: Detail::Verdict,
            },
        };
        let sent = table.remote().expect("a remote table").send(&command);
        async move {
            let reply = sent.await.expect("an answer");
            assert!(matches!(reply, Reply::Decision(_)));
        }
    })
    .await
}

async fn make_plain_rows(server: &MariadbServer) {
    let conn = Conn::new(Opts::from_url(&server.url()).expect("an address")).await;
    let mut conn = conn.expect("a server");
    let make = "CREATE TABLE plain (name VARBINARY(201) PRIMARY KEY, used BIGINT NOT NULL)";
    conn.query_drop(make).await.expect("a table");
    let rows: Vec<String> = (0..KEYS).map(|key| format!("('key {key}', 0)")).collect();
    let fill = format!("INSERT INTO plain VALUES {}", rows.join(", "));
    conn.query_drop(fill).await.expect("rows");
}

#[tokio::main]
async fn main() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    make_plain_rows(&server).await;
    let options = Options {
        connections: MOST_CLIENTS,
        deadline: std::time::Duration::from_secs(60),
        ..Options::default()
    };
    let store = MysqlStore::open(&server.url(), options).expect("a server");
    let cases = [
        ("one limit", 1, 1 << 40),
        ("three limits", 3, 1 << 40),
        ("refusals", 1, 1),
    ];
    let tables = cases.map(|(name, limits, burst)| {
        let plan = plan(limits, burst);
        let table = store.open(name, &plan).expect("a table");
        table.adopt(&plan, START, &[]);
        (name, table, plan)
    });
    for (clients, keys) in [(1, 1), (1, KEYS), (MOST_CLIENTS, 1), (MOST_CLIENTS, KEYS)] {
        println!("{clients} clients, {keys} keys");
        // The first of two: its rows are made, and its statements prepared.
        let mut plain = 0.0;
        for _ in 0..2 {
            plain = updates(&server, clients, keys).await;
        }
        println!("  {:<14}{plain:>8.0} a second", "an UPDATE");
        for (name, table, plan) in &tables {
            let mut decided = 0.0;
            for _ in 0..2 {
                decided = takes(table, plan, clients, keys).await;
            }
            println!(
                "  {name:<14}{decided:>8.0} a second, {:.2}",
                decided / plain
            );
        }
    }
}
