//! The words of `tidegate policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::client::Client;
use crate::trouble::{Outcome, Trouble};

const EXIT_CODES: &str = "\
Files are TOML, or YAML if their name ends in .yaml, .yml or .json. What they may
say is in docs/policies.md.

Exit codes:
  0  done; every file is sound
  1  a file is missing or faulty, or the server cannot or will not
  2  the command line makes no sense
  3  with --exit-code: something changes";

/// Check policy files, compare them, and send them to a server
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Policy {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Check(Check),
    Diff(Diff),
    Plan(Plan),
    Apply(Apply),
}

/// Find everything that is wrong with policy files, all at once
///
/// Every fault is told with its file, its line and what to write instead. A
/// server's own file (with [server] and [[token]]) is read as a whole.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Check {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Show what changes from one file to another, and what it means for live keys
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Diff {
    /// The file as it was
    #[arg(value_name = "OLD")]
    pub old: PathBuf,

    /// The file as it becomes
    #[arg(value_name = "NEW")]
    pub new: PathBuf,

    #[command(flatten)]
    pub showing: Showing,
}

/// Show what a file would change on a running server, and change nothing
///
/// Needs the scope `observe` for all policies: what a token may not see looks as
/// if it were not there.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Plan {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    #[command(flatten)]
    pub target: Target,

    #[command(flatten)]
    pub showing: Showing,
}

/// Let a running server go over to the policies of a file
///
/// Wholly or not at all, from the next decision on, and nobody is reset: a
/// policy that the file does not have is gone. Needs the scope `administer` for
/// all policies; the server notes it in its audit log.
///
/// The server keeps them beside its own file, over restarts too, and must have
/// been told where: `tidegate serve --applied FILE`. Its own file is not
/// touched, and wins as soon as its policies are changed.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Apply {
    /// The file, which has policies alone
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    #[command(flatten)]
    pub target: Target,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How changes are shown.
#[derive(Debug, Args)]
pub struct Showing {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// End with 3 if anything changes
    #[arg(long)]
    pub exit_code: bool,
}

/// Which server, and who asks.
#[derive(Debug, Args)]
#[command(next_help_heading = "The server")]
pub struct Target {
    /// Its address, over HTTP
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_SERVER",
        default_value = "http://127.0.0.1:7400"
    )]
    pub server: String,

    /// The token that lets us in
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TIDEGATE_TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,

    /// A file whose first line is the token; goes before --token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl Target {
    /// The server, to be asked.
    pub fn connect(&self) -> Outcome<Client> {
        let token = match &self.token_file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.map_err(|error| Trouble::file("read", path, error))?;
                text.lines().next().map(|line| line.trim().to_owned())
            }
            None => self.token.clone(),
        };
        Client::new(&self.server, token.filter(|token| !token.is_empty()))
    }
}
