//! Which table a tier puts around another.

use std::pin::Pin;
use std::sync::Arc;

use tidegate_store::{KeyPath, Plan, Table, Timer};

use crate::counters::TierStatistics;
use crate::pinned::PinnedKey;
use crate::refusals::RefusalTable;
use crate::settings::Tier;
use crate::table::TierTable;

/// A table around a table, that decides some of what it is asked.
pub trait Tiered: Table {
    /// The table around which it is, which has what every node took in advance.
    fn inner(&self) -> &Arc<dyn Table>;

    /// What it has counted, and holds.
    fn statistics(&self) -> TierStatistics;

    /// Gives back all that is held now, and from here on what is taken, as soon as its requests
    /// are served. What this returns ends when the store has answered all that it was sent: each
    /// within the store's deadline.
    fn give_back(&self) -> Answered;

    /// The key of `path`, of which its caller spends without look-up; `None` where it decides
    /// nothing of it, or there is no room for another key.
    fn pin(&self, path: &KeyPath<'_>, plan: &Arc<Plan>) -> Option<PinnedKey>;
}

/// The store has answered all that it was sent.
pub type Answered = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Tiered for TierTable {
    fn inner(&self) -> &Arc<dyn Table> {
        Self::inner(self)
    }

    fn statistics(&self) -> TierStatistics {
        Self::statistics(self)
    }

    fn give_back(&self) -> Answered {
        Box::pin(Self::give_back(self))
    }

    fn pin(&self, path: &KeyPath<'_>, plan: &Arc<Plan>) -> Option<PinnedKey> {
        Self::pin(self, path, plan)
    }
}

impl Tiered for RefusalTable {
    fn inner(&self) -> &Arc<dyn Table> {
        Self::inner(self)
    }

    fn statistics(&self) -> TierStatistics {
        Self::statistics(self)
    }

    /// It takes nothing in advance.
    fn give_back(&self) -> Answered {
        Box::pin(std::future::ready(()))
    }

    fn pin(&self, _: &KeyPath<'_>, _: &Arc<Plan>) -> Option<PinnedKey> {
        None
    }
}

/// `table`, opened by `plan`, in `tier`. `timer` is the clock by which it is asked, and never
/// steps back; `has_own_clock` says whether the store goes by another one.
#[must_use]
pub fn tiered(
    table: Arc<dyn Table>,
    tier: Tier,
    timer: Arc<dyn Timer>,
    has_own_clock: bool,
    plan: &Arc<Plan>,
) -> Arc<dyn Tiered> {
    match tier.is_leased() {
        true => Arc::new(TierTable::new(table, tier, timer, has_own_clock, plan)),
        false => Arc::new(RefusalTable::new(table, tier, timer)),
    }
}
