//! What threads and the writer share.

use std::sync::Arc;

use parking_lot::Mutex;

use super::progress::Progress;
use super::tracked::Tracked;

/// What is kept of an owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Definition,
    Version,
    Event,
}

/// What something of an owner's is to be, and where; `None`: nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) place: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

/// What threads and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) progress: Progress,
    pub(super) tables: Mutex<Vec<Arc<Tracked>>>,
    /// Changes of definitions that are not written yet; those of one step are added at once.
    pub(super) definitions: Mutex<Vec<Change>>,
    /// The numbers of tables that are to be deleted.
    pub(super) forgotten: Mutex<Vec<u32>>,
}
