//! One request for each verb, as HTTP has them.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::json;
use tidegate::LeaseId;
use tidegate_client::internal::millis;
use tidegate_client::{Adjustment, Exchange, LeaseRef, Quantity, Reply, Report, Verb};

use super::arguments::{Amount, Amounts, Subject, distinct, duration};
use super::exit::{ADJUSTS, ADMITS, DEBITS, DOES, OF_A_LEASE};
use super::exit::{Exit, Outcome, Stop};
use super::options::Options;
use super::print::print;
use super::server::{PATIENCE, exit, runtime, stop};
use super::words;

/// How the answer is told.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The answer")]
pub struct Telling {
    /// Print the server's answer as one JSON object
    #[arg(long)]
    pub json: bool,

    /// Print nothing (of acquire and grant: the lease's id alone); the exit code says the rest
    #[arg(long, short, conflicts_with = "json")]
    pub quiet: bool,
}

/// Check.
#[derive(Debug, Args)]
#[command(after_help = ADMITS)]
pub struct Request {
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    amounts: Amounts,
    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Peek and forecast.
#[derive(Debug, Args)]
#[command(
    mut_arg("amounts", |amounts| amounts.help(LOOKED_UP)),
    mut_arg("cost", |cost| cost.help(LOOKED_UP_COST)),
)]
pub struct Lookup {
    #[command(flatten)]
    request: Request,

    /// Of a pool: this member alone; default: all of them
    #[arg(long, value_name = "NAME", help_heading = None::<&str>)]
    member: Option<String>,
}

/// Debit.
#[derive(Debug, Args)]
#[command(
    after_help = DEBITS,
    mut_arg("amounts", |amounts| amounts.help(DEBITED)),
)]
pub struct Debit {
    #[command(flatten)]
    request: Request,

    /// Of a pool: the member where it was used; a pool needs it
    #[arg(long, value_name = "NAME", help_heading = None::<&str>)]
    member: Option<String>,
}

const LOOKED_UP: &str = "How much of which limit to look up; nothing is charged. Calls and \
                         concurrency that are not named count as 1, a rate or budget that is \
                         not named as 0 (and is then no part of a forecast)";
const LOOKED_UP_COST: &str = "The amount to look up of every rate and budget that is not named";

const DEBITED: &str = "How much of which limit was used; calls that are not named are not \
                       charged, and concurrency cannot be. A rate or budget that is not named \
                       is not charged once any limit is named: give --cost to charge every one";

/// Acquire.
#[derive(Debug, Args)]
#[command(after_help = ADMITS)]
pub struct Acquire {
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    amounts: Amounts,

    /// Wait in line for it, at most this long; without it, be refused at once
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,

    /// Wait also where the rates cannot admit it in time: other leases may give back
    /// enough when they are settled
    #[arg(long, requires = "wait")]
    wait_for_refunds: bool,

    /// How long it lasts unless renewed; default: the policy's
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<Duration>,

    /// How urgent: each step counts as having come a second earlier
    #[arg(long, value_name = "0-255", default_value_t = 0)]
    priority: u8,

    /// The same text on the same key again gives the same lease
    #[arg(long, value_name = "TEXT")]
    idempotency_key: Option<String>,

    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Which lease.
#[derive(Clone, Debug, Args)]
pub struct Which {
    #[command(flatten)]
    subject: Subject,

    /// The lease's id
    #[arg(
        long,
        short,
        value_name = "ID",
        env = "TIDEGATE_LEASE",
        hide_env_values = true,
        value_parser = lease_id
    )]
    lease: String,
}

/// Not empty, as a variable is that nobody has set.
fn lease_id(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err(
            "it is empty; a lease's id is what `tidegate acquire` printed, which prints none \
                     where a policy admits without its store (failure_mode = \"admit\"): then there \
                     is nothing to end"
                .to_owned(),
        ),
        false => Ok(text.to_owned()),
    }
}

