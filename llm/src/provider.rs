//! Which provider, and what it counts.

use std::fmt;
use std::str::FromStr;

/// Whose dialect is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI's API.
    OpenAi,
    /// OpenAI's models on Azure: the same names, resets in whole seconds.
    AzureOpenAi,
    /// Anthropic's API.
    Anthropic,
    /// Google's Gemini API and Vertex AI: no headers, refusals with details.
    Gemini,
    /// Amazon Bedrock: no headers of limits; usage in headers.
    Bedrock,
    /// Groq: OpenAI's names, but requests are counted by the day.
    Groq,
    /// Mistral's API: no resets.
    Mistral,
    /// Cerebras: limits by minute, hour and day at once.
    Cerebras,
    /// Anything else: the fields of the IETF draft, and the `X-RateLimit-*` that came before.
    #[default]
    Generic,
}

/// All of them, with their names in settings.
const NAMES: [(&str, Provider); 9] = [
    ("openai", Provider::OpenAi),
    ("azure", Provider::AzureOpenAi),
    ("anthropic", Provider::Anthropic),
    ("gemini", Provider::Gemini),
    ("bedrock", Provider::Bedrock),
    ("groq", Provider::Groq),
    ("mistral", Provider::Mistral),
    ("cerebras", Provider::Cerebras),
    ("generic", Provider::Generic),
];

impl Provider {
    /// Every provider, in the order in which they are listed.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(|(_, provider)| provider)
    }

    /// Its name in settings: `openai`, `azure`, `anthropic` ...
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = NAMES.iter().find(|(_, provider)| *provider == self);
        named.map_or("generic", |(name, _)| name)
    }
}

impl Provider {
    /// Whether a stream says its usage by itself, and its call may not ask for it: an option that
    /// is none of theirs is refused. Elsewhere OpenAI's `stream_options` asks for it.
    #[must_use]
    pub const fn streams_say_usage(self) -> bool {
        matches!(
            self,
            Self::Anthropic | Self::Gemini | Self::Bedrock | Self::Mistral
        )
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no provider's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownProvider(String);

impl fmt::Display for UnknownProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no provider {:?}; there are ", self.0)?;
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        f.write_str(&names.join(", "))
    }
}

impl std::error::Error for UnknownProvider {}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<Self, UnknownProvider> {
        let named = NAMES.iter().find(|(known, _)| *known == name);
        named
            .map(|(_, provider)| *provider)
            .ok_or_else(|| UnknownProvider(name.chars().take(64).collect()))
    }
}

/// What a provider's limit counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// Calls.
    Requests,
    /// Tokens of both directions together.
    Tokens,
    /// Tokens of the prompt.
    InputTokens,
    /// Tokens of the answer.
    OutputTokens,
    /// Something else, which its name says.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_read_by_the_name_that_it_is_shown_by() {
        for provider in Provider::all() {
            assert_eq!(provider.to_string().parse(), Ok(provider));
        }
        let error = "opnai".parse::<Provider>().unwrap_err().to_string();
        assert!(
            error.starts_with("no provider \"opnai\"; there are openai, azure,"),
            "{error}"
        );
    }
}
