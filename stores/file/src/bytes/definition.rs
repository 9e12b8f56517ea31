//! A definition, an event and an owner's version: what an owner says, which nobody here
//! reads.
//!
//! ```text
//! a definition   key: the owner's length u32, big-endian, the owner, the key
//!                value: version u8, the definition's version u64, what the owner says
//! an owner       key: the owner; value: version u8, its version u64
//! an event       key: the owner's length u32, big-endian, the owner, its version u64,
//!                big-endian
//!                value: version u8, at i64, how long it is kept in microseconds u64,
//!                how many are u32, the subject's length u32, the subject, the body
//! ```

use std::time::Duration;

use tidegate_store::core::{DecodeError, Timestamp};
use tidegate_store::{Definition, Event};

use super::{VERSION, versioned};

/// Whose it is, and what is kept.
pub(crate) type Defined<T> = (String, T);

pub(crate) fn encode_definition(definition: &Definition) -> Option<Vec<u8>> {
    let value = definition.value.as_deref()?;
    Some([&[VERSION], &definition.version.to_le_bytes()[..], value].concat())
}

pub(crate) fn decode_definition(
    place: &[u8],
    value: &[u8],
) -> Result<Defined<Definition>, DecodeError> {
    let (owner, key) = owned(place)?;
    let (version, value) = word(versioned(value)?.rest())?;
    Ok((owner, Definition::new(key, value).at_version(version)))
}

pub(crate) fn encode_owner(version: u64) -> Vec<u8> {
    [&[VERSION], &version.to_le_bytes()[..]].concat()
}

pub(crate) fn decode_owner(owner: &[u8], value: &[u8]) -> Result<Defined<u64>, DecodeError> {
    match word(versioned(value)?.rest())? {
        (version, []) => Ok((name(owner)?, version)),
        _ => Err(DecodeError::Corrupt("an owner's version is too long")),
    }
}

pub(crate) fn encode_event(event: &Event) -> Vec<u8> {
    let lasts = u64::try_from(event.lasts.as_micros()).unwrap_or(u64::MAX);
    let mut bytes = vec![VERSION];
    bytes.extend(event.at.as_micros().to_le_bytes());
    bytes.extend(lasts.to_le_bytes());
    bytes.extend(event.most.to_le_bytes());
    bytes.extend((event.subject.len() as u32).to_le_bytes());
    bytes.extend(&event.subject);
    bytes.extend(&event.body);
    bytes
}

pub(crate) fn decode_event(place: &[u8], value: &[u8]) -> Result<Defined<Event>, DecodeError> {
    let (owner, version) = owned(place)?;
    let version = version.try_into().map(u64::from_be_bytes);
    let version = version.map_err(|_| DecodeError::Corrupt("an event's version"))?;
    let (at, rest) = word(versioned(value)?.rest())?;
    let (lasts, rest) = word(rest)?;
    let (most, rest) = half(rest)?;
    let (length, rest) = half(rest)?;
    let split = rest.split_at_checked(length as usize);
    let (subject, body) = split.ok_or(DecodeError::Truncated)?;
    let event = Event {
        subject: subject.to_vec(),
        body: body.to_vec(),
        at: Timestamp::from_micros(at.cast_signed()),
        lasts: Duration::from_micros(lasts),
        most,
        version,
    };
    Ok((owner, event))
}

/// Whose it is, and the rest of its place.
fn owned(place: &[u8]) -> Result<(String, &[u8]), DecodeError> {
    let (length, rest) = place.split_first_chunk().ok_or(DecodeError::Truncated)?;
    let length = u32::from_be_bytes(*length) as usize;
    let split = rest.split_at_checked(length);
    let (owner, rest) = split.ok_or(DecodeError::Truncated)?;
    Ok((name(owner)?, rest))
}

fn name(owner: &[u8]) -> Result<String, DecodeError> {
    let owner = std::str::from_utf8(owner).map_err(|_| DecodeError::Corrupt("owner"))?;
    Ok(owner.to_owned())
}

fn word(bytes: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    let (word, rest) = bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
    Ok((u64::from_le_bytes(*word), rest))
}

fn half(bytes: &[u8]) -> Result<(u32, &[u8]), DecodeError> {
    let (half, rest) = bytes.split_first_chunk().ok_or(DecodeError::Truncated)?;
    Ok((u32::from_le_bytes(*half), rest))
}
