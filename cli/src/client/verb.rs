//! What is asked of the server.

/// What is asked of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Check,
    Acquire,
    Settle,
    Release,
    Cancel,
    Renew,
    Adjust,
    Debit,
    Peek,
    Forecast,
    Reset,
}

impl Verb {
    pub const fn path(self) -> &'static str {
        match self {
            Self::Check => "/v1/check",
            Self::Acquire => "/v1/acquire",
            Self::Settle => "/v1/settle",
            Self::Release => "/v1/release",
            Self::Cancel => "/v1/cancel",
            Self::Renew => "/v1/renew",
            Self::Adjust => "/v1/adjust",
            Self::Debit => "/v1/debit",
            Self::Peek => "/v1/peek",
            Self::Forecast => "/v1/forecast",
            Self::Reset => "/v1/reset",
        }
    }
}
