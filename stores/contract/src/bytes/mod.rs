//! Plans, rows and leases as bytes, for a store that keeps them: what is written
//! by one version is read by every later one, or refused; never misread.
//!
//! | room | holds |
//! |---|---|
//! | [`plan`] | a plan, and when it came into force |
//! | [`row`] | the states of one level's limits, and which plan wrote them |
//! | [`record`] | a lease |
//! | [`reader`] | reads from the front of a slice, and never past its end |
//!
//! Each begins with a version of its own. States are the core's
//! ([`tidegate_core::codec`]), which have theirs.

pub mod plan;
pub mod reader;
pub mod record;
pub mod row;

pub use plan::{decode_plan, encode_plan};
pub use reader::Reader;
pub use record::{decode_record, encode_record};
pub use row::{Written, decode_row, encode_own, encode_row, row_head};

use tidegate_core::DecodeError;

/// The version of all but records: written, and the newest that is read.
pub const VERSION: u8 = 1;

/// A reader of what follows the version.
///
/// # Errors
/// No version, none that there ever was, or a newer one.
pub fn versioned(bytes: &[u8]) -> Result<Reader<'_>, DecodeError> {
    of_version(bytes, VERSION)
}

fn of_version(bytes: &[u8], known: u8) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    match reader.u8()? {
        version if version == known => Ok(reader),
        version if version < known => Err(DecodeError::Corrupt("version")),
        version => Err(DecodeError::Newer {
            version,
            reads: known,
        }),
    }
}

/// Appends bytes with their length before them.
fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}
