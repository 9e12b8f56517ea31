//! Bytes for each remembered key. The columns hold bytes, not nanoseconds.

use super::bench::Bench;
use crate::allocator;
use crate::keys::population;
use crate::quota::DEEP;
use crate::{ours, peers};

const KEYS: u32 = 1_000_000;

/// Requested bytes that are alive once a million keys have been asked for once.
/// The count is the same on every run, so one round says all.
pub fn bytes_a_key(bench: &mut Bench<'_>, group: &str) {
    let ours = bytes(|| ours::set(DEEP), |set, key| ours::admit_key(set, key));
    let governor = bytes(
        || peers::governor_keyed(DEEP),
        |limiter, key| limiter.check_key(key).is_ok(),
    );
    bench
        .report
        .add(format!("{group}/governor-keyed"), &[(ours, governor)]);
}

fn bytes<L>(make: impl FnOnce() -> L, ask: impl Fn(&L, &String) -> bool) -> f64 {
    let (_limiter, heap) = allocator::count(|| {
        let limiter = make();
        population(KEYS).for_each(|key| assert!(ask(&limiter, &key), "a new key was refused"));
        limiter
    });
    heap.live_bytes as f64 / f64::from(KEYS)
}
