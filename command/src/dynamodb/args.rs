//! The words of `tidegate dynamodb`.

use clap::{Args, Subcommand, ValueEnum};

const EXIT_CODES: &str = "\
The table is named as --store names it: dynamodb://TABLE?region=eu-central-1. Its
credentials are those of AWS programs: of the environment, the profile or the machine.

Exit codes:
  0  done; of status: nothing is left to upgrade
  1  there is no such table, it is protected, or DynamoDB cannot or will not
  2  the command line is invalid
  3  of status: the table is there, and wants `tidegate dynamodb upgrade`; or it is
     of a newer layout, and wants a newer program";

/// Make, look at, upgrade and delete the table of a DynamoDB store, or write templates for it
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Dynamodb {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Create(Create),
    Status(Status),
    Upgrade(Upgrade),
    Delete(Delete),
    Template(Template),
}

/// Make the table, and wait until it can be used; what is missing of one that is there is made
///
/// It is billed on demand. With it, processes can open the store with `migrate=off`, and need no
/// right to make tables.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Create {
    #[command(flatten)]
    pub table: Table,

    /// Protect it: DynamoDB refuses to delete it. One that is there stays as it was
    #[arg(long)]
    pub protect: bool,
}

/// Show how the table is
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Status {
    #[command(flatten)]
    pub table: Table,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Bring the table up to date: what is spent expires, and the layout is this program's
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Upgrade {
    #[command(flatten)]
    pub table: Table,

    /// Whether DynamoDB refuses to delete it from now on; default: as it is
    #[arg(long, value_name = "on|off")]
    pub protect: Option<Switch>,
}

/// Delete the table, with all that was counted, all overrides and all audit events
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Delete {
    #[command(flatten)]
    pub table: Table,

    /// The table's name once more, so that the wrong one is not deleted
    #[arg(long, value_name = "TABLE")]
    pub confirm: String,
}

/// Print a template: the table, who may do what on it, and alarms
///
/// Processes that use a table that a template made open the store with `migrate=off`. AWS is not
/// asked.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Template {
    /// What it is for
    #[arg(value_name = "KIND")]
    pub kind: Kind,

    /// The table's name
    #[arg(long, value_name = "TABLE", default_value = "tidegate")]
    pub table: String,

    /// Of `policy`: for whom
    #[arg(long, value_name = "WHO", default_value = "decide")]
    pub rights: Who,
}

#[derive(Debug, Args)]
pub struct Table {
    /// The table, as dynamodb://TABLE?region=eu-central-1
    #[arg(value_name = "STORE", env = "TIDEGATE_STORE")]
    pub store: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// What a template is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// YAML for CloudFormation
    Cloudformation,
    /// HCL for Terraform
    Terraform,
    /// A policy of IAM alone, in JSON
    Policy,
}

/// Whom a policy is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Who {
    /// A process that decides, with `migrate=off`
    Decide,
    /// A process that also makes its table
    Migrate,
    /// The user of this command
    Administer,
}
