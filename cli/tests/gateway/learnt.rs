//! Limits learnt from a provider that enforces them: two gateways on one store, as processes,
//! somebody else who uses the same account, and a limit that is halved and doubled under way.

use std::net::SocketAddr;
use std::path::Path;

use tidegate::Span;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_llm::Provider as Dialect;
use tidegate_sim::limit::{Kind, Limit, Unit};
use tidegate_sim::server::serve;
use tidegate_sim::settings::{Change, Pace, Settings};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::{CALLER, Gateway, SECRET, answered, folder_with, send};

const POLICY: &str = "
[policy.llm]
key = 'account/caller'
[policy.llm.limits]
tokens  = { rate = 1000, per = '1m', level = 'account', learnt = true }
running = { concurrency = 8, ttl = '10m' }
";

/// So long that no window ends while a test runs.
const MONTH: Span = Span::from_secs(30 * 86_400);

const fn tokens(capacity: u64) -> Limit {
    Limit {
        unit: Unit::Tokens,
        capacity,
        period: MONTH,
        kind: Kind::Window,
    }
}

/// A provider that enforces what it says.
struct Enforcing {
    at: SocketAddr,
    _runtime: Runtime,
}

impl Enforcing {
    fn start(changes: Vec<Change>) -> Self {
        let runtime = Runtime::new().expect("threads");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let at = listener.local_addr().expect("bound");
        let settings = Settings {
            limits: vec![tokens(1_000)],
            changes,
            // So that a test does not ask too often for one that comes.
            pace: Pace {
                first: Span::from_millis(20),
                ..Pace::default()
            },
            ..Settings::of(Dialect::OpenAi)
        };
        runtime.spawn(serve(listener, settings, 1));
        Self {
            at,
            _runtime: runtime,
        }
    }

    /// Somebody else uses so much of the account.
    fn use_elsewhere(&self, tokens: u64) {
        assert_eq!(call(self.at, SECRET, tokens), 200);
    }

    /// How many calls it has refused for a rate.
    fn refused(&self) -> u64 {
        let (_, ledger) = answered(send(self.at, ("GET", "/sim/ledger", SECRET), ""));
        let accounts: serde_json::Value = body(&ledger);
        let ours = accounts.as_object().expect("accounts").values();
        let refused = ours.map(|entry| entry["refused_rate"].as_u64().expect("a number"));
        refused.sum()
    }
}

fn body(answer: &str) -> serde_json::Value {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    let json = &body[body.find('{').expect("an object")..=body.rfind('}').expect("its end")];
    serde_json::from_str(json).expect("JSON")
}

/// A call that counts for so many tokens.
fn call(at: SocketAddr, secret: &str, tokens: u64) -> u16 {
    let body = format!(
        r#"{{"model":"m","max_tokens":{tokens},"messages":[{{"role":"user","content":"Hi"}}]}}"#
    );
    answered(send(at, ("POST", "/v1/chat/completions", secret), &body)).0
}

/// What a metric of the learnt limit says.
fn metric(gateway: &Gateway, name: &str) -> Option<u64> {
    let http = gateway.http.expect("it listens");
    let (_, answer) = answered(send(http, ("GET", "/metrics", ""), ""));
    let begins = format!("{name}{{");
    let line = answer.lines().find(|line| line.starts_with(&begins))?;
    let value: f64 = line.rsplit(' ').next()?.parse().ok()?;
    Some(value as u64)
}

/// Two on one store; on shared memory where none is named.
fn two(folder: &Path, provider: &Enforcing, store: Option<&str>) -> [Gateway; 2] {
    let upstream = format!("fake=openai@http://{}", provider.at);
    let flags = [
        "--http",
        "127.0.0.1:0",
        "--wait",
        "20s",
        "--upstream",
        &upstream,
    ];
    [(); 2].map(|()| match store {
        Some(store) => Gateway::on(store, folder, &flags),
        None => Gateway::told(folder, provider.at, &flags[..4]),
    })
}

#[test]
fn what_somebody_else_uses_is_charged_once_by_all_gateways_of_a_store() {
    is_charged_once(None);
}

#[test]
fn what_somebody_else_uses_is_charged_once_by_all_gateways_of_a_redis() {
    if let Some(redis) = RedisServer::start() {
        is_charged_once(Some(&redis.url()));
    }
}

fn is_charged_once(store: Option<&str>) {
    let (folder, provider) = (folder_with(POLICY), Enforcing::start(vec![]));
    let gateways = two(folder.path(), &provider, store);
    provider.use_elsewhere(400);
    // Both see it at once.
    std::thread::scope(|scope| {
        for gateway in &gateways {
            scope.spawn(|| assert_eq!(call(gateway.at, CALLER, 50), 200));
        }
    });
    let charged = || -> u64 {
        let charged = gateways.each_ref();
        let charged = charged.map(|one| metric(one, "tidegate_gateway_used_elsewhere_total"));
        charged.into_iter().flatten().sum()
    };
    // Of two that overtake each other on their way, the answer to one has counted the other: so much
    // more or less is charged, until the next answer or for a minute.
    let first = charged();
    assert!((340..=460).contains(&first), "{first} charged of 400");
    // Had both charged it, there would be room for two of these.
    for number in 0..8 {
        assert_eq!(call(gateways[number % 2].at, CALLER, 45), 200, "{number}");
    }
    assert_eq!(
        provider.refused(),
        0,
        "none of ours is refused by the provider"
    );
    let all = charged();
    assert!((340..=460).contains(&all), "{all} charged of 400");
}

/// One gateway learns, and the other goes by it before it has heard of the provider.
#[test]
fn a_limit_that_is_halved_and_doubled_under_way_is_followed_by_both_gateways() {
    is_followed(None);
}

#[test]
fn a_limit_that_is_halved_and_doubled_under_way_is_followed_by_both_gateways_of_a_redis() {
    if let Some(redis) = RedisServer::start() {
        is_followed(Some(&redis.url()));
    }
}

fn is_followed(store: Option<&str>) {
    let change = |millis, capacity| Change {
        after: Span::from_millis(millis),
        limit: tokens(capacity),
    };
    let changes = vec![change(1_000, 500), change(2_000, 2_000)];
    let (folder, provider) = (folder_with(POLICY), Enforcing::start(changes));
    let [one, other] = two(folder.path(), &provider, store);
    let mut limits = vec![];
    while limits.last() != Some(&2_000) {
        assert!(limits.len() < 400, "{limits:?}");
        assert_eq!(call(one.at, CALLER, 1), 200);
        limits.extend(metric(&one, "tidegate_gateway_limit"));
    }
    limits.dedup();
    assert!(
        [
            &[1_000, 500, 2_000][..],
            &[500, 2_000],
            &[1_000, 2_000],
            &[2_000]
        ]
        .contains(&&limits[..]),
        "{limits:?}"
    );
    // The gauge is of when the call was granted, and its own answer came later.
    let mut told = None;
    for _ in 0..400 {
        assert_eq!(call(other.at, CALLER, 1), 200);
        told = metric(&other, "tidegate_gateway_limit");
        if told == Some(2_000) {
            break;
        }
    }
    assert_eq!(told, Some(2_000));
    assert_eq!(provider.refused(), 0);
}
