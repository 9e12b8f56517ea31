//! What the policies say, and what other policies in their place change.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use tidegate::{Algorithm, Balance, Limit, Member, Metadata, Period, Unit};
use tidegate_policy::{FailureMode, Kind, LimitSyntax, PolicyMember, Shape};
use tidegate_service::{Change, Served};

use super::instant::Instant;
use crate::parse::amount::InUnit;

#[derive(Serialize)]
pub(crate) struct Applied<'a> {
    changes: Vec<ShownChange<'a>>,
}

impl<'a> From<&'a [Change]> for Applied<'a> {
    fn from(changes: &'a [Change]) -> Self {
        Self {
            changes: changes.iter().map(ShownChange::from).collect(),
        }
    }
}

#[derive(Serialize)]
struct ShownChange<'a> {
    policy: &'a str,
    member: Option<&'a str>,
    limit: Option<&'a str>,
    setting: Option<&'a str>,
    change: &'static str,
    was: Option<&'a str>,
    becomes: Option<&'a str>,
    effect: &'static str,
}

impl<'a> From<&'a Change> for ShownChange<'a> {
    fn from(change: &'a Change) -> Self {
        Self {
            policy: &change.policy,
            member: change.member.as_deref(),
            limit: change.limit.as_deref(),
            setting: change.setting.as_deref(),
            change: change.sort.name(),
            was: change.was.as_deref(),
            becomes: change.becomes.as_deref(),
            effect: change.effect,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct Policies<'a> {
    policies: Vec<Shown<'a>>,
}

impl<'a> From<&'a [Arc<Served>]> for Policies<'a> {
    fn from(policies: &'a [Arc<Served>]) -> Self {
        let policies = policies.iter().map(|served| Shown::from(&**served));
        Self {
            policies: policies.collect(),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct Shown<'a> {
    name: &'a str,
    levels: &'a [String],
    failure_mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<u8>,
    max_keys: Option<usize>,
    max_waiting: Option<usize>,
    ttl_ms: Option<u128>,
    shadow: bool,
    metadata: &'a Metadata,
    limits: Vec<ShownLimit<'a>>,
    /// Of a pool alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    balancer: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<ShownMember<'a>>,
    /// As its file says it.
    written: ShapeBody<'a>,
}

#[derive(Serialize)]
struct ShownMember<'a> {
    name: &'a str,
    weight: u32,
    cool_down_ms: Option<u128>,
    metadata: &'a Metadata,
    load: u64,
    cooling_until: Option<Instant>,
    limits: Vec<ShownLimit<'a>>,
}

/// A value of a policy's file, as JSON.
struct ShapeBody<'a>(&'a Shape);

impl Serialize for ShapeBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Shape::Text(text) => serializer.serialize_str(text),
            Shape::Integer(number) => serializer.serialize_i128(*number),
            Shape::Flag(flag) => serializer.serialize_bool(*flag),
            Shape::List(items) => serializer.collect_seq(items.iter().map(ShapeBody)),
            Shape::Table(entries) => {
                let named = entries.iter();
                serializer.collect_map(named.map(|(name, value)| (name, ShapeBody(value))))
            }
            _ => serializer.serialize_unit(),
        }
    }
}

#[derive(Serialize)]
struct ShownLimit<'a> {
    name: &'a str,
    kind: &'static str,
    capacity: InUnit,
    at_most: InUnit,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
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

impl<'a> From<&'a Served> for Shown<'a> {
    fn from(served: &'a Served) -> Self {
        let policy = served.policy();
        let members = policy.members.iter().zip(served.members());
        Self {
            name: &policy.name,
            levels: &policy.levels,
            failure_mode: policy.failure_mode.name(),
            share: match policy.failure_mode {
                FailureMode::Share(percent) => Some(percent),
                _ => None,
            },
            max_keys: policy.max_keys,
            max_waiting: policy.max_waiting,
            ttl_ms: policy.ttl.map(|ttl| ttl.as_millis()),
            shadow: policy.shadow,
            metadata: &policy.metadata,
            limits: limits(&policy.limits, &policy.written),
            balancer: policy.is_pool().then(|| balancer(policy.balance)),
            members: members.map(ShownMember::from).collect(),
            written: ShapeBody(&policy.shape),
        }
    }
}

impl<'a> From<(&'a PolicyMember, &'a Member)> for ShownMember<'a> {
    fn from((said, stands): (&'a PolicyMember, &'a Member)) -> Self {
        Self {
            name: &said.name,
            weight: said.weight,
            cool_down_ms: said.cool_down.map(|length| length.as_millis()),
            metadata: &said.metadata,
            load: stands.load(),
            cooling_until: stands.cooling().map(Instant),
            limits: limits(&said.limits, &said.written),
        }
    }
}

fn limits<'a>(limits: &'a [Limit], written: &'a [LimitSyntax]) -> Vec<ShownLimit<'a>> {
    limits.iter().zip(written).map(ShownLimit::from).collect()
}

impl<'a> From<(&'a Limit, &'a LimitSyntax)> for ShownLimit<'a> {
    fn from((limit, written): (&'a Limit, &'a LimitSyntax)) -> Self {
        Self {
            name: limit.name(),
            kind: kind(written.kind),
            capacity: InUnit(limit.amounts(), limit.capacity()),
            at_most: InUnit(limit.amounts(), limit.at_most()),
            unit: (limit.amounts() != Unit::ONE).then(|| limit.amounts().to_string()),
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

const fn balancer(balance: Balance) -> &'static str {
    match balance {
        Balance::RoundRobin => "round_robin",
        Balance::Random => "random",
        Balance::LeastLoaded => "least_loaded",
        Balance::FirstAvailable => "first_available",
        Balance::Weighted => "weighted",
        _ => "other",
    }
}
