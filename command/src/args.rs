//! The command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tidegate_policy::parse_duration;

use crate::client::{self, ClientTls, Credential};
#[cfg(feature = "dynamodb")]
use crate::dynamodb::Dynamodb;
use crate::policies::Policy;
use crate::trace::{CostField, Format, KeyChoice, TimeField};
use tidegate_server::{GatewayArgs, Serve, factor};

/// May this work start now, and how much may it use? The server of limits, the commands that
/// call it, and what a policy would have done to your traffic
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(Box<Serve>),
    Gateway(Box<GatewayArgs>),
    Token(Token),
    Policy(Policy),
    #[cfg(feature = "dynamodb")]
    Dynamodb(Dynamodb),
    Replay(Box<Replay>),
    #[command(flatten)]
    Client(Box<client::Command>),
}

/// Make a token, and what to write into the server's file for it
///
/// Standard output is for the file: `tidegate token NAME >> tidegate.toml`. The token itself
/// goes to standard error, as its first line, and is shown this once: `2> NAME.token` keeps it
/// for `--token-file`.
#[derive(Debug, Args)]
pub struct Token {
    /// The token's name, which logs and the audit log show
    pub name: String,

    /// What it is good for, with commas between: decide, observe, administer, store
    #[arg(
        long,
        value_name = "SCOPE,...",
        value_delimiter = ',',
        default_value = "decide,observe"
    )]
    pub scopes: Vec<String>,

    /// For which policies (names, or beginnings with a *), with commas between; default: all
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',')]
    pub policies: Vec<String>,

    /// For which namespace; default: the store without any. `*`: every one
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done; of check, acquire and the like: admitted
  1  a file of serve, gateway, policy or replay is missing or faulty, or could not
     be written; of check, acquire and the like: refused, not now
  2  the command line or the request is invalid; of what calls a server, a file, too
Commands that call a server have more (3 never, 4 not allowed, 5 failed, 6 gone,
7 conflict), and so have run and policy: `tidegate COMMAND --help` lists them.";

const REPLAY: &str = "\
The trace is played in virtual time: an hour of traffic takes a moment, and the
same trace and policy give the same answer, byte for byte.

A request that does not fit at its arrival is refused and changes nothing. With
--wait it queues instead, first come first served for its key, and is refused at
its deadline. A request that ends at the same microsecond as another arrives
ends first.

What a request costs:
  A limit on `calls` is charged 1, a limit on `concurrency` holds 1 while the
  request is served (see --service). A `rate` or `budget` is charged the
  request's tokens (azure: context + generated), its bytes sent (combined), or
  a field that you name with --cost-field (jsonl; found without: prompt_tokens
  and completion_tokens, input_tokens and output_tokens, tokens, total_tokens,
  by themselves or in `usage`).";

const EXAMPLES: &str = "\
Examples:
  What would this policy have done? A table, and a picture:
    tidegate replay trace.csv --policy llm-gateway.toml --plot out.svg

  The same, but requests may wait up to ten seconds, hold a slot as long as the
  model would work on them, and reserve 200 tokens for an answer whose length
  is not known beforehand:
    tidegate replay trace.csv --policy llm-gateway.toml --wait 10s \\
        --service ttft=200ms,per_token=20ms --reserve context+200

  A web log, limited for each address, by the policy `web` of a file:
    tidegate replay access.log --policy limits.toml#web --key ip

  JSON lines, limited for each user of each organisation, with input and output
  tokens charged to two limits:
    tidegate replay calls.jsonl --policy llm.toml --key org,user \\
        --cost-field itpm=usage.input --cost-field otpm=usage.output

  Every decision, for a script of your own:
    tidegate replay trace.csv --policy llm-gateway.toml --decisions out.csv

Decisions (--decisions) are CSV with the columns
  request,key,arrived_us,started_us,ended_us,outcome,binding_limit
and then reserved.NAME,used.NAME for each limit of the policy. `request` counts
from 0 in the order of arrival; instants are microseconds from the first
request; outcome is admitted, waited or refused; binding_limit is the limit that
made it wait or refused it; a refused request has empty fields where it has
nothing.

