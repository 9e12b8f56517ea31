//! What a key with limits of its own is decided by.

use std::sync::Arc;

use tidegate_store::Plan;

use crate::limit::Limit;

/// The limits of a key with some of its own, over a set's.
#[derive(Debug)]
pub(crate) struct Variant {
    /// The set's plan, with this key's rules at its level.
    pub(super) plan: Arc<Plan>,
    /// The set's limits, likewise.
    pub(super) limits: Arc<[Limit]>,
}
