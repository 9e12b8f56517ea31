//! What `tidegate run` is told.

use std::borrow::Cow;
use std::ffi::OsString;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use tidegate_client::Quantity;

use crate::client::arguments::{Amount, Subject, duration};
use crate::client::exit::{Outcome, Stop};
use crate::client::options::Options;
use crate::client::typed_limits::{Typed, at_store};

const EXIT_CODES: &str = "\
Exit codes:
  the command's own, or 128 + N if signal N ended it; if it did not run:
  2    the command line is invalid
  121  refused: not now; with --store also where the store is full or busy
  123  never: more than the limit could grant
  124  not allowed: no token, a wrong one, or one that is not for this
  125  failed: the server cannot be reached, is busy or full, or its store did not answer
       (also where the policy admits then, without a lease); there is no such policy; or
       the lease was lost (--on-lost kill)
  126  the command cannot be executed
  127  there is no such command

The command finds TIDEGATE_LEASE, TIDEGATE_FENCE, TIDEGATE_KEY (not with --key-base64
or --entity) and (without --store) TIDEGATE_POLICY and TIDEGATE_SERVER in its environment.
The fence grows with every grant: hand it to what the command writes to, so that
it can refuse a late writer. It does not find TIDEGATE_TOKEN, TIDEGATE_STORE,
TIDEGATE_STORE_TOKEN, TIDEGATE_CERT or TIDEGATE_CLIENT_KEY: a command that calls the
server itself needs a token of its own.

Examples:
  One at a time, however many machines start it, where the policy has
  `slot = { concurrency = 1 }`:
    tidegate run --policy nightly --key backup -- ./backup.sh

  Wait up to a minute for a slot; reserve tokens as well:
    tidegate run -p llm -k team-a tpm=4000 --wait 1m -- python eval.py

  Two at a time on any number of machines, with a Redis and no server:
    tidegate run --store redis://10.0.0.5 --limit gpu=2 --wait 1h -- python train.py";

/// The key at a store, if none is said.
const EVERYONE: &str = "all";

/// Run a command while a lease is held
///
/// Takes a lease, runs the command, renews the lease while it runs, passes
/// signals on, and gives back at its end what the lease holds. If this process
/// is killed (-9), the lease expires by itself, and the command goes on without it.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Run {
    /// The policy; with --store, a name under which commands share these limits (default:
    /// `run:` and the names of the limits). A shared store keeps each name for good: use few
    #[arg(
        long,
        short,
        value_name = "NAME",
        env = "TIDEGATE_POLICY",
        required_unless_present_any = ["store", "limits"]
    )]
    pub policy: Option<String>,

    /// Who or what is limited; default with --store: `all`
    #[arg(long, short, value_name = "KEY", env = "TIDEGATE_KEY")]
    pub key: Option<String>,

    /// The key in Base64, for one that is no text; takes precedence over --key
    #[arg(long, value_name = "BASE64")]
    pub key_base64: Option<String>,

    /// The entity that is limited, by its id: `tidegate entity` keeps them; takes precedence
    /// over --key
    #[arg(long, value_name = "ID", conflicts_with_all = ["key_base64", "store"])]
    pub entity: Option<String>,

    /// Use this store itself, without a server (shm:NAME on one machine, redis://HOST,
    /// postgres://HOST/DATABASE, ..., as for `serve`). It is not read from TIDEGATE_STORE; whoever can list the processes of this
    /// machine sees a password in it
    #[arg(long, value_name = "URL", requires = "limits")]
    pub store: Option<String>,

    /// With --store: a limit, such as gpu=2 (slots) or rpm=calls:100/1m; may be
    /// given several times, and must be the same in all commands that share it:
    /// each decides by its own number
    #[arg(long = "limit", value_name = "NAME=LIMIT", requires = "store", value_parser = at_store)]
    pub limits: Vec<Typed>,

    /// How much of which limit, before the `--` of the command
    #[arg(value_name = "LIMIT=AMOUNT", value_parser = bare)]
    bare: Vec<Amount>,

    /// The same, as an option; may be given several times
    #[arg(long = "amount", short, value_name = "LIMIT=AMOUNT")]
    amounts: Vec<Amount>,

    /// How much of every rate and budget that is not named
    #[arg(long, value_name = "AMOUNT")]
    pub cost: Option<Quantity>,

    /// Wait in line, at most this long; without it, be refused at once. With --store, an outage
    /// that begins after the store was reached is waited out too. A server refuses a wait longer
    /// than its `longest_wait` (default: 300s); --store waits however long
    #[arg(long, short, value_name = "DURATION", value_parser = duration)]
    pub wait: Option<Duration>,

    /// Wait also where the rates cannot admit it in time: other leases may give back
    /// enough when they are settled
    #[arg(long, requires = "wait")]
    pub wait_for_refunds: bool,

    /// How urgent: each step counts as having come a second earlier
    #[arg(long, value_name = "0-255", default_value_t = 0)]
    pub priority: u8,

    /// How long the lease lasts after this process is killed; it is renewed each time
    /// a third of it has passed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = ttl)]
    pub ttl: Duration,

    /// What to do if the lease is lost: the server did not answer for too long, or
    /// an administrator ended it
    #[arg(long, value_name = "WHAT", default_value = "warn")]
    pub on_lost: OnLost,

    /// How long the command has to end by itself, before it is killed
    /// (--on-lost kill)
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub grace: Duration,

    #[command(flatten)]
    pub options: Options,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<OsString>,
}