Exit codes:
  0  done, whatever was refused
  1  a file is missing or faulty, or could not be written
  2  the command line is invalid";

/// Play real traffic through a policy and see what it would have done
#[derive(Debug, Args)]
#[command(long_about = format!("Play real traffic through a policy and see what it would have done\n\n{REPLAY}"))]
#[command(after_long_help = EXAMPLES)]
#[command(after_help = "Examples, formats and exit codes: tidegate replay --help")]
pub struct Replay {
    /// The traffic: an Azure LLM trace, a web server's log or JSON lines; `-`
    /// reads standard input
    pub trace: PathBuf,

    /// The policy file (TOML or YAML), with #NAME if it has several policies
    #[arg(long, short, value_name = "FILE[#NAME]")]
    pub policy: PolicyName,

    /// How the trace is written; default: as its first line looks
    #[arg(long, value_name = "FORMAT", help_heading = "The trace")]
    pub format: Option<Format>,

    /// Who is limited: a field (ip, user, path, method, status, agent in a
    /// log), several as ORG,USER, or everyone alike as =NAME
    ///
    /// By default the address in a web server's log, and everyone alike
    /// elsewhere.
    #[arg(long, value_name = "FIELD|=NAME", help_heading = "The trace")]
    pub key: Option<KeyChoice>,

    /// The field that is charged to rates and budgets, or to one LIMIT; may be
    /// given several times
    #[arg(long, value_name = "[LIMIT=]FIELD", help_heading = "The trace")]
    pub cost_field: Vec<CostField>,

    /// The field of the instant in JSON lines: RFC 3339, or a number since 1970
    /// whose unit may follow as :s, :ms, :us or :ns
    #[arg(long, value_name = "FIELD[:UNIT]", help_heading = "The trace")]
    pub time_field: Option<TimeField>,

    /// The field of the tokens known at the arrival
    #[arg(long, value_name = "FIELD", help_heading = "The trace")]
    pub context_field: Option<String>,

    /// The field of the tokens known only at the end
    #[arg(long, value_name = "FIELD", help_heading = "The trace")]
    pub generated_field: Option<String>,

    /// Let a request that does not fit wait this long; without it, it is
    /// refused at once
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "What happens")]
    pub wait: Option<Duration>,

    /// What a request takes of rates and budgets when it starts: `total` (what
    /// it will have used), `context+N`, or N; settled with the truth at its end
    #[arg(
        long,
        value_name = "ESTIMATE",
        default_value = "total",
        help_heading = "What happens"
    )]
    pub reserve: Reserve,

    /// How long a request is served, and so holds what is counted by
    /// `concurrency`: a DURATION, or ttft=DURATION,per_token=DURATION for each
    /// generated token; 0s ends it as it starts. It renews its slot if that
    /// lasts for a shorter time
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0s",
        help_heading = "What happens"
    )]
    pub service: Service,

    /// Play it through the server at this address instead, over HTTP; the
    /// policy file says what the server's policy of that name is
    #[arg(long, value_name = "URL", help_heading = "Through a server")]
    pub server: Option<String>,

    /// Play the trace so many times as fast; the server's clock must run as
    /// fast (`tidegate serve --speed`)
    #[arg(long, value_name = "FACTOR", default_value_t = 1, requires = "server", help_heading = "Through a server", value_parser = factor)]
    pub speed: u32,

    #[command(flatten, next_help_heading = "Through a server")]
    pub token: Credential,

    #[command(flatten, next_help_heading = "Through a server")]
    pub tls: ClientTls,

    /// Draw demand, what was admitted and the limits over time
    #[arg(long, value_name = "FILE.svg", help_heading = "What is shown")]
    pub plot: Option<PathBuf>,

    /// Draw in the terminal as well, even if the output is none
    #[arg(long, help_heading = "What is shown", overrides_with = "no_text_plot")]
    pub text_plot: bool,

    /// Do not draw in the terminal
    #[arg(long, help_heading = "What is shown")]
    pub no_text_plot: bool,

    /// Write every decision to a CSV file
    #[arg(long, value_name = "FILE.csv", help_heading = "What is shown")]
    pub decisions: Option<PathBuf>,

    /// Print the summary as JSON
    #[arg(long, help_heading = "What is shown")]
    pub json: bool,

    /// No progress bar, however long the trace
    #[arg(long, help_heading = "What is shown")]
    pub no_progress: bool,
}

