//! May one more call start now, and when is the next?

use std::time::Duration;

use tidegate::{Error, Limit, LimitSet};

pub(crate) fn run() -> Result<(), Error> {
    let limits = LimitSet::new([Limit::calls("calls", 3, Duration::from_secs(3_600))])?;
    for call in 1..=4 {
        let decision = limits.check("alice", 0).wait()?;
        match decision.retry_after() {
            None => println!("call {call}: admitted"),
            Some(after) => println!("call {call}: refused, next in {} s", after.as_secs()),
        }
    }
    Ok(())
}
