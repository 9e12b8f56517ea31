//! May it start?

use std::time::Duration;

use serde::Deserialize;
use tidegate::Timestamp;

use crate::instant;
use crate::named::Named;
use crate::standing::Standing;

/// May it start, and where does everything stand? A refusal is one of these, too.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Answer {
    /// Whether it may start.
    pub admitted: bool,
    /// The limit that binds: whose refusal lasts longest.
    pub binding: Option<String>,
    /// The exact instant at which it may start, if nothing else happens.
    #[serde(deserialize_with = "instant::maybe")]
    pub not_until: Option<Timestamp>,
    /// How long until then, in whole milliseconds, rounded up, with the policy's jitter.
    #[serde(rename = "retry_after_ms", deserialize_with = "instant::milliseconds")]
    pub retry_after: Option<Duration>,
    /// Where every limit stands after this step.
    pub limits: Named<Standing>,
    /// The server's store could not tell: this is the policy's failure mode.
    pub degraded: bool,
    /// A shadow limit would have refused.
    pub shadowed: bool,
    /// The name of the level of the limit that binds, where keys have levels.
    pub level: Option<String>,
    /// The member of a pool whose answer it is.
    pub member: Option<String>,
    /// Of a refusal: the id of the entity whose limit binds, the one that was asked or an
    /// ancestor, where an entity was asked.
    #[serde(default)]
    pub entity: Option<String>,
    /// Of a peek: the limits whose numbers are an override's, and how specific it is
    /// (`key_and_policy`, `key`, `policy`, `everything`).
    #[serde(default)]
    pub overrides: Named<String>,
}
