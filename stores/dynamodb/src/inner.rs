//! What the commands of one table share.

use std::sync::Arc;

use tidegate_net::{Changes, Groups};
use tidegate_store::optimistic::{KnownRevisions, OwnedKeyCommand, PlanRevision};

use crate::known::Known;
use crate::shared::Shared;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    /// The name of the set.
    pub(crate) set: String,
    pub(crate) changes: Changes<Arc<PlanRevision>>,
    pub(crate) groups: Arc<Groups<OwnedKeyCommand>>,
    /// Revisions that were met.
    pub(crate) revisions: KnownRevisions,
    /// Roots that were met.
    pub(crate) known: Known,
}
