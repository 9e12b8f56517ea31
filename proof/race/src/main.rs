//! Runs the rounds: `cargo xtask race`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use tidegate_conformance::redis_server::{DURABLE, RedisServer};
use tidegate_fleet::program;
use tidegate_race::gateway::Gateways;
use tidegate_race::litellm::Proxies;
use tidegate_race::provider::Provider;
use tidegate_race::round::{ROUNDS, Round};
use tidegate_race::rounds::{self, Opened, Whose};
use tidegate_race::store::Store;
use tidegate_race::table;

/// Spend a budget of 10 dollars through four gateways on one store, with kills
#[derive(Debug, Parser)]
#[command(name = "cargo xtask race")]
struct Race {
    /// One store; default: one after the other
    #[arg(long, value_name = "NAME", value_parser = ["redis", "postgres"])]
    store: Option<String>,

    /// One round: calm, unbounded, leaving, killed, restarted or all
    #[arg(long, value_name = "NAME")]
    round: Option<String>,

    /// How many calls each round makes, of which about a thousand spend the budget
    #[arg(long, value_name = "N", default_value_t = 1_600, value_parser = clap::value_parser!(u64).range(1..=4_000))]
    calls: u64,

    /// This program of LiteLLM on Redis instead: as it comes, and with its strictest setting
    #[arg(long, value_name = "PATH", conflicts_with = "store")]
    litellm: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Race::parse()) {
        Ok(holds) => ExitCode::from(u8::from(!holds)),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all rounds hold; of somebody else's, nothing is demanded.
fn run(race: &Race) -> Result<bool, String> {
    if let Some(program) = &race.litellm {
        let program = std::path::absolute(program).map_err(|error| error.to_string())?;
        for (name, strict) in [("LiteLLM", false), ("LiteLLM, fail closed", true)] {
            let open = |provider: &Provider| litellm(&program, provider, strict);
            print_rounds((name, Whose::Theirs), race, open)?;
        }
        return Ok(true);
    }
    let program = program::program()?;
    let mut holds = true;
    for name in ["redis", "postgres"] {
        if race.store.as_ref().is_none_or(|wanted| wanted == name) {
            let open = |provider: &Provider| ours(&program, name, provider);
            holds &= print_rounds((name, Whose::Ours), race, open)?;
        }
    }
    Ok(holds)
}

fn ours(program: &Path, store: &str, provider: &Provider) -> Opened {
    let Some(store) = Store::open(store)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(Gateways::open(program, store, provider.at)?)))
}

fn litellm(program: &Path, provider: &Provider, strict: bool) -> Opened {
    let Some(store) = RedisServer::start_with(&DURABLE) else {
        return Ok(None);
    };
    let proxies = Proxies::open(program, store, provider.at, strict)?;
    Ok(Some(Box::new(proxies)))
}

/// Plays the rounds that are wanted, and prints a row of each: whether they hold.
fn print_rounds(
    (name, whose): (&str, Whose),
    race: &Race,
    open: impl Fn(&Provider) -> Opened,
) -> Result<bool, String> {
    let wanted = |round: &&Round| race.round.as_ref().is_none_or(|name| name == round.name);
    let wanted: Vec<Round> = ROUNDS.iter().filter(wanted).copied().collect();
    println!("\n{name}, in dollars\n{}", table::HEAD);
    let played = rounds::play(&wanted, race.calls, whose, open, |row| println!("{row}"));
    played.map_err(|why| format!("{name}: {why}"))
}
