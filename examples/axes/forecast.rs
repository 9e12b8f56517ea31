//! How many such requests fit, and when the next does: nothing is taken.

use std::time::Duration;

use tidegate::{Error, Limit, LimitSet};

pub(crate) fn run() -> Result<(), Error> {
    let limits = LimitSet::new([Limit::rate("tokens", 10_000, Duration::from_secs(3_600))])?;
    limits.check("alice", 5_000).wait()?;
    for (limit, forecast) in limits.forecast("alice", 2_000).wait()? {
        println!("{limit}: {} requests for 2,000 fit now", forecast.spendable);
    }
    Ok(())
}
