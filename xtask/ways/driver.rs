//! One kind of decision on one store, so many times: `driver STORE KIND TIMES`, where
//! STORE is `memory` or a Redis URL and KIND is `check` or `lease`. Built by `cargo
//! xtask ways` against the library of any commit: verbs that are waited for come with
//! the feature `pending`.

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Limit, LimitSet};
use tidegate_redis::{Options, RedisStore};

#[cfg(feature = "pending")]
macro_rules! ended {
    ($verb:expr) => {
        $verb.wait()
    };
}
#[cfg(not(feature = "pending"))]
macro_rules! ended {
    ($verb:expr) => {
        $verb
    };
}

const PLENTY: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("driver STORE KIND TIMES");
    let (store, kind, times): (_, _, u32) = (next()?, next()?, next()?.parse()?);
    let minute = Duration::from_secs(60);
    let mut limits = vec![Limit::rate("requests", PLENTY, minute)];
    if kind == "lease" {
        limits.push(Limit::rate("tokens", PLENTY, minute));
        limits.push(Limit::concurrency("running", 100));
    }
    let mut set = LimitSet::builder().name("ways").limits(limits);
    if store != "memory" {
        // What counts every instruction is slow.
        let options = Options {
            deadline: Duration::from_secs(60),
            ..Options::default()
        };
        set = set.store(Arc::new(RedisStore::open(&store, options)?));
    }
    let set = set.build()?;
    for _ in 0..times {
        match kind.as_str() {
            "check" => assert!(ended!(set.check("alice", 1))?.admitted()),
            "lease" => {
                let asked = [("requests", 1), ("tokens", 30), ("running", 1)];
                let lease = ended!(set.try_acquire("alice", &asked))?.granted();
                let settled = ended!(lease.ok_or("refused")?.settle(&[("tokens", 20)]));
                settled?;
            }
            _ => return Err("KIND is check or lease".into()),
        }
    }
    Ok(())
}
