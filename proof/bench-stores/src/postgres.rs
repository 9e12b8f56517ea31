//! PostgreSQL: one function call a decision, beside one `UPDATE ... RETURNING`. The
//! server's own client, `pgbench`, asks both, over the same protocol: so what is
//! compared is the server's work; the store's own way to ask stands below it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tidegate_conformance::fixture::{Fixture, hourly, machine_time, plan, rate, slots};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_postgres::{Options, PostgresStore};
use tidegate_store::Store;
use tidegate_store::core::Rule;
use tokio_postgres::{Client, NoTls, Statement};

use crate::bench::Bench;
use crate::drive::{Clients, Lap, drive, runtime};
use crate::host::Host;
use crate::measure::{Contender, Outcome, compare};
use crate::ours::{Counted, Ours};

/// Keys of the scripts that are not about a hot one.
const KEYS: u32 = 100_000;
const CONNECTIONS: usize = 8;

/// What every session of the store sets, too.
const SESSION: &str = "-c plan_cache_mode=force_generic_plan -c jit=off -c search_path=pg_catalog";

/// A row that is counted up: `{key}` is its number.
const UPDATE: &str = "UPDATE public.counts SET n = n + 1 WHERE id = {key} RETURNING n;";

/// A take from a single bucket of a thousand million a second.
const BUCKET: &str = "SELECT tidegate.take_plain({tab}, 1, tidegate.clock(), false, int4send({key}), 1, 0, \
    1000, 1000000000, 1, 10000000);";

/// A take from a bucket, a budget and nothing of the slots, by the general way.
const THREE: &str = "SELECT tidegate.decide({tab}, 1, 0, false, int4send({key}), '{4}', NULL, \
    '{}', '{}', 0, '{1,1,0}', 0, NULL, 0, NULL, 0, '{}', false, NULL);";

pub fn rows(bench: &Bench) -> Vec<Outcome> {
    let settings = ["shared_buffers=512MB", "max_wal_size=4GB"];
    let Some(server) = PostgresServer::start_with(&settings) else {
        return Vec::new();
    };
    let host = Host::new(server.pid());
    let (one, three) = prepare(&server);
    let mut outcomes = Vec::new();
    for (number, keys, waits) in [
        (1, 1, false),
        (CONNECTIONS, 1, false),
        (CONNECTIONS, KEYS, false),
        (1, 1, true),
        (CONNECTIONS, 1, true),
        (CONNECTIONS, KEYS, true),
    ] {
        let clients = Clients { number, keys };
        let asked = |what, text: &str, set: i32| {
            let (script, server) = (script(text, set, keys), &server);
            let lap = move |lap| pgbench(server, &script, number, waits, lap);
            Contender {
                what,
                lap: Box::new(lap),
            }
        };
        let contenders = vec![
            asked("UPDATE ... RETURNING", UPDATE, 0),
            asked("one limit (aim 0.7)", BUCKET, one),
            asked("a bucket, a budget and slots", THREE, three),
        ];
        let disk = if waits {
            "waits for its disk"
        } else {
            "does not wait"
        };
        let row = format!("postgres by pgbench, {}, {disk}", clients.name());
        outcomes.extend(compare(bench, &row, host, contenders));
    }
    outcomes.extend(by_the_store(bench, &server, host));
    outcomes
}

/// The tables, and the numbers of the sets.
fn prepare(server: &PostgresServer) -> (i32, i32) {
    let store = PostgresStore::open(&server.url(), Options::default()).expect("a server");
    let bucket = rate(1_000_000_000, 1_000_000_000);
    let rules = [(0, bucket), (0, hourly(1 << 50)), (0, slots(5))];
    let open = |name: &str, rules: &[(usize, Rule)]| {
        let plan = plan(0, 1, rules);
        let fixture = Fixture::at(&store as &dyn Store, name, plan, machine_time());
        let first = 1_i32.to_be_bytes();
        assert!(fixture.admits(&first, &[1, 1, 0][..rules.len()]));
    };
    open("one", &rules[..1]);
    open("three", &rules);
    let table = format!(
        "CREATE TABLE public.counts (id int PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 60);
         INSERT INTO public.counts SELECT id, 0 FROM generate_series(1, {KEYS}) AS id;
         INSERT INTO tidegate.rows (tab, revision, latest, forget_at, due, followed, tat, drain, key,
            states) SELECT tab, revision, latest, forget_at, due, followed, tat, drain, int4send(id),
            states FROM tidegate.rows, generate_series(2, {KEYS}) AS id;
         VACUUM ANALYZE"
    );
    for statement in table.split(';') {
        let mut psql = client(server, "psql");
        let done = psql.args(["-q", "-c", statement, "postgres"]).status();
        assert!(done.expect("psql runs").success());
    }
    (set_number(server, "one"), set_number(server, "three"))
}

