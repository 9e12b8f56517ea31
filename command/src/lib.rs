//! What the one binary, `tidegate`, does: its server is `tidegate-server`.
//!
//! `args` is the command line, `command` what each word of it does; `client` is whatever asks a
//! server; `trace` reads traffic, `replay`
//! plays it through the engine, `report` and `plot` tell what came of it.

mod args;
#[cfg(test)]
mod book;
mod client;
mod command;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod output;
mod plot;
mod policies;
mod replay;
mod report;
mod shape;
mod subject;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tidegate_server::trouble::Outcome;

/// The program: reads the command line, and does what it says.
pub fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let done = match cli.command {
        args::Command::Replay(replay) => command::replay(&replay),
        args::Command::Serve(args) => return served(tidegate_server::serve(&args, None), args.log),
        args::Command::Gateway(args) => {
            let log = args.serve.log;
            return served(tidegate_server::serve(&args.serve, Some(&args)), log);
        }
        args::Command::Token(args) => command::token(&args),
        args::Command::Client(command) => return client::perform(*command, args::Cli::command()),
        args::Command::Policy(args) => return ended(policies::policy(&args)),
        #[cfg(feature = "dynamodb")]
        args::Command::Dynamodb(args) => return ended(dynamodb::dynamodb(&args)),
    };
    ended(done.map(|()| ExitCode::SUCCESS))
}

/// How a server ended: what reads its log finds why it did not start in the form of the log.
fn served(done: Outcome<()>, log: tidegate_server::LogForm) -> ExitCode {
    match done {
        Err(trouble) if log == tidegate_server::LogForm::Json => {
            eprintln!("{}", tidegate_server::error_line(&trouble));
            trouble.exit_code()
        }
        done => ended(done.map(|()| ExitCode::SUCCESS)),
    }
}

fn ended(done: Outcome<ExitCode>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(trouble) => {
            eprintln!("error: {trouble}");
            trouble.exit_code()
        }
    }
}
