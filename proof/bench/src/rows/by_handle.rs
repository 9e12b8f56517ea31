//! One limit, one thread, no look-up.

use super::bench::Bench;
use crate::measure::{Contender, Expect};
use crate::quota::{DEEP, FULL, PRIME, Quota, SPENT};
use crate::{ours, peers};
use std::hint::black_box;

/// Against everybody, and against the floor.
pub fn admitted(bench: &mut Bench<'_>, group: &str) {
    let mut contenders = vec![
        admit("ours", DEEP, Expect::Admitted),
        governor(DEEP, Expect::Admitted),
    ];
    contenders.extend([
        floor(),
        ratelimit(DEEP),
        leaky_bucket(DEEP),
        throttlecrab(DEEP),
    ]);
    bench.compare(group, contenders);
}

/// The answer with every limit's standing, against governor's with what remains.
pub fn decision(bench: &mut Bench<'_>, group: &str) {
    let handle = ours::handle(DEEP);
    informed(bench, group, move || ours::decide(black_box(&handle)));
}

/// The answer with what remains, of both.
pub fn remaining(bench: &mut Bench<'_>, group: &str) {
    let handle = ours::handle(DEEP);
    informed(bench, group, move || ours::remaining(black_box(&handle)));
}

fn informed(bench: &mut Bench<'_>, group: &str, ask: impl FnMut() -> bool + 'static) {
    let limiter = peers::governor_informed(DEEP);
    let contenders = vec![
        repeated("ours", Expect::Admitted, ask),
        repeated("governor-informed", Expect::Admitted, move || {
            peers::informed(&black_box(&limiter).check())
        }),
    ];
    bench.compare(group, contenders);
}

/// A bucket that is full at every ask.
pub fn full(bench: &mut Bench<'_>, group: &str) {
    bench.compare(
        group,
        vec![
            admit("ours", FULL, Expect::Admitted),
            governor(FULL, Expect::Admitted),
        ],
    );
}

/// A rate that no common divisor reduces: exactness must not cost.
pub fn prime(bench: &mut Bench<'_>, group: &str) {
    bench.compare(
        group,
        vec![
            admit("ours", PRIME, Expect::Admitted),
            governor(PRIME, Expect::Admitted),
        ],
    );
}

/// Every ask is refused.
pub fn refused(bench: &mut Bench<'_>, group: &str) {
    bench.compare(
        group,
        vec![
            admit("ours", SPENT, Expect::Refused),
            governor(SPENT, Expect::Refused),
        ],
    );
}

/// A contender that asks the same thing again and again.
pub fn repeated(
    name: &'static str,
    expect: Expect,
    mut ask: impl FnMut() -> bool + 'static,
) -> Contender {
    if expect == Expect::Refused {
        ask();
    }
    Contender::new(name, expect, move |n| {
        (0..n).map(|_| u64::from(ask())).sum()
    })
}

fn admit(name: &'static str, quota: Quota, expect: Expect) -> Contender {
    let handle = ours::handle(quota);
    repeated(name, expect, move || ours::admit(black_box(&handle)))
}

fn governor(quota: Quota, expect: Expect) -> Contender {
    let limiter = peers::governor_direct(quota);
    repeated("governor", expect, move || {
        peers::admitted(black_box(&limiter).check())
    })
}

fn floor() -> Contender {
    let floor = peers::Floor::new();
    repeated("floor", Expect::Admitted, move || black_box(&floor).check())
}

fn ratelimit(quota: Quota) -> Contender {
    let limiter = peers::ratelimit(quota);
    repeated("ratelimit", Expect::Admitted, move || {
        peers::admitted(black_box(&limiter).try_wait())
    })
}

fn leaky_bucket(quota: Quota) -> Contender {
    let limiter = peers::leaky_bucket(quota);
    repeated("leaky-bucket", Expect::Admitted, move || {
        black_box(&limiter).try_acquire(1)
    })
}

fn throttlecrab(quota: Quota) -> Contender {
    let mut limiter = peers::Throttlecrab::new(quota, 1);
    repeated("throttlecrab", Expect::Admitted, move || {
        limiter.check(black_box("user:123456"))
    })
}
