//! Definitions, their changes and events, on their way to another process.
//!
//! ```text
//! definition: key, value: there u8 [, bytes], lasts: there u8 [, micros u64], version u64
//! change: definition, expected: there u8 [, u64], event: there u8 [, event]
//! event: subject, body, at i64, lasts u64, most u32, version u64
//! defined: u8: 0 done (, changed u8, version u64), 1 conflict (, there u8 [, definition])
//! definitions: newer than u64, version u64, whole u8, n u32, n x definition
//! ```
//! It has no version: whatever it is a part of has one.

use std::time::Duration;

use tidegate_core::DecodeError;

use super::reader::Reader;
use super::writer::Writer;
use crate::definitions::{Change, Defined, Definition, Definitions, Event};

/// The least bytes that a definition has.
pub const DEFINITION: usize = 14;

/// The least bytes that an event has.
pub const EVENT: usize = 36;

/// Appends a definition.
pub fn encode_definition(definition: &Definition, out: &mut Writer) {
    out.bytes(&definition.key);
    out.option(definition.value.as_ref(), |out, value| _ = out.bytes(value));
    out.option(definition.lasts, put_lasting);
    out.u64(definition.version);
}

/// Reads a definition.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_definition(reader: &mut Reader<'_>) -> Result<Definition, DecodeError> {
    Ok(Definition {
        key: reader.bytes()?.to_vec(),
        value: reader.option("value", Reader::bytes)?.map(<[u8]>::to_vec),
        lasts: reader.option("lasts", lasting)?,
        version: reader.u64()?,
    })
}

fn put_lasting(out: &mut Writer, lasts: Duration) {
    out.u64(u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX));
}

fn lasting(reader: &mut Reader<'_>) -> Result<Duration, DecodeError> {
    Ok(Duration::from_micros(reader.u64()?))
}

/// Appends an event.
pub fn encode_event(event: &Event, out: &mut Writer) {
    out.bytes(&event.subject).bytes(&event.body);
    put_lasting(out.instant(event.at), event.lasts);
    out.u32(event.most).u64(event.version);
}

/// Reads an event.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_event(reader: &mut Reader<'_>) -> Result<Event, DecodeError> {
    Ok(Event {
        subject: reader.bytes()?.to_vec(),
        body: reader.bytes()?.to_vec(),
        at: reader.instant()?,
        lasts: lasting(reader)?,
        most: reader.u32()?,
        version: reader.u64()?,
    })
}

/// Appends a change.
pub fn encode_change(change: &Change, out: &mut Writer) {
    encode_definition(&change.definition, out);
    out.option(change.expected, |out, version| _ = out.u64(version));
    out.option(change.event.as_ref(), |out, event| encode_event(event, out));
}

/// Reads a change.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_change(reader: &mut Reader<'_>) -> Result<Change, DecodeError> {
    Ok(Change {
        definition: decode_definition(reader)?,
        expected: reader.option("expected", Reader::u64)?,
        event: reader.option("event", decode_event)?,
    })
}

/// Appends what became of a change.
pub fn encode_defined(defined: &Defined, out: &mut Writer) {
    match defined {
        Defined::Done { changed, version } => _ = out.u8(0).flag(*changed).u64(*version),
        Defined::Conflict(there) => {
            let there = there.as_ref();
            out.u8(1)
                .option(there, |out, one| encode_definition(one, out));
        }
    }
}

/// Reads what became of a change.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_defined(reader: &mut Reader<'_>) -> Result<Defined, DecodeError> {
    match reader.u8()? {
        0 => Ok(Defined::Done {
            changed: reader.flag("changed")?,
            version: reader.u64()?,
        }),
        1 => Ok(Defined::Conflict(
            reader.option("definition", decode_definition)?,
        )),
        _ => Err(DecodeError::Corrupt("defined")),
    }
}

/// Appends what has changed.
pub fn encode_definitions(definitions: &Definitions, out: &mut Writer) {
    out.u64(definitions.newer_than).u64(definitions.version);
    out.flag(definitions.whole);
    let changed = definitions.changed.iter();
    out.list(changed, |out, one| encode_definition(one, out));
}

/// Reads what has changed.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_definitions(reader: &mut Reader<'_>) -> Result<Definitions, DecodeError> {
    Ok(Definitions {
        newer_than: reader.u64()?,
        version: reader.u64()?,
        whole: reader.flag("whole")?,
        changed: reader.list(DEFINITION, decode_definition)?,
    })
}