/// A policy file, and which of its policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyName {
    pub file: PathBuf,
    pub name: Option<String>,
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (file, name) = match text.rsplit_once('#') {
            Some((file, name)) => (file, Some(name.to_owned())),
            None => (text, None),
        };
        if file.is_empty() || name.as_deref() == Some("") {
            return Err("write FILE, or FILE#NAME for one of several policies".to_owned());
        }
        Ok(Self {
            file: PathBuf::from(file),
            name,
        })
    }
}

/// What a request takes of rates and budgets when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// What it will have used.
    Total,
    /// What is known at its arrival, and so much more.
    Context(u64),
    /// Always the same.
    Always(u64),
}

impl FromStr for Reserve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || "write total, context+N, or N, with a whole number N".to_owned();
        let number = |digits: &str| digits.replace('_', "").parse().map_err(|_| help());
        match text.split_once('+') {
            None if text == "total" => Ok(Self::Total),
            None if text == "context" => Ok(Self::Context(0)),
            None => match number(text)? {
                0 => Err("reserve at least 1: what reserves nothing is never refused".to_owned()),
                amount => Ok(Self::Always(amount)),
            },
            Some(("context", more)) => number(more).map(Self::Context),
            Some(_) => Err(help()),
        }
    }
}

/// How long a request is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Until the first token, in microseconds.
    pub first_us: u64,
    /// For each generated token, in microseconds.
    pub per_token_us: u64,
}

impl FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('=') {
            return Ok(Self {
                first_us: micros(text)?,
                per_token_us: 0,
            });
        }
        let mut service = Self::default();
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("ttft", length)) => service.first_us = micros(length)?,
                Some(("per_token", length)) => service.per_token_us = micros(length)?,
                _ => {
                    return Err(format!(
                        "`{part}` is unknown; write ttft=200ms,per_token=20ms"
                    ));
                }
            }
        }
        Ok(service)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// A length of time that may be zero.
fn micros(text: &str) -> Result<u64, String> {
    if matches!(text.trim(), "0" | "0s" | "0ms" | "0us") {
        return Ok(0);
    }
    u64::try_from(duration(text)?.as_micros()).map_err(|_| "that is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{Cli, PolicyName, Reserve, Service};

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_estimate_is_total_context_and_more_or_a_number() {
        for (text, reserve) in [
            ("total", Reserve::Total),
            ("context+200", Reserve::Context(200)),
            ("context", Reserve::Context(0)),
            ("4_000", Reserve::Always(4000)),
        ] {
            assert_eq!(text.parse(), Ok(reserve));
        }
        for text in ["", "0", "context+", "context-1", "all", "total+1"] {
            assert!(text.parse::<Reserve>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_service_time_is_one_length_or_two() {
        let both = Service {
            first_us: 200_000,
            per_token_us: 20_000,
        };
        assert_eq!("ttft=200ms,per_token=20ms".parse(), Ok(both));
        assert_eq!(
            "1.5s".parse(),
            Ok(Service {
                first_us: 1_500_000,
                per_token_us: 0
            })
        );
        assert_eq!("0s".parse(), Ok(Service::default()));
        assert!("ttft=1,per=2".parse::<Service>().is_err());
    }

    #[test]
    fn a_policy_is_a_file_and_perhaps_a_name() {
        let policy: PolicyName = "a/b.toml#chat".parse().unwrap();
        assert_eq!(
            (policy.file.to_str(), policy.name.as_deref()),
            (Some("a/b.toml"), Some("chat"))
        );
        assert!("#chat".parse::<PolicyName>().is_err() && "a#".parse::<PolicyName>().is_err());
    }
}
