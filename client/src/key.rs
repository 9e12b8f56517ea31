//! Who or what is limited.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

/// Who or what is limited: text, bytes, or an entity.
///
/// At most 4,096 bytes. Where the policy has levels, `/` separates them; a `/` of a segment's
/// own is written `%2F`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Key(Written);

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
enum Written {
    #[serde(rename = "key")]
    Text(String),
    #[serde(rename = "key_base64")]
    Base64(String),
    #[serde(rename = "entity")]
    Entity(String),
}

impl Key {
    /// A key that is no text.
    #[must_use]
    pub fn bytes(bytes: &[u8]) -> Self {
        Self::base64(STANDARD.encode(bytes))
    }

    /// An entity, by its id: the server knows its ancestors. 1 to 256 bytes.
    #[must_use]
    pub fn entity(id: impl Into<String>) -> Self {
        Self(Written::Entity(id.into()))
    }

    /// The same in padded Base64 already. The server refuses what is none.
    #[must_use]
    pub fn base64(text: impl Into<String>) -> Self {
        Self(Written::Base64(text.into()))
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(Written::Text(text))
    }
}
