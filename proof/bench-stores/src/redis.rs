//! Redis: a script call a decision, beside the smallest script that limits a rate.

use std::sync::Arc;
use std::time::Duration;

use redis::Script;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::{Options, RedisStore};

use crate::bench::Bench;
use crate::drive::{Clients, drive, runtime};
use crate::host::Host;
use crate::measure::{Contender, Outcome, compare};
use crate::ours::{Counted, Ours};

/// The theoretical arrival time alone, in doubles: what is asked of a rate limiter
/// at the least.
const GCRA: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + ARGV[1]
if new - now > tonumber(ARGV[2]) then return {0, new - now - ARGV[2]} end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', string.format('%.0f', (new - now) / 1000 + 1))
return {1, 0}";

pub fn rows(bench: &Bench) -> Vec<Outcome> {
    let Some(server) = RedisServer::start() else {
        return Vec::new();
    };
    let (host, runtime) = (Host::new(server.pid()), runtime());
    let client = redis::Client::open(server.url()).expect("an address");
    let connection = runtime.block_on(client.get_multiplexed_async_connection());
    let connection = connection.expect("a server");
    let options = Options {
        deadline: Duration::from_secs(30),
        ..Options::default()
    };
    let store = RedisStore::open(&server.url(), options).expect("a server");
    let (one, three) = (Ours::new(&store, "one", 1), Ours::new(&store, "three", 3));
    let leases = Ours::of_leases(&store, "leases");
    let counted = Counted::new(&store);
    let script = Arc::new(Script::new(GCRA));
    let gcra = move |_, key: u32| {
        let (script, mut connection) = (Arc::clone(&script), connection.clone());
        async move {
            let mut call = script.key(format!("gcra {key}"));
            call.arg(1).arg(1_000_000_000_u64);
            let [admitted, _]: [u64; 2] =
                call.invoke_async(&mut connection).await.expect("an answer");
            assert_eq!(admitted, 1);
        }
    };
    let mut outcomes = Vec::new();
    for (number, keys) in [(1, 1), (50, 1), (1, 100_000), (50, 100_000)] {
        let clients = Clients { number, keys };
        let contenders = vec![
            Contender {
                what: "EVALSHA, the smallest GCRA",
                lap: Box::new(|lap| drive(&runtime, clients, lap, gcra.clone())),
            },
            one.contender("one limit (aim 0.8)", &runtime, clients),
            three.contender("three limits (aim 0.6)", &runtime, clients),
        ];
        let row = format!("redis, {}", clients.name());
        outcomes.extend(compare(bench, &row, host, contenders));
        let row = format!("redis, leases, {}", clients.name());
        let contenders = leases.beside_two_of(
            "three limits, lease, settle (aim 0.6)",
            gcra.clone(),
            &runtime,
            clients,
        );
        outcomes.extend(compare(bench, &row, host, contenders));
        outcomes.extend(counted.rows(bench, ("redis", host), &runtime, clients));
    }
    outcomes
}
