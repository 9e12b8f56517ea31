//! A server that keeps snapshots alone (`save`, and no append-only file), killed between two of them:
//! what the last one has stands, what came after it is forgotten, and nothing is charged twice.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{ask, connect, open};
use tidegate::{LeaseError, LeaseId, Limit, LimitSet, Request};
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::Clock;

const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn budget(server: &RedisServer) -> LimitSet {
    let set = LimitSet::builder().name("t");
    let set = set.limit(Limit::budget("usd", 100, YEAR));
    let slots = Limit::concurrency("running", 4).ttl(Duration::from_secs(3_600));
    let set = set
        .limit(slots)
        .store(Arc::new(open(server, Clock::Server)));
    set.build().expect("sound limits")
}

fn lease(set: &LimitSet, usd: u64) -> LeaseId {
    let amounts = [("usd", usd)];
    let granted = set.try_acquire("k", Request::from(&amounts)).wait();
    let granted = granted.expect("an answer").granted();
    granted.expect("there is room").detach()
}

/// What is left of both.
fn left(set: &LimitSet) -> [u64; 2] {
    let decision = set.peek("k", 1).wait().expect("an answer");
    ["usd", "running"].map(|name| decision.remaining(name).expect("known"))
}

/// Elsewhere spend was too low once Redis had loaded its dump again (LiteLLM #30684).
#[test]
fn what_the_last_snapshot_has_stands_and_what_came_after_it_is_forgotten() {
    let Some(mut server) = RedisServer::start_with(&["--save", "3600 1"]) else {
        return;
    };
    let before = budget(&server);
    let (settled, held) = (lease(&before, 20), lease(&before, 30));
    let used = before.settle("k", settled, &[("usd", 10)]).wait();
    assert!(!used.expect("it is held").repeated());
    assert_eq!(left(&before), [60, 3]);
    let saved: String = ask(&mut connect(&server), &["SAVE"]);
    assert_eq!(saved, "OK");
    let late = lease(&before, 40);
    before
        .settle("k", held, &[("usd", 35)])
        .wait()
        .expect("it is held");
    assert_eq!(left(&before), [15, 3]);

    server.kill();
    server.start_again();
    let after = budget(&server);
    assert_eq!(left(&after), [60, 3], "as it was at the snapshot");
    // What was settled before it is: a retry charges nothing.
    let retried = after.settle("k", settled, &[("usd", 10)]).wait();
    assert!(retried.expect("it is remembered").repeated());
    // What was held then is held: who settles it again charges what it has used, once.
    let again = after.settle("k", held, &[("usd", 35)]).wait();
    assert!(!again.expect("it is held").repeated());
    // Of what was granted since then nobody knows.
    let unknown = after.settle("k", late, &[("usd", 40)]).wait();
    assert!(matches!(unknown, Err(LeaseError::Unknown)), "{unknown:?}");
    assert_eq!(left(&after), [55, 4]);
}
