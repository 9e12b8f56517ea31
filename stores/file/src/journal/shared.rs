//! What threads and the writer share.

use std::sync::Arc;

use parking_lot::Mutex;

use super::progress::Progress;
use super::tracked::Tracked;

/// A definition's place, and what it is to be; `None`: nothing.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// What threads and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) progress: Progress,
    pub(super) tables: Mutex<Vec<Arc<Tracked>>>,
    /// Definitions that are not written yet.
    pub(super) definitions: Mutex<Vec<Change>>,
    /// The numbers of tables that are to be deleted.
    pub(super) forgotten: Mutex<Vec<u32>>,
}
