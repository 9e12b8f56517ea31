//! How long a decision takes the server, beside the smallest UPDATE there is:
//! `cargo run --release -p tidegate-postgres --example beside_pgbench [rounds]`.
//!
//! `pgbench` asks both, over the same protocol, in turns: of each the median of
//! the rounds is told, since whatever else the machine does hits both.

use std::path::Path;
use std::process::Command;

use tidegate_conformance::desk::{Desk, hourly, machine_time, plan, slots};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_contract::Store;
use tidegate_contract::core::{Bucket, Rule, Span};
use tidegate_postgres::{Options, PostgresStore};

/// How long one script runs, in seconds.
const SECONDS: &str = "2";

/// Keys of the scripts that are not about a hot one.
const KEYS: usize = 100_000;

/// What every session of the store sets, too.
const SESSION: &str = "-c plan_cache_mode=force_generic_plan -c jit=off -c search_path=pg_catalog";

/// A row that is counted up: `{key}` is its number.
const UPDATE: &str = "UPDATE public.counts SET n = n + 1 WHERE id = {key} RETURNING n;";

/// A take from a lone bucket of a thousand million a second.
const BUCKET: &str = "SELECT tidegate.decide_bucket({tab}, 1, 0, false, int4send({key}), 1, 0, \
    1000, 1, 1000000000, 1, 10000000);";

/// A take from a bucket, a budget and nothing of the slots, by the general way.
const THREE: &str = "SELECT tidegate.decide({tab}, 1, 0, false, int4send({key}), '{4}', NULL, \
    '{}', '{}', 0, '{1,1,0}', 0, NULL, 0, NULL, 0, '{}', false, NULL);";

fn main() {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let Some(server) = PostgresServer::start_with(&["shared_buffers=512MB", "max_wal_size=4GB"])
    else {
        return;
    };
    let (one, three) = prepare(&server);
    let keyed = |text: &str, tab: i32, hot: bool| {
        let key = if hot { "1" } else { ":key" };
        let text = text
            .replace("{tab}", &tab.to_string())
            .replace("{key}", key);
        match hot {
            true => text,
            false => format!("\\set key random(1, {KEYS})\n{text}"),
        }
    };
    println!("clients  key   disk  UPDATE/s  bucket/s       three/s");
    for (clients, hot, waits) in [
        ("1", true, false),
        ("8", true, false),
        ("8", false, false),
        ("1", true, true),
        ("8", true, true),
        ("8", false, true),
    ] {
        let scripts = [(UPDATE, 0), (BUCKET, one), (THREE, three)];
        let scripts = scripts.map(|(text, tab)| keyed(text, tab, hot));
        let [update, bucket, three] =
            medians(&server, &scripts, clients, waits, rounds.unwrap_or(5));
        println!(
            "{clients:>7}  {:<4}  {:<4}  {update:>8.0}  {bucket:>8.0} {:.2}  {three:>8.0} {:.2}",
            if hot { "hot" } else { "100k" },
            if waits { "wait" } else { "off" },
            bucket / update,
            three / update,
        );
    }
}

/// The tables, and the numbers of the sets.
fn prepare(server: &PostgresServer) -> (i32, i32) {
    let store = PostgresStore::open(&server.url(), Options::default()).expect("a server");
    let bucket = Bucket::new(1_000_000_000, Span::SECOND, 1_000_000_000);
    let bucket = Rule::Bucket(bucket.expect("a sound rate"));
    let rules = [(0, bucket), (0, hourly(1 << 50)), (0, slots(5))];
    let open = |name: &str, rules: &[(usize, Rule)]| {
        let desk = Desk::at(
            &store as &dyn Store,
            name,
            plan(0, 1, rules),
            machine_time(),
        );
        let first = 1_i32.to_be_bytes();
        assert!(desk.admits(&first, &[1, 1, 0][..rules.len()]));
    };
    open("one", &rules[..1]);
    open("three", &rules);
    let table = format!(
        "CREATE TABLE public.counts (id int PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 60);
         INSERT INTO public.counts SELECT id, 0 FROM generate_series(1, {KEYS}) AS id;
         INSERT INTO tidegate.rows (tab, edition, latest, forget_at, due, followed, level, at, key,
            cells) SELECT tab, edition, latest, forget_at, due, followed, level, at, int4send(id),
            cells FROM tidegate.rows, generate_series(2, {KEYS}) AS id;
         VACUUM ANALYZE"
    );
    for statement in table.split(';') {
        run(server, "psql", &["-q", "-c", statement]);
    }
    (1, 2)
}

/// Of each script so many a second, the median of the rounds.
fn medians(
    server: &PostgresServer,
    scripts: &[String; 3],
    clients: &str,
    waits: bool,
    rounds: usize,
) -> [f64; 3] {
    let mut found = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (script, found) in scripts.iter().zip(&mut found) {
            found.push(measure(server, script, clients, waits));
        }
    }
    found.map(|mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    })
}

fn measure(server: &PostgresServer, script: &str, clients: &str, waits: bool) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script).expect("a script");
    let file = file.to_string_lossy().into_owned();
    let commit = if waits { "on" } else { "off" };
    let session = format!("{SESSION} -c synchronous_commit={commit}");
    let mut command = client(server, "pgbench");
    command.env("PGOPTIONS", session);
    command.args([
        "-n", "-M", "prepared", "-c", clients, "-T", SECONDS, "-f", &file,
    ]);
    let output = command.arg("postgres").output().expect("pgbench runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|rest| rest.split(' ').next()?.parse().ok());
    rate.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

fn run(server: &PostgresServer, program: &str, arguments: &[&str]) {
    let status = client(server, program)
        .args(arguments)
        .arg("postgres")
        .status();
    assert!(status.expect("it runs").success());
}

fn client(server: &PostgresServer, program: &str) -> Command {
    let mut command = Command::new(Path::new(server.programs()).join(program));
    command.args(["-h", "127.0.0.1", "-U", "tidegate"]);
    command.args(["-p", &server.port().to_string()]);
    command
}
