//! Draws how each algorithm of `tidegate::adaptive` follows a simulated provider that changes:
//! `cargo run -p tidegate-sim --example adaptive_provider -- limits.svg`.
//!
//! The picture of the page on adaptive concurrency is drawn by it, and a test compares the two.

use std::process::ExitCode;

#[path = "../tests/adaptive/callers.rs"]
mod callers;
#[path = "../tests/adaptive/picture.rs"]
mod picture;

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1) else {
        eprintln!("say where to write the picture: limits.svg, for example");
        return ExitCode::FAILURE;
    };
    match std::fs::write(&file, picture::draw()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}
