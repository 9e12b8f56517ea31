//! Draws how each algorithm of `tidegate::adaptive` follows a server that changes:
//! `cargo run -p tidegate --example adaptive_concurrency -- limits.svg`.
//!
//! The picture of the page on adaptive concurrency is drawn by it, and a test compares the
//! two.

use std::process::ExitCode;

#[path = "../tests/adaptive/chance.rs"]
mod chance;
#[path = "../tests/adaptive/picture.rs"]
mod picture;
#[path = "../tests/adaptive/server.rs"]
mod server;

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
