//! The differential test for as long as one likes, on the memory store:
//! `cargo xtask differential --commands 1000000 --seed 1`.

use std::process::ExitCode;
use std::sync::Arc;

use tidegate::contract::Store;
use tidegate_conformance::{Subject, differential};
use tidegate_memory::MemoryStore;

/// How often it says how far it is.
const REPORTS: usize = 20;

/// Seeds lie this far apart from report to report.
const STRIDE: u64 = 1 << 32;

fn main() -> ExitCode {
    match numbers(std::env::args().skip(1)) {
        Ok((commands, seed)) => run(commands, seed),
        Err(wrong) => {
            eprintln!("{wrong}; --commands N and --seed N are understood");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run(commands: usize, seed: u64) {
    let open = || Arc::new(MemoryStore::default()) as Arc<dyn Store>;
    let subject = Subject::new(open);
    let mut asked = 0;
    for report in 0..REPORTS {
        let seed = seed.wrapping_add(STRIDE * report as u64);
        asked += differential(&subject, seed, commands.div_ceil(REPORTS));
        println!("{asked:>12} commands answered as by the reference, from seed {seed} on");
    }
}

/// How many commands, and the first seed.
fn numbers(mut arguments: impl Iterator<Item = String>) -> Result<(usize, u64), String> {
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
