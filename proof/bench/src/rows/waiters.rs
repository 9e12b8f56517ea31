//! A thousand tasks wait on one key that admits one every millisecond.
//!
//! Except in the last two rows the columns hold counts, not nanoseconds.

use super::bench::Bench;
use crate::measure::{process_time, wall};
use crate::ours;
use crate::peers::governor_quota;
use crate::quota::Quota;
use governor::RateLimiter;
use governor::clock::{Clock, QuantaClock, QuantaInstant, ReasonablyRealtime};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinSet;

const WAITERS: u64 = 1_000;
const PACE: Quota = Quota {
    amount: 1,
    period: Duration::from_millis(1),
    burst: 1,
};

/// A round lasts a second for each side, whatever the lap length.
const MOST_ROUNDS: usize = 5;

pub fn thousand(bench: &mut Bench<'_>, group: &str) {
    let rounds = bench
        .options
        .rounds
        .min(if bench.options.quick { 1 } else { MOST_ROUNDS });
    let pairs: Vec<(Seen, Seen)> = (0..rounds)
        .map(|_| (ours_once(), governor_once()))
        .collect();
    for (name, figure) in FIGURES {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(ours, theirs)| (figure(ours), figure(theirs)))
            .collect();
        bench.report.add(format!("{group}/{name}"), &pairs);
    }
}

/// What one crowd of waiters cost, for each admission.
#[derive(Clone, Copy)]
struct Seen {
    wake_ups: f64,
    clock_reads: f64,
    /// Pairs that were admitted in the wrong order, of the whole crowd.
    inversions: f64,
    processor_ns: f64,
    wall_ns: f64,
}

type Figure = fn(&Seen) -> f64;

const FIGURES: [(&str, Figure); 5] = [
    ("wake-ups-an-admission", |seen| seen.wake_ups),
    ("clock-reads-an-admission", |seen| seen.clock_reads),
    ("pairs-out-of-order", |seen| seen.inversions),
    ("processor-time-an-admission", |seen| seen.processor_ns),
    ("wall-time-an-admission", |seen| seen.wall_ns),
];

fn ours_once() -> Seen {
    let reads = Arc::new(AtomicU64::new(0));
    let handle = ours::handle_with_counted_clock(PACE, Arc::clone(&reads));
    crowd(&reads, move || {
        let handle = handle.clone();
        async move { ours::wait(&handle).await }
    })
}

fn governor_once() -> Seen {
    let reads = Arc::new(AtomicU64::new(0));
    let clock = CountedClock {
        clock: QuantaClock::default(),
        reads: Arc::clone(&reads),
    };
    let limiter = Arc::new(RateLimiter::direct_with_clock(governor_quota(PACE), clock));
    crowd(&reads, move || {
        let limiter = Arc::clone(&limiter);
        async move { limiter.until_ready().await }
    })
}

fn crowd<F>(reads: &AtomicU64, wait: impl Fn() -> F) -> Seen
where
    F: Future<Output = ()> + Send + 'static,
{
    let polls = Arc::new(AtomicU64::new(0));
    let order = Arc::new(Mutex::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let before = (reads.load(Relaxed), process_time());
    let ((), elapsed) = wall(|| {
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            // One thread runs its tasks in the order in which they were spawned.
            for place in 0..WAITERS {
                let waiting = Polled {
                    inner: Box::pin(wait()),
                    polls: Arc::clone(&polls),
                };
                let order = Arc::clone(&order);
                tasks.spawn(async move {
                    waiting.await;
                    order.lock().expect("nobody panics").push(place);
                });
            }
            tasks.join_all().await;
        });
    });
    let each = |count: u64| count as f64 / WAITERS as f64;
    let order = order.lock().expect("nobody panics");
    Seen {
        // The first poll of each is its arrival.
        wake_ups: each(polls.load(Relaxed) - WAITERS),
        clock_reads: each(reads.load(Relaxed) - before.0),
        inversions: inversions(&order),
        processor_ns: (process_time() - before.1).as_nanos() as f64 / WAITERS as f64,
        wall_ns: elapsed.as_nanos() as f64 / WAITERS as f64,
    }
}

fn inversions(order: &[u64]) -> f64 {
    let later = |index: usize| {
        order[index + 1..]
            .iter()
            .filter(|other| **other < order[index])
            .count()
    };
    (0..order.len()).map(later).sum::<usize>() as f64
}

/// Counts how often a future is polled.
struct Polled<F> {
    inner: Pin<Box<F>>,
    polls: Arc<AtomicU64>,
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.polls.fetch_add(1, Relaxed);
        pin!(&mut self.inner).poll(context)
    }
}

/// Governor's own clock, counted.
#[derive(Clone, Debug)]
struct CountedClock {
    clock: QuantaClock,
    reads: Arc<AtomicU64>,
}

impl Clock for CountedClock {
    type Instant = QuantaInstant;

    fn now(&self) -> QuantaInstant {
        self.reads.fetch_add(1, Relaxed);
        self.clock.now()
    }
}

impl ReasonablyRealtime for CountedClock {}
