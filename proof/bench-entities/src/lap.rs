//! Look-ups, timed one by one: those of what was known apart from those that asked the store.

use std::fmt;
use std::time::{Duration, Instant};

/// How long those took that were known.
#[derive(Debug)]
pub struct Lap {
    known: Vec<Duration>,
    all: usize,
}

/// Asks for each of `ids`; `known` says whether the last one asked the store for nothing.
#[expect(clippy::disallowed_methods, reason = "this is a stopwatch")]
pub fn lap(
    ids: &[String],
    known: impl Fn() -> bool,
    ask: impl Fn(&str) -> Result<(), String>,
) -> Result<Lap, String> {
    let mut lap = Lap {
        known: Vec::with_capacity(ids.len()),
        all: ids.len(),
    };
    for id in ids {
        known();
        let began = Instant::now();
        ask(id)?;
        let took = began.elapsed();
        if known() {
            lap.known.push(took);
        }
    }
    lap.known.sort_unstable();
    Ok(lap)
}

impl fmt::Display for Lap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.known.len();
        let at = |part: usize| {
            self.known
                .get(count * part / 100)
                .map_or(0, Duration::as_nanos)
        };
        let share = 100.0 * count as f64 / self.all as f64;
        write!(f, "{:6} {:8}   {share:.1} %", at(50), at(99))
    }
}
