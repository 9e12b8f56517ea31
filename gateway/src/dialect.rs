//! What a path asks for, and in whose words errors are said.

use http::{HeaderMap, Method};

/// In whose words a call and its errors are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// `/v1/chat/completions`, `/v1/responses`, `/v1/completions`, `/v1/embeddings`.
    OpenAi,
    /// `/v1/messages`.
    Anthropic,
    /// `/v1beta/models/MODEL:generateContent`, `:streamGenerateContent`, `:embedContent`.
    Gemini,
}

/// What a call is, as far as its head says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked<'p> {
    /// Whose words.
    pub dialect: Dialect,
    /// Whether it uses tokens: then its body is read.
    pub uses_tokens: bool,
    /// Whether a stream says its usage only if asked to: OpenAI's chat and completions.
    pub asks_for_usage: bool,
    /// The model, where the path names it.
    pub model: Option<&'p str>,
}

impl<'p> Asked<'p> {
    /// What a path with this method and these headers asks for.
    pub fn of(method: &Method, path: &'p str, headers: &HeaderMap) -> Self {
        let post = method == Method::POST;
        if let Some((_, model)) = path.split_once("/models/")
            && let Some((model, verb)) = model.split_once(':')
        {
            return Self {
                dialect: Dialect::Gemini,
                uses_tokens: post && !verb.starts_with("countTokens"),
                asks_for_usage: false,
                model: Some(model),
            };
        }
        let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
        let dialect = match path.contains("/messages") || headers.contains_key("anthropic-version")
        {
            true => Dialect::Anthropic,
            false => Dialect::OpenAi,
        };
        let counts = match dialect {
            Dialect::Anthropic => ends(&["/messages"]),
            _ => ends(&["/completions", "/responses", "/embeddings"]),
        };
        Self {
            dialect,
            uses_tokens: post && counts,
            asks_for_usage: dialect == Dialect::OpenAi && ends(&["/completions"]),
            model: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_the_dialect_and_whether_tokens_are_used() {
        let of = |path| {
            let asked = Asked::of(&Method::POST, path, &HeaderMap::new());
            (
                asked.dialect,
                asked.uses_tokens,
                asked.asks_for_usage,
                asked.model,
            )
        };
        use Dialect::{Anthropic, Gemini, OpenAi};
        assert_eq!(of("/v1/chat/completions"), (OpenAi, true, true, None));
        assert_eq!(
            of("/openai/deployments/d/chat/completions"),
            (OpenAi, true, true, None)
        );
        assert_eq!(of("/v1/responses"), (OpenAi, true, false, None));
        assert_eq!(of("/v1/embeddings"), (OpenAi, true, false, None));
        assert_eq!(of("/v1/files"), (OpenAi, false, false, None));
        assert_eq!(of("/v1/messages"), (Anthropic, true, false, None));
        assert_eq!(
            of("/v1/messages/count_tokens"),
            (Anthropic, false, false, None)
        );
        assert_eq!(
            of("/v1beta/models/gemini-3-pro:streamGenerateContent"),
            (Gemini, true, false, Some("gemini-3-pro"))
        );
        let listed = Asked::of(&Method::GET, "/v1/chat/completions", &HeaderMap::new());
        assert!(!listed.uses_tokens);
    }
}
