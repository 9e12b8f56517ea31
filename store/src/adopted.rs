//! When a plan came into force.

use tidegate_core::{Bounds, Timestamp};

/// When a plan came into force, and how the calendars stood then: what is
/// needed to carry a row over from the plan before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adopted {
    /// The instant.
    pub at: Timestamp,
    /// The boundaries of the plan's calendars, as a command carries them.
    pub calendars: Vec<Option<Bounds>>,
}

impl Default for Adopted {
    /// In force from the beginning.
    fn default() -> Self {
        Self {
            at: Timestamp::MIN,
            calendars: Vec::new(),
        }
    }
}
