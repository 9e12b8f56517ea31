//! What successive versions of a set's limits share.

use std::sync::Arc;

use tidegate_store::KeyPath;
use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tidegate_tier::Tier;

use super::depth;
use super::kept::Kept;
use super::variants::{Overrides, Variants};
use super::view::View;
use crate::error::{BuildError, RequestError};
use crate::limit::Limit;

/// What successive versions share.
#[derive(Debug)]
pub(crate) struct Versions {
    /// A number that no other set of this process ever has.
    pub(super) set: u64,
    pub(super) levels: Vec<String>,
    /// Keys with fewer levels are let in.
    pub(super) partial_keys: AtomicBool,
    pub(super) kept: Kept,
    /// Units are taken from the store in advance: no key has limits beside the set's.
    pub(super) tier: Option<Arc<Tier>>,
    /// One change at a time.
    pub(super) ledger: Mutex<Ledger>,
    /// How often a capacity was set.
    pub(super) capacities: AtomicU64,
}

/// How many sets there have been.
static SETS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// What a change goes on from.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) variants: Variants,
}

impl Versions {
    pub(super) fn new(
        levels: Vec<String>,
        partial_keys: bool,
        kept: Kept,
        tier: Option<Arc<Tier>>,
    ) -> Self {
        let ledger = Ledger {
            variants: Variants::new(tier.clone()),
        };
        Self {
            set: SETS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            levels,
            partial_keys: AtomicBool::new(partial_keys),
            kept,
            tier,
            ledger: Mutex::new(ledger),
            capacities: AtomicU64::new(0),
        }
    }

    /// Checks that a key has as many levels as the limits of `view` are over.
    ///
    /// # Errors
    /// [`RequestError::KeyDepth`].
    #[inline]
    pub(super) fn check_depth(&self, path: &KeyPath<'_>, view: &View) -> Result<(), RequestError> {
        let partial = self.partial_keys.load(Ordering::Relaxed);
        depth::check(path, view.plan.levels(), partial)
    }

    /// How often a capacity was set.
    pub(super) fn capacities(&self) -> u64 {
        self.capacities.load(Ordering::SeqCst)
    }

    /// What keys have been given.
    pub(super) fn given(&self) -> Overrides {
        self.ledger.lock().variants.given().clone()
    }

    /// The first view, over which keys were given these limits; `view` makes it of what stands
    /// for those that only some keys have.
    pub(super) fn begin(
        &self,
        own: &[Limit],
        given: Overrides,
        view: impl FnOnce(Vec<Limit>) -> Result<View, BuildError>,
    ) -> Result<View, BuildError> {
        let mut ledger = self.ledger.lock();
        ledger.variants.give_all(&self.levels, given);
        let view = view(ledger.variants.absent(own, &self.levels, None))?;
        let variants = ledger.variants.all(&view, &self.levels);
        Ok(view.with_variants(view.plan.version(), variants))
    }
}
