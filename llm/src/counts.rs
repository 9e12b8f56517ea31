//! What limits count.

use tidegate_core::Amount;

use crate::cost::Cost;
use crate::provider::Provider;
use crate::usage::Usage;
use crate::weight::Part;

/// What a limit on calls of providers counts. Calls and slots count themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counts {
    /// Tokens of prompt and answer.
    Tokens,
    /// Tokens of the prompt.
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

    /// How much of that a use is: tokens by their weights, or money in millionths.
    #[must_use]
    pub fn of(self, provider: Provider, usage: &Usage, cost: &Cost) -> Amount {
        let weighed = |part| {
            let cached_is_free = provider.counts_nothing_cached(self);
            cost.weight.of(usage, part, cached_is_free)
        };
        match self {
            Self::Tokens => weighed(Part::Both),
            Self::Input => weighed(Part::Prompt),
            Self::Output => weighed(Part::Answer),
            Self::Money => cost.price.of(usage),
        }
    }
}

impl Provider {
    /// Whether such a limit of the provider's counts nothing of what comes out of a cache: Anthropic's
    /// on the prompt, Groq's and Bedrock's on all tokens.
    #[must_use]
    pub const fn counts_nothing_cached(self, counts: Counts) -> bool {
        match counts {
            Counts::Tokens => matches!(self, Self::Groq | Self::Bedrock),
            Counts::Input => matches!(self, Self::Anthropic | Self::Groq | Self::Bedrock),
            Counts::Output | Counts::Money => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_of_a_cache_counts_where_the_provider_counts_it() {
        let usage = Usage {
            input: Some(100),
            cache_read: Some(1_000),
            output: Some(10),
            ..Usage::default()
        };
        let of = |provider, counts: Counts| counts.of(provider, &usage, &Cost::default());
        let table = [
            (Provider::OpenAi, 1_110, 1_100),
            (Provider::Anthropic, 1_110, 100),
            (Provider::Groq, 110, 100),
            (Provider::Bedrock, 110, 100),
            (Provider::Generic, 1_110, 1_100),
        ];
        for (provider, tokens, input) in table {
            assert_eq!(of(provider, Counts::Tokens), tokens, "{provider}");
            assert_eq!(of(provider, Counts::Input), input, "{provider}");
            assert_eq!(of(provider, Counts::Output), 10, "{provider}");
        }
    }
}
