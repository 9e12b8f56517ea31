//! A row: which plan wrote it, and the states of its level's limits.
//!
//! ```text
//! version u8, serial u32, n u32, n x (length u32, a state of the core's codec)
//! ```

use crate::oracle::Row;
use tidegate_core::{DecodeError, State, codec};

use super::{VERSION, versioned};

/// Appends the states of a row.
pub fn encode_row(row: &[State], out: &mut Vec<u8>) {
    out.extend((row.len() as u32).to_le_bytes());
    for state in row {
        let start = out.len();
        out.extend([0; 4]);
        codec::encode(state, out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// What goes before the states: the version, and the serial of the plan.
#[must_use]
pub fn row_head(serial: u32) -> [u8; 5] {
    let [a, b, c, d] = serial.to_le_bytes();
    [VERSION, a, b, c, d]
}

/// The serial of the plan that wrote a row, and its states.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_row(bytes: &[u8]) -> Result<(u32, Row), DecodeError> {
    let mut reader = versioned(bytes)?;
    let serial = reader.u32()?;
    let count = reader.count(6)?;
    let row: Result<Row, _> = (0..count).map(|_| codec::decode(reader.bytes()?)).collect();
    reader.end()?;
    Ok((serial, row?))
}
