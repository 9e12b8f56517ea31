//! What limits count.

/// What a limit of a gateway counts. Calls and slots count themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Counts {
    /// Tokens of prompt and answer.
    Tokens,
    /// Tokens of the prompt (at Anthropic without those out of a cache, as it counts them).
    Input,
    /// Tokens of the answer.
    Output,
    /// Money, by the prices of [`Settings`](crate::Settings) and of the file.
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
}
