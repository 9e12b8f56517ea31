//! Explores the instances: `cargo xtask model`.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tidegate_model::{Found, Instance, explore, instances};

/// Every history of a few nodes on one store: states, the most admitted, the bound
#[derive(Debug, Parser)]
#[command(name = "cargo xtask model")]
struct Arguments {
    /// Only instances whose names contain this
    #[arg(long, value_name = "PART", default_value = "")]
    only: String,

    /// So many threads
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    threads: usize,

    /// For every safeguard that is off, how a history goes beyond the bound without it
    #[arg(long)]
    how: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let all = instances::all().into_iter();
    let chosen: Vec<_> = all
        .filter(|(name, _)| name.contains(&arguments.only))
        .collect();
    if chosen.is_empty() {
        eprintln!("error: no instance has a name with `{}`", arguments.only);
        return ExitCode::FAILURE;
    }
    let results = chosen
        .iter()
        .map(|(name, instance)| run(&arguments, name, instance));
    match results.filter(|is_as_said| !is_as_said).count() {
        0 => ExitCode::SUCCESS,
        count => {
            eprintln!(
                "error: {count} of {} instances are not as they should be",
                chosen.len()
            );
            ExitCode::FAILURE
        }
    }
}

/// Explores one, and says what came of it; whether that is as it should be.
fn run(arguments: &Arguments, name: &str, instance: &Instance) -> bool {
    println!("{name}");
    let every = Duration::from_secs(10);
    let found = explore(instance, arguments.threads, (&mut stdout(), every));
    let is_as_said = found.is_as_it_should_be(instance);
    println!("{}", line(&found, is_as_said));
    if arguments.how || !is_as_said {
        for action in found.beyond.iter().chain(&found.owes).flatten() {
            println!("    {action:?}");
        }
    }
    let _ = stdout().flush();
    is_as_said
}

fn line(found: &Found, is_as_said: bool) -> String {
    format!(
        "  {} states, {} s; at most {} of {}{}: {}",
        found.states,
        found.took.as_secs(),
        found.most,
        found.bound,
        match found.beyond {
            Some(_) => ", beyond the bound",
            None => "",
        },
        if is_as_said {
            "as it should be"
        } else {
            "WRONG"
        }
    )
}
