//! `provider`: a provider of language models for tests, over HTTP.

mod args;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> ExitCode {
    let told = args::Provider::parse();
    let settings = match told.settings() {
        Ok(settings) => settings,
        Err(wrong) => {
            let mut command = args::Provider::command();
            command.error(ErrorKind::ValueValidation, wrong).exit();
        }
    };
    let done = async {
        let listener = TcpListener::bind(told.listen).await?;
        let mut out = std::io::stdout();
        writeln!(out, "http://{}", listener.local_addr()?)?;
        out.flush()?;
        tidegate_sim::server::serve(listener, settings, told.seed).await
    };
    match done.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error}", told.listen);
            ExitCode::FAILURE
        }
    }
}
