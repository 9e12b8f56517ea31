//! Processes whose limits differ, at one key that has limits of its own.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::Dir;
use tidegate::{Limit, LimitSet, Request};
use tidegate_shm::ShmStore;

const HOUR: Duration = Duration::from_secs(3_600);

fn set(store: &Arc<ShmStore>, limits: &[Limit]) -> LimitSet {
    let set = LimitSet::builder().name("shared");
    let set = set.limits(limits.iter().cloned());
    set.store(Arc::clone(store) as _).build().expect("sound")
}

fn takes(set: &LimitSet, key: &str) -> bool {
    let decision = set.check(key, Request::from(1)).wait();
    decision.expect("an answer").admitted()
}

#[test]
fn a_key_with_limits_of_its_own_passes_through_another_process_limits() {
    let dir = Dir::default();
    let store = || Arc::new(dir.store());
    let tokens = |name: &str, amount| Limit::rate(name, amount, HOUR);
    let first = set(&store(), &[tokens("a", 2)]);
    let own = [tokens("a", 100)];
    first
        .set_override("acme", &own)
        .wait()
        .expect("it is sound");
    assert!(takes(&first, "acme"));
    // A rolling deploy: the second never sees the key, and the third goes by the second's limits
    // to its own.
    let second = set(&store(), &[tokens("b", 5), tokens("c", 3)]);
    assert!(takes(&second, "other"));
    let third = set(&store(), &[tokens("b", 5), tokens("c", 3), tokens("d", 9)]);
    assert!((0..3).all(|_| takes(&third, "acme")));
    assert!(!takes(&third, "acme"), "three of `c` were taken");
    assert!(takes(&first, "acme"), "it has none of the others' limits");
}
