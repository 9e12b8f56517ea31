//! `tidegate policy`: policies as files, before and while a server has them.
//!
//! | room | holds |
//! |---|---|
//! | `args` | the words of the command line |
//! | `files` | files read and found sound, or every fault of them |
//! | `server` | a server's policies, and others sent to it |
//! | `table` | changes as a table or as JSON |
//!
//! Deliberately absent: what a policy means, and what a change means for keys in
//! use: the engine says it.

mod args;
mod files;
mod server;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate_gateway::{CostChange, file_costs};
use tidegate_llm::Prices;
use tidegate_service::compare;

pub use args::Policy;
use args::{Apply, Check, Command, Diff, Plan, Showing};
use files::Read;

use crate::client::CHANGES;
use tidegate_server::runtime;
use tidegate_server::store::shown;
use tidegate_server::trouble::Outcome;

/// Does what the command line says.
pub fn policy(args: &Policy) -> Outcome<ExitCode> {
    match &args.command {
        Command::Check(args) => check(args),
        Command::Diff(args) => diff(args),
        Command::Plan(args) => plan(args),
        Command::Apply(args) => apply(args),
    }
}

fn check(args: &Check) -> Outcome<ExitCode> {
    let look = |path: &PathBuf| {
        let read = files::read(path);
        match &args.gateway {
            Some(policy) => read.for_gateway(policy, &args.terms),
            None => read,
        }
    };
    let read: Vec<Read> = args.files.iter().map(look).collect();
    let sound = read.iter().all(Read::is_sound);
    match args.json {
        true => table::print_json(&files::json(&read))?,
        false => files::tell(&read)?,
    }
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn diff(args: &Diff) -> Outcome<ExitCode> {
    let (old, new) = (files::sound(&args.old)?, files::sound(&args.new)?);
    let costs = [&old, &new].map(file_costs);
    let of_costs = CostChange::between(&costs[0], &costs[1], &Prices::default());
    let mut rows = table::rows(&compare(&old.policies, &new.policies));
    rows.extend(of_costs.iter().map(table::Row::from));
    show(&rows, &args.showing)
}

fn plan(args: &Plan) -> Outcome<ExitCode> {
    let wanted = files::sound(&args.file)?;
    let client = args.server.connect()?;
    for note in files::costs_left_out(&wanted) {
        eprintln!("note: {note}");
    }
    let known = runtime()?.block_on(server::policies(&client))?;
    show(
        &table::rows(&compare(&known, &wanted.policies)),
        &args.showing,
    )
}

fn show(rows: &[table::Row], showing: &Showing) -> Outcome<ExitCode> {
    table::show(rows, showing.json)?;
    let differ = showing.exit_code && !rows.is_empty();
    Ok(if differ {
        ExitCode::from(CHANGES)
    } else {
        ExitCode::SUCCESS
    })
}

fn apply(args: &Apply) -> Outcome<ExitCode> {
    let sent = files::to_be_sent(&args.file)?;
    let client = args.server.connect()?;
    for note in &sent.left_out {
        eprintln!("note: {note}");
    }
    let rows = runtime()?.block_on(server::apply(&client, &args.file, sent))?;
    table::show(&rows, args.json)?;
    if !args.json {
        table::print(&format!("applied at {}\n", shown(&args.server.server)))?;
    }
    Ok(ExitCode::SUCCESS)
}
