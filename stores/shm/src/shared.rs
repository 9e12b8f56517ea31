//! What the tables of a store share, in this process.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate_store::optimistic::Clock;

use crate::following::Following;
use crate::owed::Owed;
use crate::steps::Steps;
use crate::waiters::LazyWaiters;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) steps: Arc<Steps>,
    pub(crate) path: PathBuf,
    pub(crate) clock: Clock,
    pub(crate) leases_end_with_process: bool,
    pub(crate) following: Arc<Following>,
    pub(crate) waiters: LazyWaiters,
    pub(crate) owed: Arc<Owed>,
}
