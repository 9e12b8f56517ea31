//! Keys in JSON: text, or any bytes in Base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserialize, Deserializer};
use tidegate::Key;

use crate::problem::Problem;

/// Bytes that are written in Base64 (the standard alphabet, padded).
pub(crate) struct Base64(Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text);
        bytes
            .map(Self)
            .map_err(|error| de::Error::custom(format_args!("this is not padded Base64: {error}")))
    }
}

/// The key that a request names, in whichever of the two ways.
pub(crate) fn chosen<'k>(
    text: Option<&'k String>,
    bytes: Option<&'k Base64>,
) -> Result<Key<'k>, Problem> {
    match (text, bytes) {
        (Some(text), None) => Ok(Key::from(text)),
        (None, Some(Base64(bytes))) => Ok(Key::from(bytes)),
        (None, None) => Err(Problem::invalid(
            "say whose limits are meant: `key` is missing",
        )),
        (Some(_), Some(_)) => Err(Problem::invalid(
            "give either `key` or `key_base64`, not both",
        )),
    }
}
