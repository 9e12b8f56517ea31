//! What is known of a table beside its rows.
//!
//! ```text
//! version u8, fence u64, latest i64, name
//! ```

use tidegate_store::core::{DecodeError, Timestamp};

use super::{VERSION, versioned};

/// A table's name, and how far it had come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) name: String,
    /// No fence that was ever granted is larger.
    pub(crate) fence: u64,
    /// The latest instant that it was told.
    pub(crate) latest: Timestamp,
}

pub(crate) fn encode_table(known: &Known) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(known.fence.to_le_bytes());
    out.extend(known.latest.as_micros().to_le_bytes());
    out.extend(known.name.as_bytes());
    out
}

pub(crate) fn decode_table(bytes: &[u8]) -> Result<Known, DecodeError> {
    let mut reader = versioned(bytes)?;
    let (fence, latest) = (reader.u64()?, reader.instant()?);
    let name = std::str::from_utf8(reader.rest()).map_err(|_| DecodeError::Corrupt("name"))?;
    Ok(Known {
        name: name.to_owned(),
        fence,
        latest,
    })
}
