//! Instants as requests have them.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use tidegate::Timestamp;

use crate::openapi::schema::schema;

/// An instant as RFC 3339 has it, in any time zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Instant(pub(crate) Timestamp);

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

struct Text;

impl de::Visitor<'_> for Text {
    type Value = Instant;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an instant such as \"2026-12-31T23:59:59Z\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Instant, E> {
        let instant: jiff::Timestamp = text
            .parse()
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))?;
        Ok(Instant(Timestamp::from_micros(instant.as_microsecond())))
    }
}

schema!(Instant = {
    "type": "string", "format": "date-time", "examples": ["2026-12-31T23:59:59Z"]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_read_in_any_zone_and_nothing_else_is_one() {
        let read = |text: &str| serde_json::from_str::<Instant>(text);
        let noon = Instant(Timestamp::from_micros(1_767_268_800_000_001));
        assert_eq!(read(r#""2026-01-01T12:00:00.000001Z""#).unwrap(), noon);
        assert_eq!(read(r#""2026-01-01T13:00:00.000001+01:00""#).unwrap(), noon);
        for text in [r#""""#, r#""soon""#, r#""2026-01-01""#, "5", "null"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
