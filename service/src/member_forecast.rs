//! What a forecast says of one set.

use tidegate_core::{Amount, Forecast, Verdict};

/// What a forecast says, of one member if it is about a pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberForecast {
    /// The pool's member.
    pub member: Option<String>,
    /// Each limit by name.
    pub limits: Vec<(String, Forecast)>,
}

impl MemberForecast {
    /// A limit that never grants as much at once, and the most that it grants.
    pub(super) fn never(&self) -> Option<(String, Amount)> {
        let mut limits = self.limits.iter();
        let never = limits.find(|(_, forecast)| forecast.verdict == Verdict::Never);
        never.map(|(name, forecast)| (name.clone(), forecast.standing.limit))
    }
}
