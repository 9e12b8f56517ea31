//! `tidegate limits`: entities and overrides as a file says them, held against a server.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the words of the command line |
//! | `there` | what the server keeps of what the file names |
//! | `plan` | what has to change, in an order that is always valid; pure |
//! | `settings` | a setting that becomes something else, and which of an override's do |
//! | `apply` | one change after the other, each on the version that was read |
//! | `tell` | changes as lines, as a table, as JSON |
//!
//! Deliberately absent: reading the file (`tidegate_policy::parse_desired`), and taking away
//! what the file does not name.

mod apply;
mod args;
mod plan;
mod settings;
mod tell;
mod there;

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use tidegate_policy::{DesiredState, parse_desired};

pub use args::Limits;
use args::{Command, Looking};
use plan::Plan;
use there::There;

use super::exit::{CHANGES, Exit, Outcome, Stop};
use super::server::runtime;

/// Does what the command line says.
pub fn perform(args: &Limits) -> Outcome<ExitCode> {
    match &args.command {
        Command::Plan(looking) => look(looking, tell::plan),
        Command::Diff(looking) => look(looking, tell::diff),
        Command::Apply(args) => {
            let desired = read(&args.file)?;
            let client = args.server.connect()?;
            runtime()?.block_on(async {
                let there = There::read(&client, &desired, &args.file).await?;
                let plan = held_against(&args.file, &desired, &there)?;
                apply::apply(&client, &plan, args).await
            })?;
            Ok(Exit::Done.into())
        }
    }
}

fn look(args: &Looking, tell: fn(&Plan<'_>, &Path) -> Outcome<()>) -> Outcome<ExitCode> {
    let desired = read(&args.file)?;
    let client = args.server.connect()?;
    let read = runtime()?.block_on(There::read(&client, &desired, &args.file));
    let there = read?;
    let plan = held_against(&args.file, &desired, &there)?;
    match args.json {
        true => tell::json(&plan.steps, &[])?,
        false => tell(&plan, &args.file)?,
    }
    Ok(match plan.steps.is_empty() {
        true => Exit::Done.into(),
        false => ExitCode::from(CHANGES),
    })
}

/// What the file says; every fault of it.
fn read(path: &Path) -> Outcome<DesiredState> {
    let text = std::fs::read_to_string(path);
    let text =
        text.map_err(|error| Stop::usage(format!("cannot read {}: {error}", path.display())))?;
    parse_desired(&path.to_string_lossy(), &text).map_err(Stop::usage)
}

/// What has to change; what of the file cannot be on this server is told with its line.
fn held_against<'d>(path: &Path, desired: &'d DesiredState, there: &There) -> Outcome<Plan<'d>> {
    let plan = plan::plan(desired, there, Timestamp::now()).map_err(|faults| {
        let faults = faults.iter().map(|fault| {
            let (line, message) = (fault.line, &fault.message);
            format!("{message}\n --> {}:{line}", path.display())
        });
        Stop::usage(faults.collect::<Vec<_>>().join("\n\n"))
    })?;
    for note in &plan.notes {
        let (line, message) = (note.line, &note.message);
        eprintln!("note: {message}\n --> {}:{line}", path.display());
    }
    Ok(plan)
}
