//! What successive versions of a set's limits share.

use tidegate_core::Span;
use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicU64, Ordering};

use super::variants::{Overrides, Variants};
use super::view::View;

/// What successive versions share.
#[derive(Debug)]
pub(crate) struct Versions {
    pub(super) levels: Vec<String>,
    /// How long ended leases are remembered, if that was said.
    pub(super) remember: Option<Span>,
    /// One change at a time.
    pub(super) ledger: Mutex<Ledger>,
    /// How often a capacity was set.
    pub(super) capacities: AtomicU64,
}

/// What a change goes on from.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) variants: Variants,
}

impl Versions {
    pub(super) fn new(levels: Vec<String>, remember: Option<Span>) -> Self {
        let ledger = Ledger {
            variants: Variants::default(),
        };
        Self {
            levels,
            remember,
            ledger: Mutex::new(ledger),
            capacities: AtomicU64::new(0),
        }
    }

    /// How often a capacity was set.
    pub(super) fn capacities(&self) -> u64 {
        self.capacities.load(Ordering::SeqCst)
    }

    /// What keys have been given.
    pub(super) fn given(&self) -> Overrides {
        self.ledger.lock().variants.given().clone()
    }

    /// The first view, over which keys were given these limits.
    pub(super) fn begin(&self, view: View, given: Overrides) -> View {
        let mut ledger = self.ledger.lock();
        ledger.variants.give_all(given);
        let variants = ledger.variants.all(&view, &self.levels);
        view.with_variants(view.plan.version(), variants)
    }
}
