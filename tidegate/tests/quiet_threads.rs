//! The threads behind permits sleep while permits come and go: nothing is due.
#![cfg(target_os = "linux")]

use std::fs;

use tidegate::lock::LeasedSemaphore;

/// How often each of this process's threads behind permits has gone to sleep.
fn sleeps() -> Vec<u64> {
    let tasks = fs::read_dir("/proc/self/task").expect("this process has threads");
    let sleeps = tasks.filter_map(|task| {
        let folder = task.ok()?.path();
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let count = |line: &str| {
            line.strip_prefix("voluntary_ctxt_switches:")?
                .trim()
                .parse()
                .ok()
        };
        let sleeps: u64 = status.lines().find_map(count)?;
        name.starts_with("tidegate-").then_some(sleeps)
    });
    sleeps.collect()
}

#[test]
fn a_permit_that_comes_and_goes_wakes_no_thread() {
    const PERMITS: u64 = 10_000;
    let semaphore = LeasedSemaphore::builder("gpu", 2).build().expect("sound");
    let take = || {
        let permit = semaphore.try_acquire().wait().expect("an answer");
        permit.expect("a slot is free")
    };
    for _ in 0..PERMITS {
        drop(take());
    }
    // One renews, and one rings: each looks now and then, at what it found a while ago.
    let sleeps = sleeps();
    assert_eq!(sleeps.len(), 2);
    assert!(sleeps.iter().sum::<u64>() < PERMITS / 10, "{sleeps:?}");
}
