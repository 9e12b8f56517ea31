//! Which table a tier puts around another.

use std::sync::Arc;

use tidegate_store::{Plan, Table, Timer};

use crate::counters::TierStatistics;
use crate::refusals::RefusalTable;
use crate::settings::Tier;
use crate::table::TierTable;

/// A table around a table, that decides some of what it is asked.
pub trait Tiered: Table {
    /// What it has counted, and holds.
    fn statistics(&self) -> TierStatistics;
}

impl Tiered for TierTable {
    fn statistics(&self) -> TierStatistics {
        Self::statistics(self)
    }
}

impl Tiered for RefusalTable {
    fn statistics(&self) -> TierStatistics {
        Self::statistics(self)
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
