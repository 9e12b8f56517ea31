//! So much is reserved; what was not used comes back, and more than that is debt.

use std::time::Duration;

use tidegate::{Admission, Error, Limit, LimitSet};

pub(crate) fn run() -> Result<(), Error> {
    let limits = LimitSet::new([Limit::rate("tokens", 10_000, Duration::from_secs(3_600))])?;
    if let Admission::Granted(mut lease) = limits.try_acquire("alice", 4_000).wait()? {
        lease.settle(1_000).wait()?;
    }
    let fits = limits.peek("alice", 9_000).wait()?.admitted();
    println!("4,000 reserved, 1,000 used: 9,000 more fit: {fits}");
    if let Admission::Granted(mut lease) = limits.try_acquire("alice", 4_000).wait()? {
        lease.settle(12_000).wait()?;
    }
    let fits = limits.peek("alice", 1).wait()?.admitted();
    println!("4,000 reserved, 12,000 used: one more fits: {fits}");
    Ok(())
}
