//! Who asks about how many keys, and what became of each.

use super::asker::Lap;

/// How many rows there are.
pub const ROWS: usize = 4;

/// How many ask at once, and about how many keys, where many are `keys`.
pub const fn rows(keys: usize) -> [(usize, usize); ROWS] {
    [(1, 1), (50, 1), (1, keys), (50, keys)]
}

/// What one who is compared came to in each row, by round.
pub struct Outcome {
    pub what: &'static str,
    pub laps: [Vec<Lap>; ROWS],
}
