//! One limit by string key: one hot key, then many.

use super::bench::Bench;
use super::by_handle::repeated;
use crate::keys::{Sequence, Spread, population};
use crate::measure::{Contender, Expect};
use crate::quota::{DEEP, Quota, SPENT};
use crate::{ours, peers};
use std::hint::black_box;
use std::rc::Rc;

const HOT: &str = "user:123456";

pub fn hot(bench: &mut Bench<'_>, group: &str) {
    let mut contenders = hot_pair(DEEP, Expect::Admitted);
    let mut throttlecrab = peers::Throttlecrab::new(DEEP, 1);
    let limitador = peers::Limitador::new(&[DEEP.burst], 1);
    let context = peers::Limitador::context(HOT);
    contenders.extend([
        repeated("limitador", Expect::Admitted, move || {
            limitador.check(black_box(&context), 1)
        }),
        repeated("throttlecrab", Expect::Admitted, move || {
            throttlecrab.check(black_box(HOT))
        }),
    ]);
    bench.compare(group, contenders);
}

pub fn hot_refused(bench: &mut Bench<'_>, group: &str) {
    bench.compare(group, hot_pair(SPENT, Expect::Refused));
}

fn hot_pair(quota: Quota, expect: Expect) -> Vec<Contender> {
    let set = ours::set(quota);
    let governor = peers::governor_keyed(quota);
    let key = HOT.to_owned();
    vec![
        repeated("ours", expect, move || {
            ours::admit_key(&set, black_box(HOT))
        }),
        repeated("governor-keyed", expect, move || {
            peers::admitted(governor.check_key(black_box(&key)))
        }),
    ]
}

pub fn uniform_100k(bench: &mut Bench<'_>, group: &str) {
    many(bench, group, 100_000, Spread::Uniform);
}

pub fn zipf_100k(bench: &mut Bench<'_>, group: &str) {
    many(bench, group, 100_000, Spread::Zipf);
}

pub fn uniform_1m(bench: &mut Bench<'_>, group: &str) {
    many(bench, group, 1_000_000, Spread::Uniform);
}

pub fn zipf_1m(bench: &mut Bench<'_>, group: &str) {
    many(bench, group, 1_000_000, Spread::Zipf);
}

/// Every key is known before the clock starts, and all walk the same sequence.
fn many(bench: &mut Bench<'_>, group: &str, keys: u32, spread: Spread) {
    let sequence = Rc::new(Sequence::new(keys, spread));
    let contenders = vec![
        walked("ours", keys, &sequence, ours_by_key()),
        walked("governor-keyed", keys, &sequence, governor_by_key()),
        walked("limitador", keys, &sequence, limitador_by_key(keys)),
        walked("throttlecrab", keys, &sequence, throttlecrab_by_key(keys)),
    ];
    bench.compare(group, contenders);
}

fn walked(
    name: &'static str,
    keys: u32,
    sequence: &Rc<Sequence>,
    mut ask: impl FnMut(&String) -> bool + 'static,
) -> Contender {
    population(keys).for_each(|key| assert!(ask(&key), "{name} refused a new key"));
    let sequence = Rc::clone(sequence);
    Contender::new(name, Expect::Admitted, move |n| {
        sequence
            .take(n)
            .map(|key| u64::from(ask(black_box(key))))
            .sum()
    })
}

fn ours_by_key() -> impl FnMut(&String) -> bool {
    let set = ours::set(DEEP);
    move |key| ours::admit_key(&set, key)
}

fn governor_by_key() -> impl FnMut(&String) -> bool {
    let limiter = peers::governor_keyed(DEEP);
    move |key| peers::admitted(limiter.check_key(key))
}

/// With the context that it needs for each request, since the key is in there.
fn limitador_by_key(keys: u32) -> impl FnMut(&String) -> bool {
    let limiter = peers::Limitador::new(&[DEEP.burst], u64::from(keys));
    move |key| limiter.check(&peers::Limitador::context(key), 1)
}

fn throttlecrab_by_key(keys: u32) -> impl FnMut(&String) -> bool {
    let mut limiter = peers::Throttlecrab::new(DEEP, keys as usize);
    move |key| limiter.check(key)
}
