//! Keys in JSON: text, or any bytes in Base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Deserialize, Deserializer};
use serde_json::{Value, json};
use tidegate::Key;
use tidegate_service::Whose;

use crate::error::Problem;
use crate::openapi::schema::schema;

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

/// The longest key, in bytes: as [`Key::check`] has it.
const MAX_KEY_BYTES: usize = 4_096;

/// A key that is text, for the document.
pub(crate) struct Text;

schema!(Text = {
    "type": "string", "minLength": 1, "maxLength": MAX_KEY_BYTES, "examples": ["acme/alice"]
});
schema!(Base64 = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    "minLength": 4,
    "examples": ["YWNtZS9hbGljZQ=="]
});

/// That a request says whose limits are meant, in one of three ways.
pub(crate) fn one_of() -> Value {
    json!([{"required": ["key"]}, {"required": ["key_base64"]}, {"required": ["entity"]}])
}

/// Whose limits are meant: those of a key, or of an entity.
pub(crate) fn whose<'k>(
    text: Option<&'k String>,
    bytes: Option<&'k Base64>,
    entity: Option<&'k String>,
) -> Result<Whose<'k>, Problem> {
    match entity {
        None => chosen(text, bytes).map(Whose::Key),
        Some(id) if text.is_none() && bytes.is_none() => Ok(Whose::Entity(id)),
        Some(_) => Err(Problem::invalid("give a key or an `entity`, not both")),
    }
}

/// The key that a request names, in whichever of the two ways.
pub(crate) fn chosen<'k>(
    text: Option<&'k String>,
    bytes: Option<&'k Base64>,
) -> Result<&'k [u8], Problem> {
    let key = match (text, bytes) {
        (Some(text), None) => text.as_bytes(),
        (None, Some(Base64(bytes))) => bytes,
        (None, None) => return Err(Problem::invalid("say who is limited: `key` is missing")),
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("give `key` or `key_base64`, not both"));
        }
    };
    // Said of each of a batch, before anything is decided.
    let length = Key::from(key).check();
    length.map_err(|wrong| Problem::invalid(wrong.to_string()))?;
    Ok(key)
}
