//! Instants and lengths of time, as the server writes them.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use tidegate::Timestamp;

/// An instant in words.
pub(crate) fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let instant: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
    Ok(Timestamp::from_micros(instant.as_microsecond()))
}

/// An instant, or null.
pub(crate) fn maybe<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Instant(#[serde(deserialize_with = "instant")] Timestamp);
    let instant = Option::<Instant>::deserialize(deserializer)?;
    Ok(instant.map(|Instant(instant)| instant))
}

/// Milliseconds, or null.
pub(crate) fn milliseconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let millis = Option::<u64>::deserialize(deserializer)?;
    Ok(millis.map(Duration::from_millis))
}
