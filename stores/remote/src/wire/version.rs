//! What every request and every response begins with.

/// The version of the protocol.
pub(super) const VERSION: u8 = 1;
