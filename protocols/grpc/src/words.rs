//! From the service's words to the protocol's, and back.

use std::collections::HashMap;
use std::time::Duration;

use tidegate::{Ask, Key, LeaseId, Limit, Metadata, Outcome, Unit, Verdict};
use tidegate_service::{
    Finished, Number, Outlook, Report, Served, ServiceError, Ticket, Told, bounds,
};
use tonic::Status;

use crate::error::status;
use crate::proto;

/// The named amounts of a request, in a form that an ask can borrow.
pub fn named(amounts: &HashMap<String, u64>) -> Vec<(&str, u64)> {
    let named = amounts.iter();
    named
        .map(|(name, &amount)| (name.as_str(), amount))
        .collect()
}

/// The ask of a request, whose named amounts are `named`.
pub fn ask<'a>(
    served: &Served,
    request: &proto::CheckRequest,
    named: &'a [(&'a str, u64)],
) -> Result<Ask<'a>, ServiceError> {
    let ask = Ask::named(named);
    Ok(match request.cost {
        Some(cost) => ask.cost(served.cost(Number::Units(cost), named)?),
        None => ask,
    })
}

pub fn key(bytes: &[u8]) -> Key<'_> {
    Key::from(bytes)
}

pub fn lease_id(text: &str) -> Result<LeaseId, Status> {
    bounds::lease(text.as_bytes()).map_err(|error| status(&error))
}

pub fn told(told: &Told<'_>) -> proto::CheckResponse {
    proto::CheckResponse {
        admitted: told.admitted(),
        not_until_us: told.not_until().map(|at| at.as_micros()),
        binding: told.binding().unwrap_or_default().to_owned(),
        limits: told
            .limits()
            .map(|stand| (stand.name.to_owned(), standing(&stand.standing)))
            .collect(),
        shadowed: told.shadowed(),
        degraded: told.degraded(),
        problem: None,
        level: told.level().unwrap_or_default().to_owned(),
        member: told.member().unwrap_or_default().to_owned(),
        overrides: HashMap::new(),
    }
}

/// The answer to one of several that makes no sense.
pub fn problem(problem: proto::Problem) -> proto::CheckResponse {
    proto::CheckResponse {
        problem: Some(problem),
        ..Default::default()
    }
}

pub fn standing(standing: &tidegate::Standing) -> proto::Standing {
    proto::Standing {
        limit: standing.limit,
        remaining: standing.remaining,
        debt: standing.debt,
        replenish_at_us: standing.replenish_at.map(|at| at.as_micros()),
        full_at_us: standing.full_at.map(|at| at.as_micros()),
    }
}

pub fn lease(ticket: &Ticket) -> proto::Lease {
    proto::Lease {
        id: ticket.id.to_string(),
        fence: ticket.fence,
        expires_at_us: ticket.expires_at.as_micros(),
        repeated: ticket.repeated,
        member: ticket.member().unwrap_or_default().to_owned(),
        metadata: words(ticket.metadata()),
        granted_at_us: ticket.granted_at.as_micros(),
    }
}

fn words(metadata: &Metadata) -> HashMap<String, String> {
    metadata.clone().into_iter().collect()
}

/// The member that a request names, if it does.
pub fn member(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}

/// A request that is about a pool as a whole.
pub fn no_member(request: &proto::CheckRequest) -> Result<(), Status> {
    match member(&request.member) {
        None => Ok(()),
        Some(_) => Err(Status::invalid_argument(
            "`member` belongs to Debit, Peek and Forecast; the pool chooses here",
        )),
    }
}

/// What is said of the work when a lease ends.
pub fn report(lease: &proto::LeaseRequest) -> Result<Report, Status> {
    let unknown = |_| Status::invalid_argument("there is no such outcome");
    let outcome = proto::Outcome::try_from(lease.outcome).map_err(unknown)?;
    Ok(Report {
        outcome: match outcome {
            proto::Outcome::Succeeded => Outcome::Succeeded,
            proto::Outcome::Ignored => Outcome::Ignored,
            proto::Outcome::Dropped => Outcome::Dropped,
        },
        cool_down: lease.cool_down_ms.map(Duration::from_millis),
    })
}

pub fn policy(served: &Served) -> proto::Policy {
    let policy = served.policy();
    let members = policy.members.iter().zip(served.members());
    let names = |limits: &[Limit]| limits.iter().map(|l| l.name().to_owned()).collect();
    proto::Policy {
        name: policy.name.clone(),
        limits: names(&policy.limits),
        levels: policy.levels.clone(),
        members: members
            .map(|(said, stands)| proto::Member {
                name: said.name.clone(),
                limits: names(&said.limits),
                metadata: words(&said.metadata),
                weight: said.weight,
                load: stands.load(),
                cooling_until_us: stands.cooling().map(|at| at.as_micros()),
            })
            .collect(),
        metadata: words(&policy.metadata),
        shadow: policy.shadow,
        units: policy
            .limit_lists()
            .flatten()
            .filter(|limit| limit.amounts() != Unit::ONE)
            .map(|limit| (limit.name().to_owned(), limit.amounts().to_string()))
            .collect(),
    }
}

pub fn finished(finished: &Finished) -> proto::SettleResponse {
    let settlement = &finished.settlement;
    let usage = |usage: tidegate::Usage| proto::Usage {
        taken: usage.taken,
        used: usage.used,
    };
    let usages = settlement.usages();
    proto::SettleResponse {
        expired: settlement.expired(),
        repeated: settlement.repeated(),
        limits: usages
            .map(|(name, used)| (name.to_owned(), usage(used)))
            .collect(),
        member: finished.member.clone().unwrap_or_default(),
        cooling_until_us: finished.cooling_until.map(|at| at.as_micros()),
    }
}

pub fn forecasts(member: Option<&str>, outlooks: &[Outlook]) -> proto::ForecastResponse {
    let limits = |outlook: &Outlook| {
        let limits = outlook.limits.iter();
        limits
            .map(|(name, one)| (name.clone(), forecast(one)))
            .collect()
    };
    match outlooks {
        // Of a pool as a whole, one may be all that could serve the ask.
        [one] if member.is_some() || one.member.is_none() => proto::ForecastResponse {
            limits: limits(one),
            members: HashMap::new(),
        },
        several => proto::ForecastResponse {
            limits: HashMap::new(),
            members: several
                .iter()
                .map(|outlook| {
                    let name = outlook.member.clone().unwrap_or_default();
                    let limits = limits(outlook);
                    (name, proto::MemberForecast { limits })
                })
                .collect(),
        },
    }
}

fn forecast(forecast: &tidegate::Forecast) -> proto::Forecast {
    let not_until = match forecast.verdict {
        Verdict::NotUntil(at) => Some(at.as_micros()),
        Verdict::Admit | Verdict::Never => None,
    };
    proto::Forecast {
        spendable: forecast.spendable,
        not_until_us: not_until,
        never: forecast.verdict == Verdict::Never,
        standing: Some(standing(&forecast.standing)),
    }
}
