//! Charge what was used already, though it fits no more.

use std::time::Duration;

use tidegate::{Error, Limit, LimitSet};

pub(crate) fn run() -> Result<(), Error> {
    let limits = LimitSet::new([Limit::rate("tokens", 10_000, Duration::from_secs(3_600))])?;
    for tokens in [9_000, 4_000] {
        let decision = limits.debit("alice", tokens).wait()?;
        println!("{tokens} charged; more may start: {}", decision.admitted());
    }
    Ok(())
}
