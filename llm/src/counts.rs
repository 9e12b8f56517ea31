//! What limits count.

use tidegate_core::Amount;

use crate::price::Price;
use crate::provider::Provider;
use crate::usage::Usage;

/// What a limit on calls of providers counts. Calls and slots count themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counts {
    /// Tokens of prompt and answer.
    Tokens,
    /// Tokens of the prompt (at Anthropic without those out of a cache, as it counts them).
    Input,
    /// Tokens of the answer.
    Output,
    /// Money, by the prices that are given.
    Money,
}

impl Counts {
    /// What a name tells: `tokens`, `tpm`, `tpd`; `input-tokens`, `itpm`; `output-tokens`, `otpm`;
    /// `usd`, `eur`, `money`, `spend`, `budget`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "tokens" | "tpm" | "tpd" | "tph" => Self::Tokens,
            "input-tokens" | "input_tokens" | "itpm" | "itpd" => Self::Input,
            "output-tokens" | "output_tokens" | "otpm" | "otpd" => Self::Output,
            "usd" | "eur" | "money" | "spend" | "budget" => Self::Money,
            _ => return None,
        })
    }

    /// How much of that a use is: tokens, or money in millionths. What Anthropic took out of a cache
    /// is no prompt to its limits.
    #[must_use]
    pub fn of(self, provider: Provider, usage: &Usage, price: Price) -> Amount {
        let cached = match provider {
            Provider::Anthropic => usage.cache_read.unwrap_or(0),
            _ => 0,
        };
        match self {
            Self::Tokens => usage.total(),
            Self::Input => usage.prompt().saturating_sub(cached),
            Self::Output => usage.output.unwrap_or(0),
            Self::Money => price.of(usage),
        }
    }
}