impl Run {
    /// How much of which limit, however it was said.
    pub fn amounts(&self) -> impl Iterator<Item = &Amount> {
        self.bare.iter().chain(&self.amounts)
    }

    /// What a refused caller may do.
    pub fn advice(&self) -> &'static str {
        match (self.wait, self.wait_for_refunds) {
            (None, _) => "--wait DURATION waits for it",
            (Some(_), false) => {
                "wait longer with --wait; with --wait-for-refunds also for units of rates that others give back"
            }
            (Some(_), true) => "wait longer with --wait",
        }
    }

    /// The policy, or with a store the name that its limits are shared by. Unless it is
    /// said, it is the limits' own: a script with other limits under one name would
    /// replace these, and what they hold would be forgotten.
    pub fn name(&self) -> Cow<'_, str> {
        if let Some(policy) = &self.policy {
            return policy.into();
        }
        let mut names: Vec<_> = self.limits.iter().map(|limit| &*limit.name).collect();
        names.sort_unstable();
        format!("run:{}", names.join(",")).into()
    }

    /// Whose limits of a server are meant.
    pub fn subject(&self) -> Subject {
        Subject {
            policy: self.name().into_owned(),
            key: self.key.clone(),
            key_base64: self.key_base64.clone(),
            entity: self.entity.clone(),
        }
    }

    /// The key as text, unless it was said in Base64, or is that of an entity.
    pub fn shown_key(&self) -> Option<&str> {
        if self.key_base64.is_some() || self.entity.is_some() {
            return None;
        }
        let everyone = self.store.as_ref().map(|_| EVERYONE);
        self.key.as_deref().or(everyone)
    }

    /// The key at a store.
    pub fn key(&self) -> Outcome<Vec<u8>> {
        match (&self.key_base64, &self.key) {
            (Some(text), _) => {
                let key = STANDARD.decode(text);
                key.map_err(|error| Stop::usage(format!("--key-base64 is not Base64: {error}")))
            }
            (None, key) => Ok(key.as_deref().unwrap_or(EVERYONE).into()),
        }
    }
}

/// What to do if the lease is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OnLost {
    /// Say so, and let the command go on: what it has done is not thrown away.
    Warn,
    /// End the command (TERM, and after the grace KILL): nobody may work
    /// beside another who has the lease now.
    Kill,
}

/// An amount, and no command whose `--` was forgotten.
fn bare(text: &str) -> Result<Amount, String> {
    text.parse().map_err(|why| match text.contains('=') {
        true => why,
        false => "write the command behind `--`: tidegate run ... -- COMMAND".to_owned(),
    })
}

/// Long enough that a renewal can fail and be tried again.
fn ttl(text: &str) -> Result<Duration, String> {
    let shortest = Duration::from_millis(100);
    let length = duration(text)?;
    match length >= shortest {
        true => Ok(length),
        false => Err("a lease that is renewed over a network lasts at least 100ms".to_owned()),
    }
}