/// How the work went.
#[derive(Clone, Debug, Args)]
pub struct Work {
    /// How the work went; after `dropped` (the provider has refused) a pool passes over the
    /// member that gave the lease, for as long as its `cool_down` says
    #[arg(long, value_name = "WORD", default_value = "succeeded")]
    #[arg(value_parser = ["succeeded", "ignored", "dropped"])]
    outcome: String,

    /// The provider has refused: let the pool pass over the member that gave the lease for
    /// this long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    cool_down: Option<Duration>,
}

impl Work {
    fn report(&self) -> Report {
        let report = Report::new().outcome(match self.outcome.as_str() {
            "ignored" => tidegate::Outcome::Ignored,
            "dropped" => tidegate::Outcome::Dropped,
            _ => tidegate::Outcome::Succeeded,
        });
        match self.cool_down {
            Some(length) => report.cool_down(length),
            None => report,
        }
    }
}

/// Settle.
#[derive(Debug, Args)]
#[command(after_help = OF_A_LEASE)]
pub struct Settle {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    work: Work,

    /// What was used; a limit that is not named was used as taken, a rate or budget
    /// as --cost says if it is given
    #[arg(value_name = "LIMIT=USED")]
    used: Vec<Amount>,

    /// How much was used of every rate and budget that is not named
    #[arg(long, value_name = "AMOUNT")]
    cost: Option<Quantity>,

    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Release and cancel.
#[derive(Debug, Args)]
#[command(after_help = OF_A_LEASE)]
pub struct End {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Renew.
#[derive(Debug, Args)]
#[command(after_help = OF_A_LEASE)]
pub struct Renew {
    #[command(flatten)]
    which: Which,

    /// How long it lasts from now on; default: the policy's
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ttl: Option<Duration>,

    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Adjust.
#[derive(Debug, Args)]
#[command(after_help = ADJUSTS)]
#[command(group = ArgGroup::new("how much").args(["to", "cost"]).required(true).multiple(true))]
pub struct Adjust {
    #[command(flatten)]
    which: Which,

    /// How much it is to have taken in all; a limit that is not named stays as it is,
    /// a rate or budget becomes what --cost says if it is given
    #[arg(value_name = "LIMIT=AMOUNT")]
    to: Vec<Amount>,

    /// How much it is to have taken, in all, of every rate and budget that is not named
    #[arg(long, value_name = "AMOUNT")]
    cost: Option<Quantity>,

    /// It was used already: charge more even where it does not fit
    #[arg(long)]
    overdraw: bool,

    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Reset.
#[derive(Debug, Args)]
#[command(after_help = DOES)]
pub struct Reset {
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

impl Request {
    /// Asks, and tells the answer.
    pub fn perform(&self, verb: Verb) -> Outcome<Exit> {
        self.perform_at(verb, None)
    }

