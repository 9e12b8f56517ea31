//! Permits: ours beside tokio's.

use super::bench::Bench;
use super::by_handle::repeated;
use crate::measure::{Contender, Expect, wall};
use crate::ours;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const TASKS: u64 = 64;
const PERMITS: usize = 8;

/// Take one and give it back, without waiting and without a runtime.
pub fn try_acquire(bench: &mut Bench<'_>, group: &str) {
    let mine = ours::semaphore(PERMITS);
    let theirs = tokio::sync::Semaphore::new(PERMITS);
    let contenders = vec![
        repeated("ours", Expect::Admitted, move || {
            ours::try_permit(black_box(&mine))
        }),
        repeated("tokio", Expect::Admitted, move || {
            black_box(&theirs).try_acquire().is_ok()
        }),
    ];
    bench.compare(group, contenders);
}

/// The same awaited, with a permit always free.
pub fn uncontended(bench: &mut Bench<'_>, group: &str) {
    let mine = Arc::new(ours::semaphore(PERMITS));
    let theirs = Arc::new(tokio::sync::Semaphore::new(PERMITS));
    let contenders = vec![
        alone("ours", move |n| {
            let mine = Arc::clone(&mine);
            async move {
                for _ in 0..n {
                    ours::permit(black_box(&mine)).await;
                }
            }
        }),
        alone("tokio", move |n| {
            let theirs = Arc::clone(&theirs);
            async move {
                for _ in 0..n {
                    drop(black_box(&theirs).acquire().await.expect("never closed"));
                }
            }
        }),
    ];
    bench.compare(group, contenders);
}

fn alone<F: Future>(name: &'static str, task: impl Fn(u64) -> F + 'static) -> Contender {
    let runtime = one_thread();
    Contender::timed(name, move |n| wall(|| runtime.block_on(task(n))).1)
}

pub fn current_thread(bench: &mut Bench<'_>, group: &str) {
    crowded(bench, group, one_thread);
}

pub fn multi_thread(bench: &mut Bench<'_>, group: &str) {
    crowded(bench, group, || {
        Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .expect("a runtime")
    });
}

/// 64 tasks that each hold a permit across a yield, again and again.
fn crowded(bench: &mut Bench<'_>, group: &str, runtime: impl Fn() -> Runtime) {
    let mine = Arc::new(ours::semaphore(PERMITS));
    let theirs = Arc::new(tokio::sync::Semaphore::new(PERMITS));
    let contenders = vec![
        crowd("ours", runtime(), move || {
            let mine = Arc::clone(&mine);
            async move { ours::hold_permit(&mine, tokio::task::yield_now()).await }
        }),
        crowd("tokio", runtime(), move || {
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

fn crowd<F>(
    name: &'static str,
    runtime: Runtime,
    once: impl Fn() -> F + Clone + Send + 'static,
) -> Contender
where
    F: Future<Output = ()> + Send,
{
    Contender::timed(name, move |n| {
        let each = n.div_ceil(TASKS);
        let elapsed = wall(|| runtime.block_on(all_tasks(each, once.clone()))).1;
        // Rounded up to whole tasks; scaled back to the operations asked for.
        elapsed
            .mul_f64(n as f64 / (each * TASKS) as f64)
            .max(Duration::from_nanos(1))
    })
}

async fn all_tasks<F>(each: u64, once: impl Fn() -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let once = once.clone();
        tasks.spawn(async move {
            for _ in 0..each {
                once().await;
            }
        });
    }
    tasks.join_all().await;
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}
