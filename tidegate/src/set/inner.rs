//! What a set, its clones and its leases share.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tidegate_store::sync::atomic::AtomicU64;
use tidegate_store::{Table, Timer};
use tidegate_tier::Tiered;

use super::cooling::Cooling;
use super::differing::Differing;
use super::override_store::OverrideStore;
use super::versions::Versions;
use super::view::View;
use super::waiters::Waiters;
use crate::clock::Clock;
use crate::keep_alive::RenewalThread;
use crate::statistics::Counters;

/// Words about a set (region, account, endpoint) that come with its leases.
pub type Metadata = BTreeMap<String, String>;

/// Limits taken together, all or nothing, from any thread or task. Cloning
/// shares it.
///
/// Verbs that may change something refuse (never err) when a limit is used up,
/// and a request that fits is refused while earlier requests wait for the same key:
/// nobody overtakes the queue.
#[derive(Clone)]
pub struct LimitSet(pub(super) Arc<Inner>);

impl LimitSet {
    pub(super) const fn of(inner: Arc<Inner>) -> Self {
        Self(inner)
    }

    pub(crate) const fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

/// The shared part of a set.
pub(crate) struct Inner {
    pub(crate) view: ArcSwap<View>,
    /// Its version: who has kept it sees whether it is the newest.
    pub(super) version: AtomicU64,
    pub(crate) table: Arc<dyn Table>,
    /// The same, if it decides near the caller.
    pub(super) tier: Option<Arc<dyn Tiered>>,
    pub(crate) clock: Clock,
    /// The same, for a queue in this process.
    pub(super) timer: Arc<dyn Timer>,
    pub(crate) metadata: Metadata,
    pub(crate) counters: Counters,
    /// Who waits.
    pub(crate) waiters: Waiters,
    /// Other processes use its store, too: what it holds is counted there.
    pub(crate) shared: bool,
    /// Two clocks measure its leases: the store's and this one.
    pub(crate) has_own_clock: bool,
    /// Of a command that failed it is not known whether it was done.
    pub(crate) loses_answers: bool,
    /// What renews the leases that are kept alive, once one is.
    pub(super) renewals: OnceLock<RenewalThread>,
    pub(super) versions: Versions,
    /// Where its overrides are kept; `None`: they are its service's.
    pub(super) override_store: Option<OverrideStore>,
    /// Its limits that the store had otherwise when it was made.
    pub(crate) differing: Vec<Differing>,
    /// Until when pools pass over it.
    pub(crate) cooling: Arc<Cooling>,
}

impl Inner {
    /// The thread that renews the leases that are kept alive.
    ///
    /// # Errors
    /// Why it could not be started.
    pub(crate) fn renewals(&self) -> Result<&RenewalThread, String> {
        if let Some(running) = self.renewals.get() {
            return Ok(running);
        }
        let started = RenewalThread::start()?;
        // Of two that are started at once one ends: it has nothing to do.
        Ok(self.renewals.get_or_init(|| started))
    }
}