    /// The same, at this member of a pool.
    fn perform_at(&self, verb: Verb, member: Option<&str>) -> Outcome<Exit> {
        let mut request = self.amounts.put(self.subject.request()?)?;
        if let Some(member) = member {
            request = request.member(member);
        }
        send(&self.options, &self.telling, verb, verb.of(&request))
    }
}

impl Lookup {
    /// Asks, and tells the answer.
    pub fn perform(&self, verb: Verb) -> Outcome<Exit> {
        self.request.perform_at(verb, self.member.as_deref())
    }
}

impl Debit {
    /// Asks, and tells the answer.
    pub fn perform(&self) -> Outcome<Exit> {
        self.request.perform_at(Verb::Debit, self.member.as_deref())
    }
}

impl Acquire {
    /// Asks, and tells the answer.
    pub fn perform(&self) -> Outcome<Exit> {
        let wait = self.wait.unwrap_or_default();
        let request = self.amounts.put(self.subject.request()?)?;
        let mut request = request.within(wait).priority(self.priority);
        if self.wait_for_refunds {
            request = request.wait_for_refunds();
        }
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        if let Some(key) = &self.idempotency_key {
            request = request.idempotency_key(key);
        }
        let acquire = Verb::Acquire.of(&request);
        let acquire = acquire.within(wait.saturating_add(PATIENCE));
        let exit = send(&self.options, &self.telling, Verb::Acquire, acquire)?;
        let is_told = !self.telling.json && !self.telling.quiet;
        match self.wait.filter(|wait| !wait.is_zero()) {
            _ if exit != Exit::Refused || !is_told => {}
            None => eprintln!("--wait 30s waits in line for it"),
            Some(_) => eprintln!("not within --wait: a longer one waits in line for it"),
        }
        Ok(exit)
    }
}

impl Which {
    /// The lease.
    pub fn lease(&self) -> Outcome<LeaseRef> {
        if self.lease.parse::<LeaseId>().is_err() {
            let message = "--lease: an id is the 32 hexadecimal digits that `tidegate acquire` \
                           (or `tidegate grant`) printed (`tidegate leases` lists handles, which `--revoke` takes)";
            return Err(Stop::usage(message));
        }
        let key = self.subject.key()?;
        Ok(LeaseRef::new(&self.subject.policy, key, &self.lease))
    }
}

impl Settle {
    /// Asks, and tells the answer.
    pub fn perform(&self) -> Outcome<Exit> {
        let mut report = self.work.report();
        if let Some(cost) = &self.cost {
            report = report.cost(cost.clone());
        }
        for Amount { limit, amount } in distinct(&self.used)? {
            report = report.used(limit, amount.clone());
        }
        let settle = Verb::Settle.of_lease(&self.which.lease()?, &report);
        send(&self.options, &self.telling, Verb::Settle, settle)
    }
}

impl End {
    /// Asks, and tells the answer.
    pub fn perform(&self, verb: Verb) -> Outcome<Exit> {
        let end = verb.of_lease(&self.which.lease()?, &self.work.report());
        send(&self.options, &self.telling, verb, end)
    }
}

impl Renew {
    /// Asks, and tells the answer.
    pub fn perform(&self) -> Outcome<Exit> {
        let length = match self.ttl {
            Some(ttl) => json!({"ttl_ms": millis(ttl)}),
            None => json!({}),
        };
        let renew = Verb::Renew.of_lease(&self.which.lease()?, &length);
        send(&self.options, &self.telling, Verb::Renew, renew)
    }
}

impl Adjust {
    /// Asks, and tells the answer.
    pub fn perform(&self) -> Outcome<Exit> {
        let mut to = Adjustment::new();
        if let Some(cost) = &self.cost {
            to = to.cost(cost.clone());
        }
        for Amount { limit, amount } in distinct(&self.to)? {
            to = to.amount(limit, amount.clone());
        }
        if self.overdraw {
            to = to.overdraw();
        }
        let adjust = Verb::Adjust.of_lease(&self.which.lease()?, &to);
        send(&self.options, &self.telling, Verb::Adjust, adjust)
    }
}

impl Reset {
    /// Asks, and tells the answer.
    pub fn perform(&self) -> Outcome<Exit> {
        let reset = Verb::Reset.of(&self.subject.request()?);
        send(&self.options, &self.telling, Verb::Reset, reset)
    }
}

/// Asks, and tells the answer.
pub fn send(options: &Options, telling: &Telling, verb: Verb, asked: Exchange) -> Outcome<Exit> {
    let client = options.connect()?;
    let reply = runtime()?.block_on(client.ask(asked))?;
    tell(verb, &reply, telling)
}

/// Prints the answer, and says how the command ends.
fn tell(verb: Verb, reply: &Reply, telling: &Telling) -> Outcome<Exit> {
    let exit = match (verb, exit(reply)) {
        // It changes nothing, so its answer is never a refusal; it says one.
        (Verb::Peek, Exit::Done) if reply.body["admitted"] == false => Exit::Refused,
        (_, exit) => exit,
    };
    let answered = matches!(exit, Exit::Done | Exit::Refused);
    if telling.json {
        print(&words::json(&reply.body))?;
    } else if telling.quiet {
        let id = |what: &str| reply.body[what]["id"].as_str();
        if let Some(id) = id("lease").or_else(|| id("grant")) {
            print(id)?;
        }
    } else if answered {
        print(&words::answer(verb, &reply.body))?;
    }
    match answered {
        true => Ok(exit),
        false => Err(stop(reply)),
    }
}
