//! What the policies say, and what other policies in their place change.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::json;
use tidegate::{Algorithm, Balance, Limit, Member, Metadata, Period, Unit};
use tidegate_policy::{FailureMode, Kind, LimitSyntax, PolicyMember, Shape};
use tidegate_service::{ActivePolicy, Change, Sort};

use super::instant::Instant;
use crate::parse::amount::InUnit;

/// What was changed.
#[derive(Serialize, JsonSchema)]
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

/// One thing that was changed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Change")]
struct ShownChange<'a> {
    /// The policy.
    policy: &'a str,
    /// The member of a pool, if it is about one.
    member: Option<&'a str>,
    /// The limit, if it is about one.
    limit: Option<&'a str>,
    /// Which setting; null if it is about the whole.
    setting: Option<&'a str>,
    /// What happened to it.
    #[schemars(extend("enum" = Sort::ALL.map(Sort::name)))]
    change: &'static str,
    /// What it was.
    was: Option<&'a str>,
    /// What it is now.
    becomes: Option<&'a str>,
    /// What that means for keys that are in use.
    effect: &'a str,
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
            effect: &change.effect,
        }
    }
}

/// The policies that the caller may observe, by name.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Policies<'a> {
    policies: Vec<Shown<'a>>,
}

impl<'a> From<&'a [Arc<ActivePolicy>]> for Policies<'a> {
    fn from(policies: &'a [Arc<ActivePolicy>]) -> Self {
        let policies = policies.iter().map(|active| Shown::from(&**active));
        Self {
            policies: policies.collect(),
        }
    }
}

/// A policy, as it is written.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "Policy",
    example = json!({
        "name": "chat", "levels": ["org", "user"], "failure_mode": "deny",
        "max_keys": null, "max_waiting": null, "ttl_ms": null, "shadow": false, "metadata": {},
        "limits": [{
            "name": "tpm", "kind": "rate", "capacity": 6000, "at_most": 9000,
            "per": {"ms": 60000}, "algorithm": "token_bucket", "level": null, "shadow": false
        }],
        "written": {
            "key": "org/user",
            "limits": {"tpm": {"rate": 6000, "per": "1m", "burst": 9000}}
        }
    })
)]
pub(crate) struct Shown<'a> {
    /// Its name.
    name: &'a str,
    /// The names of a key's levels, outermost first; empty if keys are flat.
    levels: &'a [String],
    /// What is answered when the store does not answer.
    #[schemars(extend("enum" = FailureMode::NAMES))]
    failure_mode: &'static str,
    /// With `failure_mode` `share`: the percentage of each limit that decides, in this process,
    /// while the store does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    share: Option<u8>,
    /// How many keys are remembered, if the policy says so.
    #[schemars(range(min = 1))]
    max_keys: Option<usize>,
    /// How many may wait at once, if the policy says so.
    #[schemars(range(min = 1))]
    max_waiting: Option<usize>,
    /// How long a lease lasts that does not say, if the policy says so.
    #[schemars(range(min = 1))]
    ttl_ms: Option<u128>,
    /// Whether all its limits are only recorded.
    shadow: bool,
    /// Words that come with every lease.
    #[schemars(with = "BTreeMap<String, String>", example = json!({"region": "eu-west"}))]
    metadata: &'a Metadata,
    limits: Vec<ShownLimit<'a>>,
    /// Which member is tried first. Of a pool alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    balancer: Option<Balancer>,
    /// Of a pool alone: its members, which have the limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<ShownMember<'a>>,
    /// The policy as its file says it: what stands under `[policy.NAME]`.
    #[schemars(
        with = "serde_json::Map<String, serde_json::Value>",
        example = json!({"limits": {"tpm": {"rate": 6000, "per": "1m", "burst": 9000}}})
    )]
    written: ShapeBody<'a>,
}

/// One member of a pool, as it is written and as it stands.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Member")]
struct ShownMember<'a> {
    /// Its name.
    name: &'a str,
    /// Its share of the work beside the others'.
    #[schemars(range(min = 1, max = u32::MAX))]
    weight: u32,
    /// How long it is passed over when work was dropped, if the policy says so.
    #[schemars(range(min = 1))]
    cool_down_ms: Option<u128>,
    /// Words that come with its leases, the policy's among them.
    #[schemars(with = "BTreeMap<String, String>", example = json!({"region": "eu-west"}))]
    metadata: &'a Metadata,
    /// How many of its leases have not ended, of those given since the server started.
    load: u64,
    /// Until when it is passed over; null if it is not.
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

