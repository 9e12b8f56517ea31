//! From the gate's words to the protocol's, and back.

use std::collections::HashMap;

use tidegate::gate::{Answer, GateError, Kind, Ticket};
use tidegate::{Ask, Decision, Key, LeaseId, Settlement, Verdict};
use tonic::{Code, Status};

use crate::proto;

/// The named amounts of a request, in a form that an ask can borrow.
pub fn named(amounts: &HashMap<String, u64>) -> Vec<(&str, u64)> {
    let named = amounts.iter();
    named
        .map(|(name, &amount)| (name.as_str(), amount))
        .collect()
}

/// The ask of a request, whose named amounts are `named`.
pub fn ask<'a>(request: &proto::CheckRequest, named: &'a [(&'a str, u64)]) -> Ask<'a> {
    let ask = Ask::named(named);
    match request.cost {
        Some(cost) => ask.cost(cost),
        None => ask,
    }
}

pub fn key(bytes: &[u8]) -> Key<'_> {
    Key::from(bytes)
}

pub fn lease_id(text: &str) -> Result<LeaseId, Status> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = text.parse().ok().filter(|_| digits);
    id.ok_or_else(|| Status::invalid_argument("a lease's id has 32 hexadecimal digits"))
}

/// An error as a status.
pub fn status(error: &GateError) -> Status {
    let code = match error.kind() {
        Kind::Unauthenticated => Code::Unauthenticated,
        Kind::Forbidden => Code::PermissionDenied,
        Kind::NotFound => Code::NotFound,
        Kind::Invalid => Code::InvalidArgument,
        Kind::Never => Code::OutOfRange,
        Kind::Ended => Code::FailedPrecondition,
        Kind::Busy => Code::ResourceExhausted,
        Kind::Unavailable => Code::Unavailable,
    };
    Status::new(code, error.to_string())
}

pub fn answer(answer: &Answer) -> proto::CheckResponse {
    match answer {
        Answer::Decided(decided) => decision(decided),
        Answer::Degraded(_) => degraded(),
    }
}

pub fn degraded() -> proto::CheckResponse {
    proto::CheckResponse {
        admitted: true,
        degraded: true,
        ..Default::default()
    }
}

pub fn decision(decision: &Decision) -> proto::CheckResponse {
    let standings = decision.standings();
    proto::CheckResponse {
        admitted: decision.admitted(),
        not_until_us: decision.not_until().map(|at| at.as_micros()),
        binding: decision.binding().unwrap_or_default().to_owned(),
        limits: standings
            .map(|(name, s)| (name.to_owned(), standing(&s)))
            .collect(),
        shadowed: decision.shadowed(),
        degraded: false,
        problem: None,
    }
}

pub fn problem(error: &GateError) -> proto::CheckResponse {
    proto::CheckResponse {
        problem: Some(proto::Problem {
            code: error.kind().code().to_owned(),
            message: error.to_string(),
        }),
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
    }
}

pub fn settlement(settlement: &Settlement) -> proto::SettleResponse {
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
    }
}

pub fn forecast(forecast: &tidegate::Forecast) -> proto::Forecast {
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
