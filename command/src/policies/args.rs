//! The words of `tidegate policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::client::Options;
use tidegate_server::Terms;

const EXIT_CODES: &str = "\
Files are TOML, or YAML if their name ends in .yaml, .yml or .json. What they may
say is in docs/reference/policies.md.

Exit codes:
  0  done; every file is sound
  1  a file is missing or faulty (with --gateway: or none that a gateway can
     go by), or the server cannot or will not
  2  the command line is invalid
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
/// server's own file (with `[server]` and `[[token]]`) is read as a whole. With
/// --gateway, a file that no gateway could go by is faulty, too: once all else
/// is sound, the first reason is told, without a line.
#[derive(Debug, Args)]
#[command(
    after_help = EXIT_CODES,
    mut_arg("counts", |counts| counts.requires("gateway").help_heading(None::<&str>)),
    mut_arg("price", |price| price.requires("gateway").help_heading(None::<&str>)),
)]
pub struct Check {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Also whether `tidegate gateway` could go by this policy of each file; `llm` if none is named
    #[arg(long, value_name = "POLICY", num_args = 0..=1, require_equals = true, default_missing_value = "llm")]
    pub gateway: Option<String>,

    #[command(flatten)]
    pub terms: Terms,

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
/// It is what `tidegate policy apply` would do: prices and weights are no part of it.
/// Needs the scope `observe` for all policies: what a token may not see looks as
/// if it were not there.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Plan {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    #[command(flatten)]
    pub server: Options,

    #[command(flatten)]
    pub showing: Showing,
}

/// Switch a running server to the policies of a file
///
/// Wholly or not at all, from the next decision on, and no key is reset: a
/// policy that the file does not have is gone. Needs the scope `administer` for
/// all policies; the server notes it in its audit log.
///
/// The server keeps them beside its own file, over restarts too, and must have
/// been started with `--applied FILE`, or with `--applied store` where servers
/// share a store. Its own file is not touched, and wins as soon as its policies are changed.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Apply {
    /// The file; a server's settings and tokens in it are not sent, nor are prices
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    #[command(flatten)]
    pub server: Options,

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
