//! Allocations for one operation. The columns hold counts, not nanoseconds.

use super::bench::Bench;
use crate::allocator;
use crate::quota::DEEP;
use crate::{ours, peers};

const TIMES: u64 = 1_000;

/// What a peer does for the same work stands beside each count.
pub fn on_the_path(bench: &mut Bench<'_>, group: &str) {
    let (handle, informed) = (ours::handle(DEEP), peers::governor_informed(DEEP));
    let set = ours::set(DEEP);
    let governor = peers::governor_keyed(DEEP);
    let three = ours::handle_of(&ours::three_limits(DEEP.burst), "user:1");
    let limitador = peers::Limitador::new(&[DEEP.burst; 3], 1);
    let (key, context) = ("user:1".to_owned(), peers::Limitador::context("user:1"));

    let check = each(|| ours::admit(&handle));
    let decision = each(|| ours::decide(&handle));
    let by_key = each(|| ours::admit_key(&set, &key));
    let lease = each(|| ours::take_and_settle(&three));
    let theirs = each(|| informed.check().is_ok());
    for (name, ours, theirs) in [
        ("handle-check/governor", check, theirs),
        ("handle-decision/governor-informed", decision, theirs),
        (
            "key-check/governor-keyed",
            by_key,
            each(|| governor.check_key(&key).is_ok()),
        ),
        (
            "lease-and-settle/limitador",
            lease,
            each(|| limitador.check(&context, 1)),
        ),
    ] {
        bench
            .report
            .add(format!("{group}/{name}"), &[(ours, theirs)]);
    }
    assert!(
        check == 0.0 && decision == 0.0,
        "a check by handle allocates"
    );
    assert!(lease <= 1.0, "a lease allocates {lease} times");
}

/// The first asks may fill a pool or a table; they are not counted.
fn each(ask: impl Fn() -> bool) -> f64 {
    let some = || (0..TIMES).for_each(|_| assert!(ask(), "an ask was refused"));
    some();
    allocator::count(some).1.allocations as f64 / TIMES as f64
}
