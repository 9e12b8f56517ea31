//! Clients of DynamoDB in one process, which `cargo xtask bench dynamodb` measures: ours, or the
//! bare conditional update by the same SDK. (`zae.py`, beside this, is zae-limiter's.)
//!
//! | room | holds |
//! |---|---|
//! | `asks` | what a client asks: a take of a set's, or an update |
//! | `lap` | clients that ask as fast as they are answered, and what that came to |
//!
//! It reads a lap from each line of its input, `CLIENTS KEYS SECONDS`, or `CLIENTS KEYS fill`, in
//! which each key is asked about once; and answers each in a line of JSON: how many decisions, in
//! how many seconds, of how many microseconds of this process's CPU time each, and how long they
//! took (p50 and p99, in microseconds).

mod asks;
mod lap;

use std::io::stdin;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use asks::Asks;
use lap::Lap;

/// What a client asks
#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// A take of a set of ours
    Ours,
    /// An update with a condition
    Bare,
}

/// Clients of DynamoDB that ask as fast as they are answered
#[derive(Debug, Parser)]
struct Options {
    what: What,
    /// Where DynamoDB is, as http://127.0.0.1:8000
    #[arg(long)]
    endpoint: String,
    /// Its table, which is made
    #[arg(long)]
    table: String,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let asks = match options.what {
        What::Ours => Asks::ours(&options.table, &options.endpoint)?,
        What::Bare => runtime.block_on(Asks::bare(&options.table, &options.endpoint))?,
    };
    for line in stdin().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let lap = Lap::read(&line).ok_or_else(|| format!("not a lap: {line}"))?;
        println!("{}", lap.drive(&runtime, &asks)?);
    }
    Ok(())
}
