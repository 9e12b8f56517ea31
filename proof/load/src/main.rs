//! `tidegate-load`: asks a server as hard as it is told, and checks its answers.
//!
//! | room | holds |
//! |---|---|
//! | `args` | what it is told |
//! | `keys`, `arrivals`, `watch` | for whom it asks, when, and what time it is |
//! | `wire` | asks and answers as bytes: RESP and HTTP |
//! | `pipeline`, `calls` | connections: of bytes in order, and of gRPC |
//! | `tally`, `ledger` | what was answered, and whether that was within the limits |
//! | `policy`, `fetch` | the limits, as the server itself tells them |
//! | `report`, `run` | what came of it, and how |
//!
//! With a rate the load is *open*: asks arrive on schedule whether earlier ones
//! are answered or not, and an answer's latency counts from the instant at which
//! its ask was to be sent. A server (or a machine) that stalls is so charged with
//! all who would have come meanwhile ("coordinated omission", after Gil Tene).
//!
//! All of it runs on one thread: it often shares a small machine with the server.

mod args;
mod arrivals;
mod calls;
mod fetch;
mod keys;
mod ledger;
mod pipeline;
mod policy;
mod report;
mod run;
mod tally;
mod watch;
mod wire;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

fn main() -> ExitCode {
    let load = args::Load::parse();
    if let Err(wrong) = load.check() {
        let mut command = args::Load::command();
        command.error(ErrorKind::ValueValidation, wrong).exit();
    }
    match run::load(&load) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
