//! 5,000 tenants have requests that wait: what it takes to say who is next.

use super::bench::Bench;
use crate::measure::{Contender, wall};
use crate::ours::{self, Tenants};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

const TENANTS: usize = 5_000;

/// How many of each wait.
const EACH: usize = 4;

/// As many turns at least, so that beginning and ending 5,000 tasks does not count.
const LEAST_TURNS: u64 = 200_000;

/// One is next, starts, is settled for other than its estimate, and another one of its
/// tenant comes, beside a heap of the least that says who is next: tags and queues, without
/// leaving, deadlines, bounds, settlement or names.
pub fn order(bench: &mut Bench<'_>, group: &str) {
    let mut ours = Tenants::new(TENANTS, EACH);
    let mut heap = Heap::new();
    let contenders = vec![
        Contender::timed("ours", move |n| wall(|| (0..n).for_each(|_| ours.next())).1),
        Contender::timed("bare-heap", move |n| {
            wall(|| (0..n).for_each(|_| heap.next())).1
        }),
    ];
    bench.compare(group, contenders);
}

struct Heap {
    next: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: Vec<VecDeque<u64>>,
}

impl Heap {
    fn new() -> Self {
        Self {
            next: (0..TENANTS).map(|tenant| Reverse((0, tenant))).collect(),
            waiting: (0..TENANTS).map(|_| VecDeque::from([100; EACH])).collect(),
        }
    }

    fn next(&mut self) {
        let Some(Reverse((tag, tenant))) = self.next.pop() else {
            return;
        };
        let cost = self.waiting[tenant].pop_front().unwrap_or(100);
        self.waiting[tenant].push_back(black_box(100));
        self.next.push(Reverse((tag + cost, tenant)));
    }
}

/// 5,000 tasks, each its own tenant, wait for their turns again and again, beside as many at a
/// semaphore of one permit, which serves them in order of arrival.
pub fn turns(bench: &mut Bench<'_>, group: &str) {
    let mine = ours::fair_queue();
    let theirs = Arc::new(tokio::sync::Semaphore::new(1));
    let contenders = vec![
        crowd("ours", move |tenant| {
            let mine = mine.clone();
            async move { ours::turn(&mine, tenant, tokio::task::yield_now()).await }
        }),
        crowd("tokio-semaphore", move |_| {
            let theirs = Arc::clone(&theirs);
            async move {
                let permit = theirs.acquire().await.expect("never closed");
                tokio::task::yield_now().await;
                drop(permit);
            }
        }),
    ];
    bench.compare(group, contenders);
}

/// Whoever has its turn holds it across a yield, so that all others wait.
fn crowd<F>(name: &'static str, once: impl Fn(usize) -> F + Clone + Send + 'static) -> Contender
where
    F: Future<Output = ()> + Send,
{
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    Contender::timed(name, move |n| {
        let turns = n.max(LEAST_TURNS);
        let left = Arc::new(AtomicU64::new(turns));
        let (_, elapsed) = wall(|| {
            runtime.block_on(async {
                let mut tasks = JoinSet::new();
                for tenant in 0..TENANTS {
                    let (left, once) = (Arc::clone(&left), once.clone());
                    tasks.spawn(async move {
                        let is_left = |left: u64| left.checked_sub(1);
                        while left.fetch_update(Relaxed, Relaxed, is_left).is_ok() {
                            once(tenant).await;
                        }
                    });
                }
                tasks.join_all().await;
            });
        });
        elapsed
            .mul_f64(n as f64 / turns as f64)
            .max(Duration::from_nanos(1))
    })
}
