//! May one more be held at once?

use tidegate::{Error, Limit, LimitSet};

pub(crate) fn run() -> Result<(), Error> {
    let limits = LimitSet::new([Limit::concurrency("slots", 1)])?;
    let first = limits.try_acquire("alice", 0).wait()?.granted();
    let second = limits.try_acquire("alice", 0).wait()?.granted();
    println!("first: {}, second: {}", first.is_some(), second.is_some());
    if let Some(mut lease) = first {
        lease.release().wait()?;
    }
    let third = limits.try_acquire("alice", 0).wait()?.granted();
    println!("after the first has ended: {}", third.is_some());
    Ok(())
}
