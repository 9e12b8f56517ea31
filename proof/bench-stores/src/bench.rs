//! What every row is told.

use std::time::Duration;

/// What every row is told.
#[derive(Clone, Debug)]
pub struct Bench {
    pub rounds: usize,
    pub lap: Duration,
    pub only: String,
}

impl Bench {
    pub fn wants(&self, row: &str) -> bool {
        row.contains(&self.only)
    }
}
