//! What fits, by limit.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::json;
use tidegate::{Forecast, MAX_AMOUNT, Unit, Verdict};
use tidegate_service::{ActivePolicy, MemberForecast};

use super::answer::Stand;
use super::example;
use super::instant::Instant;

/// What fits, limit by limit.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Forecasts", example = json!({"limits": {"tpm": example::forecast()}}))]
pub(crate) struct ForecastBody<'a> {
    /// By name; only limits that the request takes.
    #[schemars(with = "BTreeMap<String, One>")]
    limits: Forecasts<'a>,
    /// Of a pool, if no member is named: each that could serve the request, by name. `limits` is
    /// empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, ForMember>")]
    members: Option<Members<'a>>,
}

impl<'a> ForecastBody<'a> {
    /// Of one set of limits if `is_one`, else of a pool's members.
    pub(crate) fn of(
        active: &'a ActivePolicy,
        forecasts: &'a [MemberForecast],
        is_one: bool,
    ) -> Self {
        match forecasts {
            [one] if is_one => Self {
                limits: Forecasts(active, &one.limits),
                members: None,
            },
            several => Self {
                limits: Forecasts(active, &[]),
                members: Some(Members(active, several)),
            },
        }
    }
}

struct Members<'a>(&'a ActivePolicy, &'a [MemberForecast]);

/// What fits at one member.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct ForMember<'a> {
    /// By name; only limits that the request takes.
    #[schemars(with = "BTreeMap<String, One>")]
    limits: Forecasts<'a>,
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.1.iter().map(|foreseen| {
            let limits = Forecasts(self.0, &foreseen.limits);
            (
                foreseen.member.as_deref().unwrap_or_default(),
                ForMember { limits },
            )
        }))
    }
}

struct Forecasts<'a>(&'a ActivePolicy, &'a [(String, Forecast)]);

/// How many such requests fit, and when one does.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Forecast", example = example::forecast())]
struct One {
    /// How many such requests would be admitted now.
    #[schemars(range(max = MAX_AMOUNT))]
    spendable: u64,
    /// Whether it may start.
    admitted: bool,
    /// The exact instant at which it may start, if nothing else happens.
    not_until: Option<Instant>,
    #[serde(flatten)]
    standing: Stand,
}

impl Serialize for Forecasts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let forecasts = self.1.iter();
        serializer.collect_map(forecasts.map(|(name, forecast)| {
            let one = One::of(self.0.unit(name), forecast);
            (name, one)
        }))
    }
}

impl One {
    fn of(unit: Unit, forecast: &Forecast) -> Self {
        let not_until = match forecast.verdict {
            Verdict::NotUntil(at) => Some(Instant(at)),
            _ => None,
        };
        Self {
            spendable: forecast.spendable,
            admitted: forecast.verdict.admitted(),
            not_until,
            standing: Stand::of(unit, forecast.standing),
        }
    }
}
