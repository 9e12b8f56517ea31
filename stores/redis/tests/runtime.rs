//! No verb of the async kind holds up the thread it is polled on.

mod support;

use std::sync::Arc;

use support::{ask, connect};
use tidegate::{Limit, LimitSet, Request};
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::{Options, RedisStore};

/// What `work` comes to. While the server answers nobody, other work of the same
/// thread goes on.
async fn meanwhile<T>(server: &RedisServer, work: impl Future<Output = T>) -> T {
    let () = ask(&mut connect(server), &["CLIENT", "PAUSE", "300", "ALL"]);
    let others = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    };
    tokio::pin!(work);
    tokio::select! {
        biased;
        () = others => {}
        _ = &mut work => panic!("the server was paused"),
    }
    work.await
}

#[tokio::test(flavor = "current_thread")]
async fn a_thread_does_other_work_while_the_server_takes_its_time() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let options = Options {
        deadline: std::time::Duration::from_secs(30),
        ..Options::default()
    };
    let store = Arc::new(RedisStore::open(&server.url(), options).expect("a server"));
    let limits = [Limit::rate("r", 100, std::time::Duration::from_secs(3_600))];
    let set = LimitSet::builder().store(store).limits(limits).build();
    let set = set.expect("a sound set");
    let minute = std::time::Duration::from_secs(60);

    let checked = meanwhile(&server, set.check("k", 10)).await;
    assert!(checked.expect("an answer").admitted());
    let debited = meanwhile(&server, set.debit("k", 10)).await;
    assert!(debited.expect("an answer").admitted());
    let ask = Request::default().cost(30).within(minute);
    let lease = meanwhile(&server, set.acquire("k", ask)).await;
    let lease = lease.expect("an answer").granted().expect("it fits");
    let (id, until) = (lease.id(), lease.expires_at());
    lease.detach();
    let renewed = meanwhile(&server, set.renew("k", id, minute * 10)).await;
    assert!(renewed.expect("it is held") > until);
    let settled = meanwhile(&server, set.settle("k", id, &[("r", 5)])).await;
    assert!(!settled.expect("it is held").expired());
    let again = meanwhile(&server, set.release("k", id)).await;
    assert!(again.expect("it is remembered").repeated());
    let peeked = meanwhile(&server, set.peek("k", 1)).await;
    let standing = peeked.expect("an answer").standing("r");
    assert_eq!(standing.map(|standing| standing.remaining), Some(75));
}

#[tokio::test(flavor = "current_thread")]
async fn a_lease_that_is_dropped_holds_up_nobody() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = RedisStore::open(&server.url(), Options::default()).expect("a server");
    let builder = LimitSet::builder().store(Arc::new(store));
    let set = builder.limits([Limit::concurrency("gpu", 1)]).build();
    let set = set.expect("a sound set");
    let lease = set.acquire("k", Request::default()).await;
    let lease = lease.expect("an answer").granted().expect("it is free");
    meanwhile(&server, async {
        drop(lease);
        // Behind it on the same connection.
        let again = set.acquire("k", Request::default()).await;
        assert!(again.expect("an answer").granted().is_some());
    })
    .await;
}
