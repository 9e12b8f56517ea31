//! A row: which plan wrote it, and the states of its level's limits.
//!
//! ```text
//! version u8, serial u32, n u32, n x (length u32, a state of the core's codec)
//! ```
//! A row of a key with limits of its own has another version, and their rules
//! before the states: `n u32, n x rule`, as a plan writes them.

use tidegate_core::{DecodeError, Rule, State, codec};

use crate::decide::Row;
use crate::plan::PlanLimit;

use super::plan::{decode_rule, encode_rule};
use super::reader::Reader;
use super::version::VERSION;

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

/// The version of a row with rules of its own.
const WITH_RULES: u8 = VERSION + 1;

/// Appends the rules that a row goes by, if they are not its plan's.
pub fn encode_own(own: &[PlanLimit], out: &mut Vec<u8>) {
    out.extend((own.len() as u32).to_le_bytes());
    own.iter().for_each(|limit| encode_rule(&limit.rule, out));
}

/// What goes before the rules and the states: the version, and the serial of the
/// plan.
#[must_use]
pub fn row_head(serial: u32, has_rules: bool) -> [u8; 5] {
    let [a, b, c, d] = serial.to_le_bytes();
    let version = if has_rules { WITH_RULES } else { VERSION };
    [version, a, b, c, d]
}

/// A row as it was written.
#[derive(PartialEq, Debug)]
pub struct EncodedRow {
    /// The serial of its plan.
    pub serial: u32,
    /// The rules it goes by, if they are not its plan's.
    pub own: Option<Vec<Rule>>,
    /// The states of its level's limits, in order.
    pub states: Row,
}

/// Reads a row from all of `bytes`.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_row(bytes: &[u8]) -> Result<EncodedRow, DecodeError> {
    let mut reader = Reader::new(bytes);
    let has_rules = match reader.u8()? {
        VERSION => false,
        WITH_RULES => true,
        version if version < VERSION => return Err(DecodeError::Corrupt("version")),
        version => {
            let reads = WITH_RULES;
            return Err(DecodeError::Newer { version, reads });
        }
    };
    let serial = reader.u32()?;
    let mut rules = || {
        let count = reader.count(17)?;
        (0..count).map(|_| decode_rule(&mut reader)).collect()
    };
    let own = has_rules.then(&mut rules).transpose()?;
    let count = reader.count(6)?;
    let states: Result<Row, _> = (0..count).map(|_| codec::decode(reader.bytes()?)).collect();
    reader.end()?;
    Ok(EncodedRow {
        serial,
        own,
        states: states?,
    })
}
