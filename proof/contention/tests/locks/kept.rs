//! A lease of several limits that its holder keeps, on real servers.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Store;
use tidegate::{Limit, LimitSet, Loss, Request};

use crate::servers::{on_each, store};

/// A third of it is longer than a machine stands still.
const TTL: Duration = Duration::from_secs(9);

fn jobs(store: Arc<dyn Store>) -> LimitSet {
    let limits = [
        Limit::concurrency("running", 1),
        Limit::calls("starts", 100, Duration::from_secs(86_400)),
    ];
    let set = LimitSet::builder().name("jobs").limits(limits).store(store);
    set.build().expect("a set")
}

fn ask() -> Request<'static> {
    Request::default().ttl(TTL)
}

#[test]
fn a_kept_lease_outlasts_its_ttl_and_is_lost_when_somebody_ends_it() {
    on_each(|server| {
        let (here, there) = (jobs(store(&server.url())), jobs(store(&server.url())));
        let admission = here.try_acquire("nightly", ask()).wait();
        let mut job = admission.expect("an answer").granted().expect("it fits");
        let (id, expired_at) = (job.id(), job.expires_at());
        job.keep_alive(TTL).wait().expect("it is held");
        let is_over = || here.now() > expired_at;
        while !is_over() {
            assert!(job.is_held(), "{:?}", job.loss());
            let other = there.try_acquire("nightly", ask()).wait();
            assert!(other.expect("an answer").granted().is_none());
            let soon = job.lost().wait_within(TTL / 9);
            assert_eq!(soon, None, "nobody has ended it");
        }
        assert!(job.is_held() && job.sure_until() > expired_at);
        there.release("nightly", id).wait().expect("it is held");
        assert_eq!(job.lost().wait(), Some(Loss::Ended));
        let next = there.try_acquire("nightly", ask()).wait();
        assert!(next.expect("an answer").granted().is_some());
    });
}
