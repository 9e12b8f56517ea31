//! Stores beyond a network, which may be away.

use std::sync::Arc;

use metrics::{describe_gauge, gauge};
use tidegate::contract::Store;
use tidegate_guard::{Breaker, Guarded, Position, Settings};
use tracing::{info, warn};

use crate::trouble::{Outcome, Trouble};

/// One server, a cluster, or what sentinels know.
#[cfg(feature = "redis")]
pub fn redis(url: &str) -> Outcome<Arc<dyn Store>> {
    let options = tidegate_redis::Options::default();
    let store = tidegate_redis::RedisStore::open(url, options).map_err(Trouble::failure)?;
    Ok(guarded(Arc::new(store)))
}

#[cfg(not(feature = "redis"))]
pub fn redis(_: &str) -> Outcome<Arc<dyn Store>> {
    Err(Trouble::usage(
        "this build knows no Redis; build it with the feature `redis`",
    ))
}

/// The same, not asked by everyone while it is away; `/metrics` and the log say
/// when it goes and when it comes back.
fn guarded(store: Arc<dyn Store>) -> Arc<dyn Store> {
    describe_gauge!(
        "tidegate_store_answers",
        "1 while the store is asked, 0 while it is away"
    );
    let answers = gauge!("tidegate_store_answers");
    answers.set(1.0);
    let watcher = move |position, words: &str| match position {
        Position::Open => {
            answers.set(0.0);
            warn!(why = words, "the store is away, and not asked for a while");
        }
        Position::HalfOpen => {}
        Position::Closed => {
            answers.set(1.0);
            info!("the store answers again");
        }
    };
    let breaker = Breaker::new(Settings::default(), Some(Arc::new(watcher)));
    Arc::new(Guarded::new(store, Arc::new(breaker)))
}
