//! A definition: what an owner says of a key, which nobody here reads.
//!
//! ```text
//! key: the owner's length u32, big-endian, the owner, the key
//! value: version u8, what the owner says
//! ```

use tidegate_store::core::DecodeError;

use super::{VERSION, versioned};

/// Whose it is, its key, and what is said of it.
pub(crate) type Defined = (String, Vec<u8>, Vec<u8>);

pub(crate) fn encode_definition(value: &[u8]) -> Vec<u8> {
    [&[VERSION], value].concat()
}

pub(crate) fn decode_definition(place: &[u8], value: &[u8]) -> Result<Defined, DecodeError> {
    let (length, rest) = place.split_first_chunk().ok_or(DecodeError::Truncated)?;
    let length = u32::from_be_bytes(*length) as usize;
    let (owner, key) = rest
        .split_at_checked(length)
        .ok_or(DecodeError::Truncated)?;
    let owner = std::str::from_utf8(owner).map_err(|_| DecodeError::Corrupt("owner"))?;
    let value = versioned(value)?.rest();
    Ok((owner.to_owned(), key.to_vec(), value.to_vec()))
}
