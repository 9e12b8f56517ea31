//! Revisions of a table's plan: a row says by which of them it was written.

use std::sync::Arc;

use crate::adopted::Adopted;
use crate::plan::Plan;

/// A plan as the backend knows it.
#[derive(Clone, Debug)]
pub struct PlanRevision {
    /// Its number: that of a later one is larger.
    pub number: u32,
    /// The plan.
    pub plan: Arc<Plan>,
    /// When it came into force.
    pub adopted: Adopted,
    /// Whether the plan says which keys have limits of their own: one that was
    /// read from the backend does not, their rows do.
    pub knows_keys: bool,
}
