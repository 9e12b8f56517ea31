//! What fits, by limit.

use serde::{Serialize, Serializer};
use tidegate::{Forecast, Unit, Verdict};
use tidegate_service::{MemberForecast, Served};

use super::answer::Stand;
use super::instant::Instant;

/// What fits: by limit, or by limit for each member of a pool.
#[derive(Serialize)]
pub(crate) struct ForecastBody<'a> {
    limits: Forecasts<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Members<'a>>,
}

impl<'a> ForecastBody<'a> {
    /// Of one set of limits if `is_one`, else of a pool's members.
    pub(crate) fn of(served: &'a Served, forecasts: &'a [MemberForecast], is_one: bool) -> Self {
        match forecasts {
            [one] if is_one => Self {
                limits: Forecasts(served, &one.limits),
                members: None,
            },
            several => Self {
                limits: Forecasts(served, &[]),
                members: Some(Members(served, several)),
            },
        }
    }
}

struct Members<'a>(&'a Served, &'a [MemberForecast]);

#[derive(Serialize)]
struct ForMember<'a> {
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

struct Forecasts<'a>(&'a Served, &'a [(String, Forecast)]);

#[derive(Serialize)]
struct One {
    spendable: u64,
    admitted: bool,
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
