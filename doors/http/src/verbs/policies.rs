//! What the policies say.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use tidegate::gate::Scope;
use tidegate::policy::{FailureMode, Kind, Policy, Written};
use tidegate::{Algorithm, Limit, Period};

use crate::answer;
use crate::problem::Problem;
use crate::visit::Visit;

pub(crate) async fn all(visit: Visit) -> Response {
    let served = visit.door().gate().policies(visit.caller());
    let policies = served.iter().map(|served| Shown::from(served.policy()));
    let policies = policies.collect();
    answer::json(StatusCode::OK, &All { policies })
}

pub(crate) async fn one(
    visit: Visit,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    let served = visit.policy(Scope::Observe, &name)?;
    Ok(answer::json(StatusCode::OK, &Shown::from(served.policy())))
}

#[derive(Serialize)]
struct All<'a> {
    policies: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    levels: &'a [String],
    failure_mode: &'static str,
    max_keys: Option<usize>,
    max_waiting: Option<usize>,
    limits: Vec<ShownLimit<'a>>,
}

#[derive(Serialize)]
struct ShownLimit<'a> {
    name: &'a str,
    kind: &'static str,
    capacity: u64,
    at_most: u64,
    per: Option<Per<'a>>,
    algorithm: Option<&'static str>,
    level: Option<&'a str>,
    shadow: bool,
}

/// How often a limit starts afresh.
#[derive(Serialize)]
#[serde(untagged)]
enum Per<'a> {
    Length {
        ms: u128,
    },
    Calendar {
        calendar: &'static str,
        zone: &'a str,
    },
}

impl<'a> From<&'a Policy> for Shown<'a> {
    fn from(policy: &'a Policy) -> Self {
        let limits = policy.limits.iter().zip(&policy.written);
        Self {
            name: &policy.name,
            levels: &policy.levels,
            failure_mode: match policy.failure_mode {
                FailureMode::Deny => "deny",
                FailureMode::Admit => "admit",
            },
            max_keys: policy.max_keys,
            max_waiting: policy.max_waiting,
            limits: limits.map(ShownLimit::from).collect(),
        }
    }
}

impl<'a> From<(&'a Limit, &'a Written)> for ShownLimit<'a> {
    fn from((limit, written): (&'a Limit, &'a Written)) -> Self {
        Self {
            name: limit.name(),
            kind: kind(written.kind),
            capacity: limit.capacity(),
            at_most: limit.at_most(),
            per: limit.period().map(Per::from),
            algorithm: written.algorithm.map(algorithm),
            level: written.level.as_deref(),
            shadow: written.shadow,
        }
    }
}

impl<'a> From<&'a Period> for Per<'a> {
    fn from(period: &'a Period) -> Self {
        let (calendar, zone) = match period {
            Period::Every(length) => {
                let ms = length.as_millis();
                return Self::Length { ms };
            }
            Period::Day { zone } => ("day", zone),
            Period::Week { zone } => ("week", zone),
            Period::Month { zone } => ("month", zone),
        };
        Self::Calendar { calendar, zone }
    }
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Calls => "calls",
        Kind::Rate => "rate",
        Kind::Budget => "budget",
        Kind::Concurrency => "concurrency",
    }
}

const fn algorithm(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket => "token_bucket",
        Algorithm::Gcra => "gcra",
        Algorithm::LeakyBucket => "leaky_bucket",
        Algorithm::FixedWindow => "fixed_window",
        Algorithm::FirstUseWindow => "first_use_window",
        Algorithm::SlidingWindow => "sliding_window",
        Algorithm::SlidingLog => "sliding_log",
        _ => "other",
    }
}
