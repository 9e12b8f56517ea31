//! Stores beyond a network, beside the least that their servers could be asked for
//! the same: `cargo xtask bench stores`.
//!
//! | room | holds |
//! |---|---|
//! | `allocator` | counts allocations, as the other benches do |
//! | `bench` | what every row is told |
//! | `host` | a server on one core, and the CPU time that it has spent |
//! | `drive` | clients that ask as fast as they are answered |
//! | `ours` | takes and leases of sets on a store, some of which count what is used |
//! | `measure` | interleaved rounds, and what they come to |
//! | `redis`, `postgres`, `mariadb` | who is asked what |
//! | `batches` | a thousand checks, one after the other and in one batch |
//! | `tiers` | the same by grants, which need no server: `cargo xtask bench tiers` |
//!
//! Servers run on the first core and clients on the last. A round asks everyone of a
//! row once; ratios are taken inside a round, and their median is told, with the
//! least and the most.

#[path = "../../bench/src/allocator.rs"]
#[expect(
    unsafe_code,
    dead_code,
    reason = "an allocator that counts, and one bench asks less"
)]
mod allocator;
mod batches;
mod bench;
mod drive;
mod host;
mod mariadb;
mod measure;
mod ours;
mod patient;
mod postgres;
mod redis;
mod tiers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use bench::Bench;
use measure::{Outcome, json};

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// What an engine's rows came to.
type Rows = fn(&Bench) -> Vec<Outcome>;

/// Each engine's rows, by the word that they begin with.
const ENGINES: [(&str, Rows); 5] = [
    ("batch", batches::rows),
    ("tiers", tiers::rows),
    ("redis", redis::rows),
    ("postgres", postgres::rows),
    ("mariadb", mariadb::rows),
];

/// Stores beside the least that their servers could be asked for the same.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench stores", override_help = include_str!("help.txt"))]
struct Options {
    /// How often each of a row is asked
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
    /// How long each time, in seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=100))]
    seconds: u8,
    /// One round of a second: whether it runs, and no figure to keep
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    short: bool,
    /// Rows whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Every figure of every round as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Whether any row of an engine may be wanted: the first that is named, or all.
fn wants_engine(bench: &Bench, name: &str) -> bool {
    let named = ENGINES
        .iter()
        .filter_map(|(name, _)| Some((bench.only.find(name)?, *name)));
    named.min().is_none_or(|(_, first)| first == name)
}

fn main() -> ExitCode {
    let options = Options::parse();
    let bench = Bench {
        rounds: if options.short {
            1
        } else {
            options.rounds.into()
        },
        lap: Duration::from_secs(if options.short {
            1
        } else {
            options.seconds.into()
        }),
        only: options.only,
    };
    host::keep_to_the_last_core();
    println!("requests a second, and CPU time of the server for each; rate x: beside the first of");
    println!("the row, CPU x: its CPU time over this one's; median (least-most) of the rounds");
    let engines = ENGINES
        .iter()
        .filter(|(name, _)| wants_engine(&bench, name));
    let outcomes: Vec<Outcome> = engines.flat_map(|(_, rows)| rows(&bench)).collect();
    let Some(path) = options.json else {
        return ExitCode::SUCCESS;
    };
    match std::fs::write(&path, json(&outcomes).to_string()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
