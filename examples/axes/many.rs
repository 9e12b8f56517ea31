//! Several keys in one question, each answered by itself.

use std::time::Duration;

use tidegate::{Error, Limit, LimitSet};

pub(crate) fn run() -> Result<(), Error> {
    let limits = LimitSet::new([Limit::rate("tokens", 10_000, Duration::from_secs(3_600))])?;
    let asked = [("alice", 7_000), ("bob", 7_000), ("alice", 7_000)];
    let answers = limits.check_many(asked).wait()?;
    for ((key, tokens), answer) in asked.iter().zip(answers) {
        println!("{key}, {tokens}: admitted = {}", answer?.admitted());
    }
    Ok(())
}
