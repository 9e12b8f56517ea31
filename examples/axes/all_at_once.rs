//! Calls, tokens and slots in one step: all are taken or none, and the answer names which binds.

use std::time::Duration;

use tidegate::{Admission, Error, Limit, LimitSet};

pub(crate) fn run() -> Result<(), Error> {
    let limits = LimitSet::new([
        Limit::calls("calls", 10, Duration::from_secs(3_600)),
        Limit::rate("tokens", 10_000, Duration::from_secs(3_600)),
        Limit::concurrency("slots", 2),
    ])?;
    let mut leases = Vec::new();
    for tokens in [4_000, 8_000, 4_000, 1_000] {
        match limits.try_acquire("alice", tokens).wait()? {
            Admission::Granted(lease) => {
                println!("{tokens} tokens: admitted");
                leases.push(lease);
            }
            Admission::Refused(decision) => {
                println!(
                    "{tokens} tokens: refused by {}",
                    decision.binding().unwrap_or("none")
                );
            }
        }
    }
    Ok(())
}
