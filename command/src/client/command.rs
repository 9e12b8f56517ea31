//! The commands that call a server.

use std::process::ExitCode;

use clap::Subcommand;
use tidegate_client::Verb;

use super::audit::Audit;
use super::capacity::Capacity;
use super::entities::Entities;
use super::exit::{FORECASTS, Outcome, PEEKS};
use super::fleet::Fleet;
use super::grant::{Grant, Return};
use super::limits::{self, Limits};
use super::listing::{Keys, Leases, printable_lines};
use super::many::CheckMany;
use super::namespaces::Namespaces;
use super::overrides::Override;
use super::run::{self, Run};
use super::shell::{Completions, Man};
use super::top::Top;
use super::usage::Usage;
use super::verbs::{Acquire, Adjust, Debit, End, Lookup, Renew, Request, Reset, Settle};

/// A command that calls a server.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take what is requested, if it fits now, without a lease
    Check(Request),
    /// Take a lease; with --wait, wait for it
    Acquire(Acquire),
    /// Take units in advance, to spend without asking: of each limit as much as is there
    Grant(Grant),
    /// Give back what is left of a grant
    Return(Return),
    /// End a lease with what was really used
    Settle(Settle),
    /// End a lease: what it took was used, what it held comes back
    Release(End),
    /// Give all of a lease back: the work did not start
    Cancel(End),
    /// Move a lease's expiry
    Renew(Renew),
    /// Change how much a lease has taken: more if it fits, less in any case
    Adjust(Adjust),
    /// Charge what was used already, whether it fits or not
    Debit(Debit),
    /// Say what `check` would answer now, and where limits stand; nothing changes
    #[command(after_help = PEEKS)]
    Peek(Lookup),
    /// Say how many such requests fit, limit by limit, and when one does
    #[command(after_help = FORECASTS)]
    Forecast(Lookup),
    /// Forget what a key has used (what leases hold stays)
    Reset(Reset),
    /// Check many, each a line of JSON, and answer each with one
    CheckMany(CheckMany),
    /// List the keys that are in use, and what is left of their limits
    Keys(Keys),
    Capacity(Capacity),
    Fleet(Fleet),
    Leases(Leases),
    Override(Override),
    #[command(name = "entity")]
    Entities(Entities),
    Namespaces(Namespaces),
    Limits(Limits),
    Audit(Audit),
    Usage(Usage),
    Run(Run),
    Top(Top),
    /// Print what a shell needs to complete this command line
    Completions(Completions),
    /// Print the manual page, or write one for each command
    Man(Man),
}

/// Performs it, and says how it ended; `whole` is the command line that it is of.
pub fn perform(command: Command, whole: clap::Command) -> ExitCode {
    let done = match command {
        Command::Check(request) => request.perform(Verb::Check),
        Command::Debit(debit) => debit.perform(),
        Command::Peek(lookup) => lookup.perform(Verb::Peek),
        Command::Forecast(lookup) => lookup.perform(Verb::Forecast),
        Command::Acquire(acquire) => acquire.perform(),
        Command::Grant(grant) => grant.perform(),
        Command::Return(back) => back.perform(),
        Command::Settle(settle) => settle.perform(),
        Command::Release(end) => end.perform(Verb::Release),
        Command::Cancel(end) => end.perform(Verb::Cancel),
        Command::Renew(renew) => renew.perform(),
        Command::Adjust(adjust) => adjust.perform(),
        Command::Reset(reset) => reset.perform(),
        Command::CheckMany(many) => many.perform(),
        Command::Keys(keys) => keys.perform(),
        Command::Capacity(capacity) => capacity.perform(),
        Command::Fleet(fleet) => fleet.perform(),
        Command::Leases(leases) => leases.perform(),
        Command::Override(given) => given.perform(),
        Command::Entities(entities) => entities.perform(),
        Command::Namespaces(namespaces) => namespaces.perform(),
        Command::Audit(audit) => audit.perform(),
        Command::Usage(usage) => usage.perform(),
        Command::Top(top) => top.perform(),
        Command::Completions(completions) => completions.perform(whole),
        Command::Man(man) => man.perform(whole),
        Command::Run(run) => return run::perform(&run),
        Command::Limits(of_file) => return ended(limits::perform(&of_file)),
    };
    ended(done)
}

fn ended(done: Outcome<impl Into<ExitCode>>) -> ExitCode {
    match done {
        Ok(exit) => exit.into(),
        Err(stop) => {
            // It may tell names that others have given.
            eprintln!("error: {}", printable_lines(&stop.to_string()));
            stop.exit.into()
        }
    }
}
