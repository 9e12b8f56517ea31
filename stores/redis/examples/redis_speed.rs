//! How long a decision takes the server, beside the smallest GCRA script:
//! `cargo run --release -p tidegate-redis --example redis_speed`.
//!
//! Fifty clients ask at once over one connection. The server's own time for each
//! call (`INFO commandstats`) says more than the rate where client and server
//! share the cores.

use std::sync::Arc;
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_contract::core::{Bucket, Payment, Rule, Slots, Span, Timestamp};
use tidegate_contract::{
    Command, Detail, Ending, KeyPath, Plan, PlanLimit, Store, Table, Terms, Verb,
};
use tidegate_redis::{Options, RedisStore};

const CLIENTS: usize = 50;
const CALLS: usize = 1_000;
const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// The theoretical arrival time alone, in doubles: what is asked of a rate
/// limiter at the least.
const GCRA: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + ARGV[1]
if new - now > tonumber(ARGV[2]) then return {0, new - now - ARGV[2]} end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', string.format('%.0f', (new - now) / 1000 + 1))
return {1, 0}";

fn limit(uid: u32, rule: Rule) -> PlanLimit {
    PlanLimit {
        name: format!("limit {uid}").into(),
        uid,
        rule,
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
    }
}

fn plan(rules: &[Rule]) -> Arc<Plan> {
    let limits = rules.iter().enumerate();
    let limits = limits.map(|(uid, rule)| limit(uid as u32, *rule)).collect();
    Arc::new(Plan::new(0, 1, limits, Span::SECOND))
}

fn rate(amount: u64) -> Rule {
    Rule::Bucket(Bucket::new(amount, Span::SECOND, 1_000_000).expect("a sound rate"))
}

/// Runs `one` for every call of every client; prints what it took.
async fn measure<F: Future<Output = ()> + Send + 'static>(
    name: &str,
    connection: &mut MultiplexedConnection,
    one: impl Fn(usize, usize) -> F + Clone + Send + Sync + 'static,
) {
    one(CLIENTS, 0).await;
    let () = redis::cmd("CONFIG")
        .arg("RESETSTAT")
        .query_async(connection)
        .await
        .expect("an answer");
    let start = now();
    let clients = (0..CLIENTS).map(|client| {
        let one = one.clone();
        tokio::spawn(async move {
            for call in 0..CALLS {
                one(client, call).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client that ends");
    }
    let rate = (CLIENTS * CALLS) as f64 / now().duration_since(start).as_secs_f64();
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(connection)
        .await
        .expect("an answer");
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha"));
    let per_call = line.and_then(|line| line.split("usec_per_call=").nth(1));
    let per_call = per_call
        .and_then(|rest| rest.split(',').next())
        .unwrap_or("?");
    println!("{name:<34} {per_call:>8} us of the server each, {rate:>9.0} calls/s");
}

#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn now() -> Instant {
    Instant::now()
}

async fn gcra(connection: &mut MultiplexedConnection) {
    let script = Arc::new(redis::Script::new(GCRA));
    let () = script
        .prepare_invoke()
        .load_async(connection)
        .await
        .map(|_: String| ())
        .expect("an answer");
    let shared = connection.clone();
    measure("the smallest GCRA script", connection, move |client, _| {
        let (script, mut connection) = (Arc::clone(&script), shared.clone());
        async move {
            let mut call = script.key(format!("gcra {client}"));
            call.arg(1_000).arg(1_000_000_000_u64);
            let _: Vec<u64> = call.invoke_async(&mut connection).await.expect("an answer");
        }
    })
    .await;
}

async fn takes(name: &str, store: &RedisStore, rules: &[Rule], from: &mut MultiplexedConnection) {
    let (plan, amounts) = (plan(rules), vec![1; rules.len()]);
    let table: Arc<dyn Table> = store.open(name, &plan).expect("a table");
    table.adopt(&plan, START, &[]);
    measure(name, from, move |client, _| {
        let key = format!("key {client}");
        let verb = Verb::Take {
            amounts: &amounts,
            lease: None,
            detail: Detail::Verdict,
        };
        let command = Command {
            plan: &plan,
            key: KeyPath::new(key.as_bytes(), 1).expect("a key"),
            now: START,
            calendars: &[],
            verb,
        };
        let sent = table.remote().expect("a remote table").send(&command);
        async move { drop(sent.await.expect("an answer")) }
    })
    .await;
}

async fn leases(name: &str, store: &RedisStore, from: &mut MultiplexedConnection) {
    let slots = Rule::Slots(Slots::new(100, Span::SECOND).expect("sound slots"));
    let plan = plan(&[slots]);
    let table: Arc<dyn Table> = store.open(name, &plan).expect("a table");
    table.adopt(&plan, START, &[]);
    measure(name, from, move |client, call| {
        let key = format!("key {client}");
        let id = (call / 2) as u128;
        let verb = match call % 2 {
            0 => Verb::Take {
                amounts: &[1],
                lease: Some(Terms {
                    id,
                    expires_at: START + Span::from_secs(60),
                    idempotency: None,
                }),
                detail: Detail::Verdict,
            },
            _ => Verb::End {
                id,
                ending: Ending::Release,
                remember: false,
            },
        };
        let command = Command {
            plan: &plan,
            key: KeyPath::new(key.as_bytes(), 1).expect("a key"),
            now: START,
            calendars: &[],
            verb,
        };
        let sent = table.remote().expect("a remote table").send(&command);
        async move { drop(sent.await) }
    })
    .await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let client = redis::Client::open(server.url()).expect("an address");
    let connection = client.get_multiplexed_async_connection().await;
    let mut connection = connection.expect("a server");
    let options = Options {
        deadline: std::time::Duration::from_secs(30),
        ..Options::default()
    };
    let store = RedisStore::open(&server.url(), options).expect("a server");
    gcra(&mut connection).await;
    takes("one rate", &store, &[rate(100)], &mut connection).await;
    takes(
        "one rate, beyond 2^53",
        &store,
        &[rate(999_983)],
        &mut connection,
    )
    .await;
    takes("three rates", &store, &[rate(100); 3], &mut connection).await;
    leases("a slot, taken and released", &store, &mut connection).await;
}
