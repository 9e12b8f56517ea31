//! A request whose caller goes away, and its retry.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::open;
use tidegate::{Limit, LimitSet, Request};
use tidegate_conformance::Paused;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::Clock;

/// A client gives up while its request is under way, and asks again by its idempotency key:
/// the lease that it is told of then is not cancelled behind its back.
#[test]
fn what_was_granted_to_nobody_stays_for_its_retry() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = Arc::new(open(&server, Clock::Server));
    let builder = LimitSet::builder().name("mutex").store(store);
    let set = builder.limit(Limit::concurrency("running", 1)).build();
    let set = set.expect("a sound set");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let ask = || Request::default().idempotency(b"job 1");
        let others = || async {
            let asked = set
                .acquire("k", Request::default().within(Duration::ZERO))
                .await;
            asked.expect("an answer").granted()
        };
        drop(others().await.expect("it is free"));
        let paused = Paused::new(server.pid());
        let gives_up = Duration::from_millis(100);
        let asked = tokio::time::timeout(gives_up, set.acquire("k", ask())).await;
        assert!(asked.is_err(), "the server stands still");
        drop(paused);
        let retry = set.acquire("k", ask()).await.expect("an answer");
        let mut retry = retry.granted().expect("it is held, or free");
        for _ in 0..50 {
            assert!(others().await.is_none(), "two hold one mutex");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(retry.renew(Duration::from_secs(60)).wait().is_ok());
    });
}
