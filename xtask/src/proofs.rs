//! The same proofs for as long as one likes: laws in a million cases, every
//! interleaving test again and again, and the rest of the time hostile input.

use crate::plan::LONG_CASES;
use crate::{fuzz, test};
use std::time::{Duration, Instant};

const DEFAULT_MINUTES: u64 = 60;

/// `cargo xtask proofs [--minutes N]`.
#[expect(
    clippy::disallowed_methods,
    reason = "how long proofs go on is not a decision"
)]
pub fn run(arguments: &[String]) -> Result<(), String> {
    let limit = Duration::from_secs(60 * minutes(arguments)?);
    let start = Instant::now();
    let mut round = 0;
    while round == 0 || start.elapsed() < limit {
        round += 1;
        println!("\n=== proofs, round {round}, after {:.0?}", start.elapsed());
        test::tests(LONG_CASES)?;
        test::interleavings()?;
        fuzz::all(10 * 60)?;
    }
    Ok(())
}

fn minutes(arguments: &[String]) -> Result<u64, String> {
    match arguments {
        [] => Ok(DEFAULT_MINUTES),
        [flag, value] if flag == "--minutes" => fuzz::number(value),
        _ => Err("cargo xtask proofs [--minutes N]".to_owned()),
    }
}
