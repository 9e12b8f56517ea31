//! Calls, tokens and concurrency in one step: take, hold a lease, settle.

use super::bench::Bench;
use super::by_handle::repeated;
use crate::floor::Floor;
use crate::measure::{Contender, Expect};
use crate::{ours, peers};
use std::hint::black_box;

const KEY: &str = "user:123456";
const PLENTY: u64 = 1_000_000_000_000;

/// Limitador has neither a lease nor a settlement here: it checks three
/// counters, then adds to three counters, each by itself.
pub fn by_handle(bench: &mut Bench<'_>, group: &str) {
    let mut contenders = vec![
        ours_by_handle(PLENTY, Expect::Admitted),
        limitador(PLENTY, Expect::Admitted),
    ];
    contenders.extend(floor());
    bench.compare(group, contenders);
}

pub fn by_key(bench: &mut Bench<'_>, group: &str) {
    let mut contenders = vec![ours_by_key(PLENTY), limitador(PLENTY, Expect::Admitted)];
    contenders.extend(floor());
    bench.compare(group, contenders);
}

pub fn refused(bench: &mut Bench<'_>, group: &str) {
    bench.compare(
        group,
        vec![
            ours_by_handle(1, Expect::Refused),
            limitador(1, Expect::Refused),
        ],
    );
}

fn ours_by_handle(calls: u64, expect: Expect) -> Contender {
    let handle = ours::handle_of(&ours::three_limits(calls), KEY);
    repeated("ours", expect, move || {
        ours::take_and_settle(black_box(&handle))
    })
}

fn ours_by_key(calls: u64) -> Contender {
    let set = ours::three_limits(calls);
    repeated("ours", Expect::Admitted, move || {
        ours::take_and_settle_key(black_box(&set), black_box(KEY))
    })
}

fn limitador(calls: u64, expect: Expect) -> Contender {
    let limiter = peers::Limitador::new(&[calls, PLENTY, PLENTY], 1);
    let context = peers::Limitador::context(KEY);
    repeated("limitador", expect, move || {
        limiter.check(black_box(&context), 1)
    })
}

/// All that a lease cannot do without, at once, and part by part.
fn floor() -> [Contender; 4] {
    [
        floor_of("floor", Floor::lease_and_settle),
        floor_of("floor-lock", |floor| floor.lock(1)),
        floor_of("floor-clock", |floor| {
            black_box(floor.now());
        }),
        floor_of("floor-id", |_| {
            black_box(Floor::id());
        }),
    ]
}

fn floor_of(name: &'static str, part: impl Fn(&Floor) + 'static) -> Contender {
    let floor = Floor::new();
    repeated(name, Expect::Admitted, move || {
        part(black_box(&floor));
        true
    })
}
