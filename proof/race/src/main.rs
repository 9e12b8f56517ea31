//! Runs the rounds: `cargo xtask race`.

use std::process::ExitCode;

use clap::Parser;
use tidegate_fleet::program;
use tidegate_race::books::Books;
use tidegate_race::gateway::Gateways;
use tidegate_race::provider::Provider;
use tidegate_race::round::{ROUNDS, Round, run};
use tidegate_race::store::Store;
use tidegate_race::table;

/// Spend a budget of 10 dollars through four gateways on one store, with kills
#[derive(Debug, Parser)]
#[command(name = "cargo xtask race")]
struct Race {
    /// One store: redis or postgres; default: one after the other
    #[arg(long, value_name = "NAME")]
    store: Option<String>,

    /// One round: calm, unbounded, leaving, killed, restarted or all
    #[arg(long, value_name = "NAME")]
    round: Option<String>,

    /// How many calls each round makes, of which about a thousand spend the budget
    #[arg(long, value_name = "N", default_value_t = 1_600, value_parser = clap::value_parser!(u64).range(1..=4_000))]
    calls: u64,
}

fn main() -> ExitCode {
    let race = Race::parse();
    let stores = match &race.store {
        Some(name) => vec![name.clone()],
        None => vec!["redis".to_owned(), "postgres".to_owned()],
    };
    let mut holds = true;
    for store in stores {
        match on(&store, &race) {
            Ok(all_hold) => holds &= all_hold,
            Err(why) => {
                eprintln!("{store}: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::from(u8::from(!holds))
}

/// Whether all rounds hold on this store.
fn on(name: &str, race: &Race) -> Result<bool, String> {
    let program = program::program()?;
    let wanted = |round: &&Round| race.round.as_ref().is_none_or(|name| name == round.name);
    println!("\n{name}, in dollars\n{}", table::HEAD);
    let mut holds = true;
    for round in ROUNDS.iter().filter(wanted) {
        let Some(store) = Store::open(name)? else {
            return Ok(true);
        };
        let provider = Provider::start()?;
        let mut gateways = Gateways::open(&program, store, provider.at)?;
        let books: Books = run(round, race.calls, &mut gateways, &provider)?;
        println!("{}", table::row(round.name, &books));
        holds &= books.hold(round.may_owe());
    }
    Ok(holds)
}
