//! How a rate is counted.

/// How a rate is counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Algorithm {
    /// Refills continuously, up to the burst. The default of calls and rates.
    TokenBucket,
    /// The same arithmetic under its other name (generic cell rate algorithm).
    Gcra,
    /// The same arithmetic once more: a meter when asked, a shaper when waited on.
    LeakyBucket,
    /// So much in each window of the clock or calendar. The default of budgets.
    FixedWindow,
    /// So much in each window that opens with the first use.
    FirstUseWindow,
    /// So much in every rolling window, told apart by sub-windows.
    SlidingWindow,
    /// So much in every rolling window, to the microsecond.
    SlidingLog,
}
