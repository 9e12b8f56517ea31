//! What the commands of one table share.

use std::sync::Arc;

use tidegate_net::{Changes, Groups, Share};
use tidegate_store::StoreError;
use tidegate_store::optimistic::{KnownRevisions, OwnedKeyCommand, PlanRevision};

use crate::pruner::Pruner;
use crate::shared::Shared;
use crate::sql::Place;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u32,
    pub(crate) changes: Changes<Arc<PlanRevision>>,
    pub(crate) groups: Arc<Groups<OwnedKeyCommand>>,
    pub(crate) known: KnownRevisions,
    pub(crate) pruner: Pruner,
}

impl Inner {
    /// The table, as SQL knows it.
    pub(crate) fn place(&self) -> Place<'_> {
        Place {
            prefix: self.shared.prefix.as_str(),
            table: self.number,
        }
    }

    /// Waits until a command about `root` may use a connection.
    pub(crate) async fn share(&self, root: &[u8]) -> Result<Share, StoreError> {
        self.shared.pool.share(self.number, root).await
    }
}