/// What the server knows a set by.
fn set_number(server: &PostgresServer, name: &str) -> i32 {
    let statement = format!("SELECT tab FROM tidegate.sets WHERE name = '{name}'");
    let mut psql = client(server, "psql");
    let output = psql.args(["-At", "-c", &statement, "postgres"]).output();
    let text = output.expect("psql runs").stdout;
    let text = String::from_utf8_lossy(&text);
    text.trim().parse().expect("a set of that name")
}

fn script(text: &str, set: i32, keys: u32) -> String {
    let text = text.replace("{tab}", &set.to_string());
    match keys {
        1 => text.replace("{key}", "1"),
        keys => format!(
            "\\set key random(1, {keys})\n{}",
            text.replace("{key}", ":key")
        ),
    }
}

fn pgbench(
    server: &PostgresServer,
    script: &str,
    clients: usize,
    waits: bool,
    lap: Duration,
) -> Lap {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script).expect("a script");
    // It counts whole seconds.
    let seconds = lap.as_secs().max(1);
    let commit = if waits { "on" } else { "off" };
    let mut command = client(server, "pgbench");
    command.env(
        "PGOPTIONS",
        format!("{SESSION} -c synchronous_commit={commit}"),
    );
    command.args(["-n", "-M", "prepared", "-c", &clients.to_string()]);
    command.args(["-T", &seconds.to_string(), "-f"]).arg(&file);
    let output = command.arg("postgres").output().expect("pgbench runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    let rate = rate.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    Lap {
        asked: rate * seconds as f64,
        seconds: seconds as f64,
    }
}

fn client(server: &PostgresServer, program: &str) -> Command {
    let mut command = Command::new(Path::new(server.programs()).join(program));
    command.args(["-h", "127.0.0.1", "-U", "tidegate"]);
    command.args(["-p", &server.port().to_string()]);
    command
}

/// The store beside the same `UPDATE` by the client that it uses.
fn by_the_store(bench: &Bench, server: &PostgresServer, host: Host) -> Vec<Outcome> {
    let runtime = runtime();
    let options = Options {
        connections: CONNECTIONS,
        deadline: Duration::from_secs(60),
        waits_for_disk: false,
        ..Options::default()
    };
    let store = PostgresStore::open(&server.url(), options).expect("a server");
    let (one, three) = (
        Ours::new(&store, "one rate", 1),
        Ours::new(&store, "three rates", 3),
    );
    let leases = Ours::of_leases(&store, "leases");
    let counted = Counted::new(&store);
    let asked = runtime.block_on(connections(server));
    let update = move |client: usize, key: u32| {
        let asked = Arc::clone(&asked[client]);
        async move {
            let key = i32::try_from(key + 1).expect("a small number");
            let row = asked.0.query_one(&asked.1, &[&key]).await;
            row.expect("an answer");
        }
    };
    let mut outcomes = Vec::new();
    for (number, keys) in [(1, 1), (CONNECTIONS, 1), (CONNECTIONS, KEYS)] {
        let clients = Clients { number, keys };
        let contenders = vec![
            Contender {
                what: "UPDATE ... RETURNING",
                lap: Box::new(|lap| drive(&runtime, clients, lap, update.clone())),
            },
            one.contender("one limit", &runtime, clients),
            three.contender("three limits", &runtime, clients),
        ];
        let row = format!("postgres by the store, {}, does not wait", clients.name());
        outcomes.extend(compare(bench, &row, host, contenders));
        let row = format!("postgres, leases, {}, does not wait", clients.name());
        let contenders = leases.beside_two_of(
            "three limits, lease, settle (aim 0.4)",
            update.clone(),
            &runtime,
            clients,
        );
        outcomes.extend(compare(bench, &row, host, contenders));
        outcomes.extend(counted.rows(bench, ("postgres", host), &runtime, clients));
    }
    outcomes
}

/// One for each client.
async fn connections(server: &PostgresServer) -> Vec<Arc<(Client, Statement)>> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let url = format!("{}?options=-c%20synchronous_commit%3Doff", server.url());
        let (client, connection) = tokio_postgres::connect(&url, NoTls)
            .await
            .expect("a server");
        tokio::spawn(connection);
        let update = UPDATE.replace("{key}", "$1");
        let statement = client.prepare(&update).await.expect("a statement");
        connections.push(Arc::new((client, statement)));
    }
    connections
}
