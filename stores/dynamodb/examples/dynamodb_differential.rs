//! The differential test on an emulator of DynamoDB, for as long as one likes:
//! `cargo xtask differential --store dynamodb --commands 1000000 --seed 1`.
//!
//! (The one of `proof/conformance` does not know this store, so that those tests need not build
//! the SDK.)

#[path = "../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::sync::Arc;

use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::{Subject, differential};
use tidegate_dynamodb::Clock;

/// So many commands go to one DynamoDB table: what lists several roots reads all of it.
const A_TABLE: usize = 5_000;

/// Seeds lie this far apart from table to table.
const STRIDE: u64 = 1 << 32;

/// An emulator keeps all in memory: after so many tables another is started.
const TABLES: u64 = 20;

fn main() -> ExitCode {
    match asked_for(std::env::args().skip(1)) {
        Ok((commands, seed)) => run(commands, seed),
        Err(wrong) => {
            eprintln!("{wrong}; --commands N and --seed N are understood");
            ExitCode::FAILURE
        }
    }
}

/// How many commands, from which seed on.
fn asked_for(mut arguments: impl Iterator<Item = String>) -> Result<(usize, u64), String> {
    let (mut commands, mut seed) = (1_000_000, 1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = value.parse::<u64>();
        let number = number.map_err(|_| format!("`{argument} {value}` is no number"))?;
        match argument.as_str() {
            "--commands" => commands = number as usize,
            "--seed" => seed = number,
            other => return Err(format!("`{other}` is not known")),
        }
    }
    Ok((commands, seed))
}

fn run(commands: usize, seed: u64) -> ExitCode {
    let (mut asked, mut emulator) = (0, None);
    for table in 0.. {
        if asked >= commands {
            break;
        }
        if table % TABLES == 0 {
            drop(emulator.take());
            emulator = DynamodbServer::start();
        }
        let Some(emulator) = &emulator else {
            return ExitCode::FAILURE;
        };
        let (name, endpoint) = (format!("differential{table}"), emulator.endpoint());
        let open = move || Arc::clone(&support::table(&name, &endpoint, Clock::Caller)) as _;
        let seed = seed.wrapping_add(STRIDE.wrapping_mul(table));
        let most = A_TABLE.min(commands - asked);
        asked += differential(&Subject::opened_once(open), seed, most);
        println!("{asked:>12} commands answered as by the reference, from seed {seed} on");
    }
    ExitCode::SUCCESS
}
