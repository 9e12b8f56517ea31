//! Two threads that ask without pause, each on a processor of its own: on one
//! they would take turns and never meet. A figure is wall time for one ask of
//! each thread.

use super::bench::Bench;
use crate::measure::{Contender, Expect, stay_on_processor};
use crate::quota::DEEP;
use crate::{ours, peers};
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Both on the same word.
pub fn one_key(bench: &mut Bench<'_>, group: &str) {
    let handle = ours::handle(DEEP);
    let governor = peers::governor_direct(DEEP);
    let floor = peers::Floor::new();
    let contenders = vec![
        together("ours", move |_| ours::admit(black_box(&handle))),
        together("governor", move |_| {
            peers::admitted(black_box(&governor).check())
        }),
        together("floor", move |_| black_box(&floor).check()),
    ];
    bench.compare(group, contenders);
}

/// Each with a key of its own: what is shared that need not be?
pub fn two_keys(bench: &mut Bench<'_>, group: &str) {
    let keys = ["user:1".to_owned(), "user:2".to_owned()];
    let theirs = keys.clone();
    let set = ours::set(DEEP);
    let governor = peers::governor_keyed(DEEP);
    let contenders = vec![
        together("ours", move |thread| {
            ours::admit_key(&set, black_box(&keys[thread]))
        }),
        together("governor-keyed", move |thread| {
            peers::admitted(governor.check_key(black_box(&theirs[thread])))
        }),
    ];
    bench.compare(group, contenders);
}

fn together(name: &'static str, ask: impl Fn(usize) -> bool + Send + Sync + 'static) -> Contender {
    let ask = Arc::new(ask);
    Contender::timed(name, move |n| {
        let barrier = Barrier::new(2);
        let laps: [Duration; 2] = std::thread::scope(|scope| {
            [0, 1]
                .map(|thread| {
                    let (ask, barrier) = (&ask, &barrier);
                    scope.spawn(move || {
                        stay_on_processor(thread);
                        one_thread(name, n, barrier, || ask(thread))
                    })
                })
                .map(|thread| thread.join().expect("no ask panics"))
        });
        laps[0].max(laps[1])
    })
}

fn one_thread(name: &str, n: u64, barrier: &Barrier, ask: impl Fn() -> bool) -> Duration {
    barrier.wait();
    let start = Instant::now();
    let admitted = (0..n).map(|_| u64::from(ask())).sum();
    let elapsed = start.elapsed();
    Expect::Admitted.verify(name, admitted, n);
    elapsed
}
