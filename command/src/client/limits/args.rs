//! The words of `tidegate limits`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::client::Options;

const EXAMPLES: &str = "\
Examples:
  What is not as the file says:     tidegate limits plan limits.toml
  The same, setting by setting:     tidegate limits diff limits.toml
  Make it so:                       tidegate limits apply limits.toml --reason 'ticket 17'

The file is TOML, or YAML if its name ends in .yaml, .yml or .json:

  [entity.acme]
  name = \"Acme Inc.\"

  [entity.search]
  parent = \"acme\"

  [[override]]
  policy = \"chat\"
  entity = \"search\"                 # or key = \"...\"
  limits.rpm = { calls = 1000, per = \"1m\" }

docs/operating/limits.md says more.";

const EXIT_CODES: &str = "\
Exit codes:
  0  of plan and diff: the server is as the file says; of apply: now it is
  2  the command line or the file is invalid
  3  of plan and diff: something is not as the file says
  4  not allowed: no token, a wrong one, or one that is not for this
  5  failed: the server cannot be reached, is busy or full, or its store did not answer
  6  gone: a policy or an entity that was removed meanwhile
  7  conflict: another has changed it meanwhile, or others depend on it";

/// Manage entities and overrides from a file
///
/// What the file does not name is not touched. To take something away, the file says
/// `absent = true` of it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Limits {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what `apply` would do, a line for each, and do nothing
    Plan(Looking),
    /// Show each setting that differs: the server's value, and the file's
    Diff(Looking),
    Apply(Apply),
}

/// A file, held against a server.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Looking {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Print one JSON object: every change with its settings
    #[arg(long, help_heading = "The answer")]
    pub json: bool,

    #[command(flatten)]
    pub server: Options,
}

/// Make the server's entities and overrides as the file says
///
/// Parents come before their children. Each change is made on the version that was read, and
/// leaves an audit event. If another changes the same meanwhile, or if it is ended halfway, what
/// is done is done: repeat it, and it goes on where it was. Needs the scopes `observe` and
/// `administer` for all policies.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Apply {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Why; `tidegate audit` tells it of entities, and of overrides that are removed. Why an
    /// override is set the file says
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,

    /// Print one JSON object: every change that was made, with its version
    #[arg(long, help_heading = "The answer")]
    pub json: bool,

    #[command(flatten)]
    pub server: Options,
}
