//! A store that stands still before a crowd, measured: `cargo xtask paused`.

use std::time::Duration;

use crate::house::House;
use crate::program;
use crate::questions::crowd::{self, Seen};
use crate::stores::STORES;
use crate::talk::PROTOCOLS;

const HELP: &str = "paused [--seconds N] [--clients N] [--slack MILLISECONDS]";

/// Within this time others are answered: who asks `/healthz`, or a policy on another store.
const OTHERS: Duration = Duration::from_millis(100);

/// By so much the machine itself may be late, unless it is said.
const SLACK: Duration = Duration::from_millis(200);

/// Stops each store that is a server of its own for so many seconds (5), under so many
/// clients of every verb (64), over each protocol; prints how long answers took.
///
/// # Errors
/// What makes no sense to ask for; who has no answer; in the end, who had one later than the
/// deadline, or than 100 ms beside the crowd, and the slack (200 ms).
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (mut seconds, mut clients, mut slack) = (5, crowd::CLIENTS, SLACK);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().ok_or(HELP)?;
        match argument.as_str() {
            "--seconds" => seconds = value.parse().map_err(|_| HELP)?,
            "--clients" => clients = value.parse().map_err(|_| HELP)?,
            "--slack" => slack = Duration::from_millis(value.parse().map_err(|_| HELP)?),
            _ => return Err(HELP.to_owned()),
        }
    }
    let program = program::program()?;
    println!("{}", program.display());
    println!(
        "milliseconds: 50 % / 99 % / at most (of so many); late: after {:?}\n",
        crowd::DEADLINE
    );
    let mut late = Vec::new();
    for store in STORES.iter().filter(|store| store.is_apart()) {
        let Some(house) = House::open(*store, program.clone()) else {
            continue;
        };
        for protocol in PROTOCOLS {
            let least = Duration::from_secs(seconds);
            let seen = crowd::crowd(&house, protocol, clients, least)?;
            let who = format!("{}, {}", store.name, protocol.name);
            late.extend(seen.later_than(slack).map(|why| format!("{who}: {why}")));
            println!("{:<9} {:<4}  {}", store.name, protocol.name, line(seen));
        }
    }
    match late.is_empty() {
        true => println!("\nit holds, with {slack:?} for the machine"),
        false => return Err(format!("it does not hold:\n{}", late.join("\n"))),
    }
    Ok(())
}

impl Seen {
    /// Who was answered later than they may be, and the machine by so much.
    fn later_than(&self, slack: Duration) -> impl Iterator<Item = String> {
        let asked = self.asked.iter().map(|(_, took)| took);
        let spans = [
            ("the crowd", asked.max(), crowd::DEADLINE),
            ("/healthz", self.health.iter().max(), OTHERS),
            ("a policy on another store", self.other.iter().max(), OTHERS),
        ];
        let late = spans.into_iter().filter_map(move |(who, most, within)| {
            let most = *most.filter(|most| **most > within + slack)?;
            Some(format!(
                "{who} waited for {most:?}, where {within:?} is the most"
            ))
        });
        late.collect::<Vec<_>>().into_iter()
    }
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
    fn whoever_waits_beyond_the_slack_is_told_of() {
        let ms = Duration::from_millis;
        let mut seen = Seen {
            asked: vec![("take", ms(2_650)), ("peek", ms(2))],
            health: vec![ms(290)],
            other: vec![ms(3), ms(10)],
        };
        assert_eq!(seen.later_than(ms(200)).count(), 0);
        seen.other.push(ms(301));
        let late: Vec<_> = seen.later_than(ms(200)).collect();
        assert_eq!(
            late,
            ["a policy on another store waited for 301ms, where 100ms is the most"]
        );
        assert_eq!(seen.later_than(ms(100)).count(), 3);
    }

    #[test]
    fn the_spread_of_a_hundred_is_told() {
        let took = (1..=101).rev().map(Duration::from_millis).collect();
        assert_eq!(spread(took), "51.0 / 100.0 / 101.0 (101)");
        assert_eq!(spread(Vec::new()), "0.0 / 0.0 / 0.0 (0)");
    }
}
