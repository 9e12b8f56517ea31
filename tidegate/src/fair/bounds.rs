//! How much a fair queue holds.

/// The largest weight of a flow or a priority.
pub const MAX_WEIGHT: u32 = 1_000_000;

/// How many priorities there are: 0 to 7, the last the most urgent.
pub const PRIORITIES: usize = 8;

/// The bounds of a fair queue. A request beyond one is refused with an error of its own; nobody
/// else notices. 0 lets nothing in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Flows that have requests that wait or are not settled: 10,000.
    pub flows: usize,
    /// Requests that wait, in all: 100,000.
    pub waiting: usize,
    /// Requests of one flow that wait: 10,000.
    pub waiting_of_flow: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            flows: 10_000,
            waiting: 100_000,
            waiting_of_flow: 10_000,
        }
    }
}
