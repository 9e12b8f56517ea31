//! Tidegate, set up as its documentation would have it: the only file here that
//! knows its interface.

use crate::quota::Quota;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tidegate::fair::{Bounds, FairQueue, FairRequest, Popped, Schedule};
use tidegate::{Admission, Clock, Handle, Limit, LimitSet, Semaphore, Timestamp, Verdict};

const HOUR: Duration = Duration::from_secs(3600);
const KEY: &str = "user:123456";

fn limit(quota: Quota) -> Limit {
    Limit::calls("calls", quota.amount, quota.period).burst(quota.burst)
}

/// A set of one limit.
pub fn set(quota: Quota) -> LimitSet {
    LimitSet::new([limit(quota)]).expect("a sound limit")
}

/// One key of a set of one limit.
pub fn handle(quota: Quota) -> Handle {
    set(quota).handle(KEY).expect("a sound key")
}

/// The same, on a clock that counts how often it is read.
pub fn handle_with_counted_clock(quota: Quota, reads: Arc<AtomicU64>) -> Handle {
    let clock = quanta::Clock::new();
    let start = clock.raw();
    let clock = Clock::custom(move || {
        reads.fetch_add(1, Relaxed);
        let micros = clock.delta_as_nanos(start, clock.raw()) / 1_000;
        Timestamp::from_micros(i64::try_from(micros).expect("a short run"))
    });
    let set = LimitSet::builder().limit(limit(quota)).clock(clock).build();
    set.expect("a sound limit")
        .handle(KEY)
        .expect("a sound key")
}

/// The check that is answered by its verdict alone.
#[inline]
pub fn admit(handle: &Handle) -> bool {
    admitted(handle.admit(1).wait())
}

/// The check that is answered by its verdict alone by key.
#[inline]
pub fn admit_key(set: &LimitSet, key: &str) -> bool {
    admitted(set.admit(key, 1).wait())
}

/// As a caller would: goes on if admitted, and otherwise looks when to return.
#[inline]
fn admitted(answer: Result<Verdict, tidegate::DecisionError>) -> bool {
    match answer.expect("a sound ask") {
        Verdict::Admit => true,
        refusal => {
            black_box(refusal);
            false
        }
    }
}

/// The check that says where everything stands.
#[inline]
pub fn decide(handle: &Handle) -> bool {
    let decision = handle.check(()).wait().expect("a sound ask");
    black_box(decision.standing("calls"));
    decision.admitted()
}

/// The same check, of which only what remains is looked at.
#[inline]
pub fn remaining(handle: &Handle) -> bool {
    let decision = handle.check(()).wait().expect("a sound ask");
    black_box(decision.remaining("calls"));
    decision.admitted()
}

/// `calls` calls an hour, tokens without end, and concurrency.
pub fn three_limits(calls: u64) -> LimitSet {
    let limits = [
        Limit::calls("rpm", calls, HOUR),
        Limit::rate("tpm", 1_000_000_000_000, HOUR),
        Limit::concurrency("running", 1_000),
    ];
    LimitSet::new(limits).expect("sound limits")
}

/// One key of a set.
pub fn handle_of(set: &LimitSet, key: &str) -> Handle {
    set.handle(key).expect("a sound key")
}

/// Takes ten tokens, holds the lease, and settles seven.
#[inline]
pub fn take_and_settle(handle: &Handle) -> bool {
    settled(handle.try_acquire(&[("tpm", 10)]).wait())
}

/// The same by key.
#[inline]
pub fn take_and_settle_key(set: &LimitSet, key: &str) -> bool {
    settled(set.try_acquire(key, &[("tpm", 10)]).wait())
}

#[inline]
fn settled(admission: Result<Admission, tidegate::DecisionError>) -> bool {
    match admission.expect("a sound ask") {
        Admission::Granted(mut lease) => lease.settle(&[("tpm", 7)]).wait().is_ok(),
        Admission::Refused(decision) => {
            black_box(decision);
            false
        }
    }
}

/// Waits for its turn, without a deadline.
pub async fn wait(handle: &Handle) {
    match handle.acquire(()).await.expect("a sound ask") {
        Admission::Granted(lease) => drop(lease),
        Admission::Refused(_) => unreachable!("there is no deadline"),
    }
}

pub fn semaphore(permits: usize) -> Semaphore {
    Semaphore::new(permits)
}

/// Takes a permit and gives it back.
#[inline]
pub fn try_permit(semaphore: &Semaphore) -> bool {
    semaphore.try_acquire().is_ok()
}

/// The same, awaited.
pub async fn permit(semaphore: &Semaphore) {
    drop(semaphore.acquire().await);
}

/// Holds a permit for as long as `work` takes.
pub async fn hold_permit(semaphore: &Semaphore, work: impl Future<Output = ()>) {
    let permit = semaphore.acquire().await;
    work.await;
    drop(permit);
}

/// Tenants of a fair queue whose requests wait.
pub struct Tenants {
    schedule: Schedule<usize>,
    names: Vec<String>,
}

impl Tenants {
    pub fn new(tenants: usize, each: usize) -> Self {
        let schedule = Schedule::new(Bounds::default(), Default::default());
        let mut all = Tenants {
            schedule: schedule.expect("the usual weights"),
            names: (0..tenants)
                .map(|tenant| format!("tenant-{tenant}"))
                .collect(),
        };
        (0..each * tenants).for_each(|number| all.push(number % tenants));
        all
    }

    fn push(&mut self, tenant: usize) {
        let entry = FairRequest::of(&self.names[tenant]).cost(100);
        let pushed = self.schedule.push(&entry, Timestamp::MAX, tenant);
        pushed.expect("there is room");
    }

    /// One starts, and is settled; another one of its tenant comes.
    #[inline]
    pub fn next(&mut self) {
        if let Some(Popped::Head(head, tenant)) = self.schedule.pop(Timestamp::from_micros(0)) {
            let started = self.schedule.admit(head);
            self.schedule.settle(started, black_box(110));
            self.push(tenant);
        }
    }
}

pub fn fair_queue() -> FairQueue {
    FairQueue::new()
}

/// One turn, held while something is done.
pub async fn turn(queue: &FairQueue, tenant: usize, work: impl Future<Output = ()>) {
    let flow = tenant.to_be_bytes();
    let turn = queue.dispatch(FairRequest::of(&flow[..]).cost(100)).await;
    let turn = turn.expect("nobody waits for so long");
    work.await;
    turn.started().settle(110);
}
