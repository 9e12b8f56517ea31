//! Pools of several processes, over one store.

use std::sync::Arc;

use tidegate::Store;
use tidegate::{Balance, Lease, Limit, LimitPool, LimitSet, Request};

use super::fixture::table_name;
use crate::subject::{Skipped, Subject};

/// A process's pool of `eu` and `us`, in this order, with these limits each.
fn pool(store: &Arc<dyn Store>, name: &str, limits: &[Limit]) -> LimitPool {
    let member = |region: &str| {
        let set = LimitSet::builder().name(format!("{name} {region}"));
        let set = set.store(Arc::clone(store)).limits(limits.to_vec());
        set.build().expect("sound limits")
    };
    let pool = LimitPool::builder().balance(Balance::FirstAvailable);
    let pool = pool.member("eu", member("eu")).member("us", member("us"));
    pool.build().expect("two members")
}

fn granted(pool: &LimitPool, ask: Request<'_>) -> Lease {
    let admission = pool.try_acquire("k", ask).wait().expect("an answer");
    admission.granted().expect("a member is free")
}

/// The first member came free meanwhile: it is not for the retry.
pub(super) fn a_retry_at_another_process_finds_the_member_that_granted(
    subject: &Subject,
) -> Result<(), Skipped> {
    if !subject.abilities().shared {
        return Err("it serves one process at a time");
    }
    let (store, name) = (subject.fresh(), table_name());
    let limits = [
        Limit::concurrency("running", 1),
        Limit::concurrency("watched", 1).shadow(),
    ];
    let [one, two] = [(); 2].map(|()| pool(&store, &name, &limits));
    let ask = Request::from(()).idempotency(b"job");
    let mut first = granted(&one, Request::from(()));
    let given = granted(&one, ask);
    assert_eq!((first.member(), given.member()), (Some("eu"), Some("us")));
    first.release().wait().expect("it is held");
    let mut again = granted(&two, ask);
    assert_eq!((again.id(), again.member()), (given.id(), Some("us")));
    let mut other = granted(&two, Request::from(()).idempotency(b"another"));
    assert_eq!(other.member(), Some("eu"), "another's ask is no retry");
    other.release().wait().expect("it is held");
    // One that was ended is nobody's.
    again.cancel().wait().expect("it is held");
    let next = granted(&pool(&store, &name, &limits), ask);
    assert_eq!(next.member(), Some("eu"));
    assert_ne!(next.id(), given.id());
    Ok(())
}
