//! Where limits stand, and how much of them is left for a request.

use serde::Deserialize;
use tidegate::Timestamp;

use crate::instant;
use crate::named::Named;
use crate::quantity::Quantity;

/// Where a limit stands for a key.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Standing {
    /// The most that could ever be granted at once.
    pub limit: Quantity,
    /// What could be granted now.
    pub remaining: Quantity,
    /// What was used beyond the limit, and is not paid back yet.
    pub debt: Quantity,
    /// When more is available by itself; `None` if it is full.
    #[serde(deserialize_with = "instant::maybe")]
    pub replenish_at: Option<Timestamp>,
    /// When all of it is available again; `None` if it is.
    #[serde(deserialize_with = "instant::maybe")]
    pub full_at: Option<Timestamp>,
}

/// How many such requests a limit admits, and when the next.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Forecast {
    /// How many such requests would be admitted now.
    pub spendable: u64,
    /// Whether one would be.
    pub admitted: bool,
    /// When one would be, if nothing else happens; `None` if it would be now.
    #[serde(deserialize_with = "instant::maybe")]
    pub not_until: Option<Timestamp>,
    /// Where the limit stands.
    #[serde(flatten)]
    pub standing: Standing,
}

/// Forecasts by limit.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Forecasts {
    /// Of the limits that the request takes; of a pool without a named member, none.
    pub limits: Named<Forecast>,
    /// Of a pool, if no member is named: those of each, by its name.
    #[serde(default)]
    pub members: Named<Self>,
}
