//! `cargo xtask bench dynamodb`: decisions on DynamoDB, beside the bare conditional update by the
//! same SDK, and beside zae-limiter.
//!
//! | room | holds |
//! |---|---|
//! | `options` | what it is told |
//! | `asker` | a process that asks: how each is had and started, and what a lap came to |
//! | `rows` | who asks about how many keys, and what became of each |
//! | `table` | the same, as `proof/bench/RESULTS.md` has them |
//!
//! An emulator has the first core; who is measured shares the last, in a process of its own, and
//! asks in turn. Each has made every key before it is measured.

mod asker;
mod options;
mod rows;
mod table;

use super::hosts::{Host, Ports, SERVER_CORE, free_port, pinned};
use super::peers::Missing;
use crate::command::{cargo, run as done, target_directory};
use crate::needs;
use asker::{Asker, KINDS, Place};
pub use options::HELP;
use options::Options;
use rows::{Outcome, rows};

/// So many make the keys at once.
const FILLERS: usize = 16;

/// Runs it, and prints the rows.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let before = load();
    done(&mut cargo([
        "build",
        "--release",
        "--package",
        "tidegate-bench-dynamodb",
    ]))?;
    let emulator = emulator()?;
    let place = Place {
        program: &target_directory().join("release/tidegate-bench-dynamodb"),
        endpoint: &format!("http://127.0.0.1:{}", emulator.ports.http),
    };
    let (mut askers, missing) = start(&place, &options);
    if let Some((what, why)) = missing.iter().find(|(what, _)| *what == KINDS[0].what) {
        return Err(format!("{what}: {why}"));
    }
    let outcomes = measure(&mut askers, &options)?;
    let loads = [before, load()];
    let text = table::text(&outcomes, &missing, &options, &loads);
    println!("\n{text}");
    let file = target_directory().join("bench-dynamodb.md");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    eprintln!("the same is in {}", file.display());
    Ok(())
}

/// One in memory, without tables.
fn emulator() -> Result<Host, String> {
    let (program, http) = (needs::dynoxide()?, free_port()?);
    let mut command = pinned(SERVER_CORE, &program.display().to_string());
    command.args(["serve", "--host", "127.0.0.1", "--port", &http.to_string()]);
    let ports = Ports {
        http,
        ..Ports::default()
    };
    Host::start("dynoxide", &mut command, ports)
}

/// Starts each that is wanted and can be had, and has it make its keys.
fn start(place: &Place<'_>, options: &Options) -> (Vec<Asker>, Vec<Missing>) {
    let (mut askers, mut missing) = (Vec::new(), Vec::new());
    for kind in &KINDS {
        let keys = options.keys;
        eprintln!("{}: starts, and makes {keys} keys", kind.what);
        let started = match options.is_without(kind.what) {
            true => Err("left out by --without".to_owned()),
            false => Asker::start(kind, place).and_then(|mut asker| {
                asker.ask(&format!("{FILLERS} {keys} fill"))?;
                Ok(asker)
            }),
        };
        match started {
            Ok(asker) => askers.push(asker),
            Err(why) => missing.push((kind.what, why)),
        }
    }
    (askers, missing)
}

/// Asks each in turn, row by row; who is first in one round is later in the next.
fn measure(askers: &mut [Asker], options: &Options) -> Result<Vec<Outcome>, String> {
    let outcome = |asker: &Asker| Outcome {
        what: asker.what,
        laps: Default::default(),
    };
    let mut outcomes: Vec<Outcome> = askers.iter().map(outcome).collect();
    for (row, (clients, keys)) in rows(options.keys).into_iter().enumerate() {
        for round in 0..options.rounds {
            for at in 0..askers.len() {
                let at = (at + round) % askers.len();
                let what = askers[at].what;
                eprintln!(
                    "{clients} clients, {keys} keys, round {}: {what}",
                    round + 1
                );
                let lap = askers[at].ask(&format!("{clients} {keys} {}", options.seconds))?;
                outcomes[at].laps[row].push(lap);
            }
        }
    }
    Ok(outcomes)
}

/// How many processes wanted to run in the last minute.
fn load() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = told.split_whitespace().next();
    first.unwrap_or("unknown").to_owned()
}
