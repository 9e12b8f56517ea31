//! What was really admitted, refused and used, by account: what others are to agree with.

use serde_json::{Value, json};

/// An account's numbers since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Entry {
    /// Calls that came.
    pub calls: u64,
    /// Of these admitted.
    pub admitted: u64,
    /// Refused by a limit of less than a day.
    pub refused_rate: u64,
    /// Refused by a limit of a day or longer.
    pub refused_quota: u64,
    /// Refused since the money is spent.
    pub refused_spend: u64,
    /// Answered with a failure that is the provider's own (500, 503, 529 ...).
    pub failed: u64,
    /// Calls that made no sense (400, 404).
    pub bad: u64,
    /// Admitted calls that are under way.
    pub open: u64,
    /// Admitted calls whose answer was written to its end.
    pub whole: u64,
    /// Admitted calls whose client went away before.
    pub cut_by_client: u64,
    /// Admitted calls whose answer the provider broke off.
    pub broken: u64,
    /// Tokens of prompts of admitted calls.
    pub input_tokens: u64,
    /// Tokens of answers, as far as they were produced.
    pub output_tokens: u64,
    /// What that costs, in millionths of a millionth.
    pub spent: u128,
}

impl Entry {
    /// As it is told.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "calls": self.calls,
            "admitted": self.admitted,
            "refused_rate": self.refused_rate,
            "refused_quota": self.refused_quota,
            "refused_spend": self.refused_spend,
            "failed": self.failed,
            "bad": self.bad,
            "open": self.open,
            "whole": self.whole,
            "cut_by_client": self.cut_by_client,
            "broken": self.broken,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "spent_millionths": u64::try_from(self.spent.div_ceil(1_000_000)).unwrap_or(u64::MAX),
        })
    }
}
