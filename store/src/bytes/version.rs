//! What each begins with, and how bytes of any length are put.

use tidegate_core::DecodeError;

use super::reader::Reader;

/// The version of all but records: written, and the newest that is read.
pub const VERSION: u8 = 1;

/// A reader of what follows the version.
///
/// # Errors
/// No version, none that there ever was, or a newer one.
pub fn versioned(bytes: &[u8]) -> Result<Reader<'_>, DecodeError> {
    of_version(bytes, VERSION)
}

pub(super) fn of_version(bytes: &[u8], known: u8) -> Result<Reader<'_>, DecodeError> {
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
pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}
