//! A store that stands still before a crowd, measured: `cargo xtask paused`.

use std::time::Duration;

use crate::house::House;
use crate::program;
use crate::questions::crowd::{self, Seen};
use crate::stores::STORES;
use crate::talk::PROTOCOLS;

const HELP: &str = "paused [--seconds N] [--clients N]";

/// Stops each store that is a server of its own for so many seconds (5), under so many
/// clients of every verb (64), over each protocol; prints how long answers took.
///
/// # Errors
/// What makes no sense to ask for; who has no answer in time.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (mut seconds, mut clients) = (5, crowd::CLIENTS);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().ok_or(HELP)?;
        match argument.as_str() {
            "--seconds" => seconds = value.parse().map_err(|_| HELP)?,
            "--clients" => clients = value.parse().map_err(|_| HELP)?,
            _ => return Err(HELP.to_owned()),
        }
    }
    let program = program::program()?;
    println!("{}", program.display());
    println!(
        "milliseconds: 50 % / 99 % / at most (of so many); late: after {:?}\n",
        crowd::DEADLINE
    );
    for store in STORES.iter().filter(|store| store.is_apart()) {
        let Some(house) = House::open(*store, program.clone()) else {
            continue;
        };
        for protocol in PROTOCOLS {
            let least = Duration::from_secs(seconds);
            let seen = crowd::crowd(&house, protocol, clients, least)?;
            println!("{:<9} {:<4}  {}", store.name, protocol.name, line(seen));
        }
    }
    Ok(())
}

fn line(seen: Seen) -> String {
    let late = seen
        .asked
        .iter()
        .filter(|(_, took)| *took > crowd::DEADLINE);
    let mut cases: Vec<_> = late.map(|(case, _)| *case).collect();
    let count = cases.len();
    cases.sort_unstable();
    cases.dedup();
    let asked = seen.asked.into_iter().map(|(_, took)| took);
    let mut line = format!(
        "crowd {}, {count} late   /healthz {}   another store {}",
        spread(asked.collect()),
        spread(seen.health),
        spread(seen.other)
    );
    if count > 0 {
        line += &format!("\n          late: {}", cases.join("; "));
    }
    line
}

/// The median, one in a hundred, and the longest.
fn spread(mut took: Vec<Duration>) -> String {
    took.sort();
    let at = |percent: usize| took.get((took.len().saturating_sub(1)) * percent / 100);
    let ms = |percent| at(percent).map_or(0.0, |took| took.as_secs_f64() * 1_000.0);
    format!(
        "{:.1} / {:.1} / {:.1} ({})",
        ms(50),
        ms(99),
        ms(100),
        took.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_a_hundred_is_told() {
        let took = (1..=101).rev().map(Duration::from_millis).collect();
        assert_eq!(spread(took), "51.0 / 100.0 / 101.0 (101)");
        assert_eq!(spread(Vec::new()), "0.0 / 0.0 / 0.0 (0)");
    }
}
