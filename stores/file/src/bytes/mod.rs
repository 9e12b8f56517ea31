//! Plans, rows and leases as bytes: what is written by one version is read by
//! every later one, or refused; never misread.
//!
//! Each begins with a version of its own. States are the core's
//! ([`tidegate_contract::core::codec`]), which have theirs.

mod definition;
mod plan;
mod reader;
mod record;
mod row;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use definition::{decode_definition, encode_definition};
pub(crate) use plan::{decode_plan, encode_plan};
pub(crate) use record::{decode_record, encode_record};
pub(crate) use row::{decode_row, encode_own, encode_row, row_head};
pub(crate) use table::{Known, decode_table, encode_table};

use reader::Reader;
use tidegate_contract::core::DecodeError;

/// The version written, and the newest that is read.
const VERSION: u8 = 1;

/// A reader of what follows the version.
fn versioned(bytes: &[u8]) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    match reader.u8()? {
        VERSION => Ok(reader),
        0 => Err(DecodeError::Corrupt("version")),
        version => Err(DecodeError::Newer { version }),
    }
}

/// Appends bytes with their length before them.
fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}
