//! Units that are taken in advance, and given back.

use std::time::Duration;

use clap::Args;
use tidegate_client::{Quantity, Report, Verb};

use super::arguments::{Amount, Amounts, Subject, distinct, duration};
use super::exit::{ADMITS, Exit, OF_A_LEASE, Outcome};
use super::options::Options;
use super::verbs::{Telling, Which, send};

/// Grant.
#[derive(Debug, Args)]
#[command(
    after_help = ADMITS,
    mut_arg("amounts", |amounts| amounts.help(WISHED)),
    mut_arg("cost", |cost| cost.help(WISHED_COST)),
)]
pub struct Grant {
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    amounts: Amounts,

    /// Less than so much of a limit makes no sense: then nothing is granted; default: 1
    #[arg(long, value_name = "LIMIT=AMOUNT")]
    least: Vec<Amount>,

    /// For how long it is held at most, 10ms to 60s; default: as the policy's tier holds one, or
    /// a second
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    hold: Option<Duration>,

    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

const WISHED: &str = "How much of which limit is wished; calls that are not named are taken at 1, \
                      a rate or budget that is not named as --cost says, or at 0";
const WISHED_COST: &str = "How much is wished of every rate and budget that is not named";

/// Return.
#[derive(Debug, Args)]
#[command(after_help = OF_A_LEASE)]
pub struct Return {
    #[command(flatten)]
    which: Which,

    /// What was used; nothing of a limit that is not named, or of a rate or budget as much as
    /// --cost says
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

impl Grant {
    /// Asks, and tells the answer.
    pub fn perform(&self) -> Outcome<Exit> {
        let mut request = self.amounts.put(self.subject.request()?)?;
        for Amount { limit, amount } in distinct(&self.least)? {
            request = request.least(limit, amount.clone());
        }
        if let Some(hold) = self.hold {
            request = request.hold(hold);
        }
        let grant = Verb::Grant.of(&request);
        send(&self.options, &self.telling, Verb::Grant, grant)
    }
}

impl Return {
    /// Asks, and tells the answer.
    pub fn perform(&self) -> Outcome<Exit> {
        let mut report = Report::new();
        if let Some(cost) = &self.cost {
            report = report.cost(cost.clone());
        }
        for Amount { limit, amount } in distinct(&self.used)? {
            report = report.used(limit, amount.clone());
        }
        let back = Verb::Return.of_lease(&self.which.lease()?, &report);
        send(&self.options, &self.telling, Verb::Return, back)
    }
}
