//! What an entity, and the reason of a change, are held to: one rule for files and for servers.

use std::collections::BTreeMap;

/// The longest id of an entity, in bytes.
pub const LONGEST_ENTITY_ID: usize = 256;

/// The longest name of an entity, in bytes.
pub const LONGEST_NAME: usize = 256;

/// The most entries of an entity's metadata.
pub const MOST_METADATA: usize = 16;

/// The longest metadata of an entity, in bytes: of all words and what they say.
pub const LONGEST_METADATA: usize = 1_024;

/// The longest reason of a change, in bytes.
pub const LONGEST_REASON: usize = 1_024;

/// Why `id` can be no entity's: one has 1 to 256 bytes, and is neither `.` nor `..`.
#[must_use]
pub fn wrong_entity_id(id: &str) -> Option<&'static str> {
    match id.len() {
        1 | 2 if matches!(id, "." | "..") => {
            Some("an entity's id is neither `.` nor `..`, which no path of a URL can name")
        }
        1..=LONGEST_ENTITY_ID => None,
        0 => Some("it is empty"),
        _ => Some("an entity's id has 256 bytes at most"),
    }
}

/// Why `name` can be no entity's.
#[must_use]
pub const fn wrong_name(name: &str) -> Option<&'static str> {
    match name.len() > LONGEST_NAME {
        true => Some("it is longer than 256 bytes"),
        false => None,
    }
}

/// Why `metadata` can be no entity's.
#[must_use]
pub fn wrong_metadata(metadata: &BTreeMap<String, String>) -> Option<&'static str> {
    if metadata.len() > MOST_METADATA {
        return Some("it has more than 16 entries");
    }
    let lengths = metadata.iter();
    let length: usize = lengths.map(|(word, says)| word.len() + says.len()).sum();
    (length > LONGEST_METADATA).then_some("it is longer than 1,024 bytes in all")
}

/// Why `reason` can be none.
#[must_use]
pub const fn wrong_reason(reason: &str) -> Option<&'static str> {
    match reason.len() > LONGEST_REASON {
        true => Some("it is longer than 1,024 bytes; say less"),
        false => None,
    }
}