/// One constraint with a name.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Limit")]
struct ShownLimit<'a> {
    /// Its name.
    name: &'a str,
    /// What it counts.
    kind: Counted,
    /// The amount per period, or the number of slots. Of a limit with a `unit`, a decimal in
    /// quotes.
    capacity: InUnit,
    /// The most that can be granted at once. Of a limit with a `unit`, a decimal in quotes.
    at_most: InUnit,
    /// What its amounts are multiples of, where that is finer than 1: a power of ten, such as
    /// "0.01".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^0\.0{0,8}1$"))]
    unit: Option<String>,
    /// How often it starts afresh; null for concurrency.
    per: Per<'a>,
    /// How it counts; null for concurrency.
    algorithm: Option<Way>,
    /// The level it is about, if it says so.
    level: Option<&'a str>,
    /// Whether it is only recorded.
    shadow: bool,
}

/// How often a limit starts afresh.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, deny_unknown_fields)]
enum Per<'a> {
    Never,
    /// A length of time.
    Length {
        /// Milliseconds.
        #[schemars(range(min = 1))]
        ms: u128,
    },
    /// A calendar's unit.
    Calendar {
        /// The unit.
        calendar: Calendar,
        /// The IANA time zone whose midnights count.
        zone: &'a str,
    },
}

/// The unit of a calendar.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Calendar {
    Day,
    Week,
    Month,
}

/// What a limit counts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Counted {
    Calls,
    Rate,
    Budget,
    Concurrency,
}

/// How a rate counts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Way {
    TokenBucket,
    Gcra,
    LeakyBucket,
    FixedWindow,
    FirstUseWindow,
    SlidingWindow,
    SlidingLog,
    Other,
}

/// How a pool's members are put in order.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Balancer {
    RoundRobin,
    Random,
    LeastLoaded,
    FirstAvailable,
    Weighted,
    Other,
}

impl<'a> From<&'a ActivePolicy> for Shown<'a> {
    fn from(active: &'a ActivePolicy) -> Self {
        let policy = active.policy();
        let members = policy.members.iter().zip(active.members());
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
            balancer: policy.is_pool().then(|| Balancer::from(policy.balance)),
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
            kind: written.kind.into(),
            capacity: InUnit(limit.amounts(), limit.capacity()),
            at_most: InUnit(limit.amounts(), limit.at_most()),
            unit: (limit.amounts() != Unit::ONE).then(|| limit.amounts().to_string()),
            per: limit.period().map_or(Per::Never, Per::from),
            algorithm: written.algorithm.map(Way::from),
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
            Period::Day { zone } => (Calendar::Day, zone),
            Period::Week { zone } => (Calendar::Week, zone),
            Period::Month { zone } => (Calendar::Month, zone),
        };
        Self::Calendar { calendar, zone }
    }
}

impl From<Kind> for Counted {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Calls => Self::Calls,
            Kind::Rate => Self::Rate,
            Kind::Budget => Self::Budget,
            Kind::Concurrency => Self::Concurrency,
        }
    }
}

impl From<Algorithm> for Way {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::TokenBucket => Self::TokenBucket,
            Algorithm::Gcra => Self::Gcra,
            Algorithm::LeakyBucket => Self::LeakyBucket,
            Algorithm::FixedWindow => Self::FixedWindow,
            Algorithm::FirstUseWindow => Self::FirstUseWindow,
            Algorithm::SlidingWindow => Self::SlidingWindow,
            Algorithm::SlidingLog => Self::SlidingLog,
            _ => Self::Other,
        }
    }
}

impl From<Balance> for Balancer {
    fn from(balance: Balance) -> Self {
        match balance {
            Balance::RoundRobin => Self::RoundRobin,
            Balance::Random => Self::Random,
            Balance::LeastLoaded => Self::LeastLoaded,
            Balance::FirstAvailable => Self::FirstAvailable,
            Balance::Weighted => Self::Weighted,
            _ => Self::Other,
        }
    }
}
