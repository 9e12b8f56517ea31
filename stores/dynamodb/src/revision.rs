//! What DynamoDB knows a plan by, and how it is told of a change.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::Writer;
use tidegate_store::Plan;
use tidegate_store::optimistic::PlanRevision;
use tidegate_store::revisions::{PlanChange, Revision};

use crate::error::Trouble;
use crate::inner::Inner;
use crate::registry;

impl Inner {
    /// The newest plan's revision, written first if it is not yet.
    pub(crate) async fn revision(self: &Arc<Self>) -> Result<Arc<PlanRevision>, Trouble> {
        let writer = Registering(Arc::clone(self));
        Ok(self.changes.newest(&writer).await?.known)
    }

    /// What `plan` is known by, if it is the newest; written first if it is not yet.
    pub(crate) async fn revision_of(
        self: &Arc<Self>,
        plan: &Arc<Plan>,
    ) -> Result<Arc<PlanRevision>, Trouble> {
        let writer = Registering(Arc::clone(self));
        self.changes.revision_of(plan, &writer).await
    }

    /// Reads the revisions of these numbers.
    pub(crate) async fn learn(&self, numbers: &[u32]) -> Result<(), Trouble> {
        let revisions = registry::fetch(&self.shared, &self.set, numbers).await?;
        self.revisions.learn(revisions);
        Ok(())
    }
}

/// Where the revisions of a table are written.
#[derive(Clone)]
struct Registering(Arc<Inner>);

impl Writer<Arc<PlanRevision>> for Registering {
    type Error = Trouble;

    const WRITES_EACH: bool = true;

    fn deadline(&self) -> Duration {
        self.0.shared.driver.deadline()
    }

    async fn write(&self, change: &PlanChange) -> Result<Arc<PlanRevision>, Trouble> {
        let inner = &self.0;
        let revision = registry::add(&inner.shared, &inner.set, change.clone()).await?;
        let revision = Arc::new(revision);
        inner.revisions.note(&revision);
        Ok(revision)
    }

    /// A row is carried over when it is asked for.
    async fn touch(&self, _: &PlanChange, _: &[Revision<Arc<PlanRevision>>]) {}
}
