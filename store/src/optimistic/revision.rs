//! Revisions of a table's plan: a row says by which of them it was written.

use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::adopted::Adopted;
use crate::command::{KeyCommand, Verb};
use crate::key::KeyPath;
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

impl PlanRevision {
    /// A command that does what every command does first under the root of `key`, and nothing
    /// else: it ends the leases that have expired. `None` if the key is none under the plan's
    /// levels.
    #[must_use]
    pub fn look<'c>(&'c self, key: &'c [u8], now: Timestamp) -> Option<KeyCommand<'c>> {
        Some(KeyCommand {
            plan: &self.plan,
            key: KeyPath::stored(key, self.plan.levels()).ok()?,
            now,
            calendars: &self.adopted.calendars,
            verb: Verb::Peek { amounts: &[] },
        })
    }
}
