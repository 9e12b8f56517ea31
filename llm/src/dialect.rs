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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Whose words.
    pub dialect: Dialect,
    /// Whether it uses tokens: then its body is read.
    pub uses_tokens: bool,
    /// Whether it uses none, and changes nothing: it reads, or counts what a prompt would use.
    pub only_reads: bool,
    /// Whether a stream says its usage only if asked to: OpenAI's chat and completions.
    pub asks_for_usage: bool,
    /// Whether tokens are of the prompt alone: embeddings.
    pub is_prompt_alone: bool,
    /// What the members of its body are called that say how many tokens an answer may have; the others of
    /// such names are another dialect's, and bound nothing.
    pub bounded_by: &'static [&'static str],
    /// The model, where the path names it.
    pub model: Option<String>,
}

/// The ends of paths whose calls use tokens, whoever's words the headers are in, each with what
/// [bounds](Asked::bounded_by) such a call.
const USES_TOKENS: [(&str, &[&str]); 8] = [
    ("/messages", &["max_tokens"]),
    ("/completions", &["max_tokens", "max_completion_tokens"]),
    ("/responses", &["max_output_tokens"]),
    ("/embeddings", &[]),
    ("/converse", &["inferenceConfig"]),
    ("/converse-stream", &["inferenceConfig"]),
    ("/invoke", OF_A_MODEL),
    ("/invoke-with-response-stream", OF_A_MODEL),
];

/// Bedrock's models, and those of Vertex that are called raw, have a dialect each.
const OF_A_MODEL: &[&str] = &["max_tokens", "max_completion_tokens", "inferenceConfig"];

impl Asked {
    /// What a [`plain`] path with this method and these headers asks for.
    #[must_use]
    pub fn of(method: &Method, path: &str, headers: &HeaderMap) -> Self {
        let makes = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let lower = path.to_ascii_lowercase();
        if let Some((model, verb)) = of_gemini(path, &lower) {
            let verb = verb.to_ascii_lowercase();
            let counts = verb == "counttokens";
            return Self {
                dialect: Dialect::Gemini,
                uses_tokens: makes && !counts,
                only_reads: reads || counts,
                asks_for_usage: false,
                is_prompt_alone: verb.contains("embed"),
                // Vertex hands a raw call to a publisher's model as it is: to Claude, for one.
                bounded_by: match verb.ends_with("rawpredict") {
                    true => OF_A_MODEL,
                    false => &["generationConfig", "generation_config"],
                },
                model: Some(model.to_owned()),
            };
        }
        let ends = |ends: &[&str]| ends.iter().any(|end| lower.ends_with(end));
        let mut use_tokens = USES_TOKENS.iter();
        let uses = use_tokens.find(|(end, _)| lower.ends_with(end));
        let is_anthropic = lower.contains("/messages") || headers.contains_key("anthropic-version");
        Self {
            dialect: match is_anthropic {
                true => Dialect::Anthropic,
                false => Dialect::OpenAi,
            },
            uses_tokens: makes && uses.is_some(),
            only_reads: reads || ends(&["/count_tokens"]),
            asks_for_usage: ends(&["/completions"]),
            is_prompt_alone: ends(&["/embeddings"]),
            bounded_by: uses.map_or(&[], |(_, bounded_by)| *bounded_by),
            model: of_azure(path, &lower).or_else(|| of_bedrock(path, &lower)),
        }
    }
}

/// What stands in a path behind that name, in whatever letters that is written; `lower` is the path in
/// small ones.
fn behind<'p>(path: &'p str, lower: &str, name: &str) -> Option<&'p str> {
    let at = lower.find(name)?;
    path.get(at + name.len()..)
}

/// `models/MODEL:verb`, `tunedModels/MODEL:verb`.
fn of_gemini<'p>(path: &'p str, lower: &str) -> Option<(&'p str, &'p str)> {
    let of = |name| behind(path, lower, name);
    let model = of("/models/").or_else(|| of("/tunedmodels/"))?;
    model.split_once(':')
}

/// `model/MODEL/converse`, where the model may be the name of a profile with a slash in it.
fn of_bedrock(path: &str, lower: &str) -> Option<String> {
    let (model, _) = behind(path, lower, "/model/")?.rsplit_once('/')?;
    Some(model.to_owned())
}

/// `deployments/NAME/...`.
fn of_azure(path: &str, lower: &str) -> Option<String> {
    let (name, _) = behind(path, lower, "/deployments/")?.split_once('/')?;
    Some(name.to_owned())
}

/// Whether calls of this method are forwarded. CONNECT makes a tunnel, and what TRACE is answered may
/// have the upstream's credential; in small letters it is another method to some, and the same to others.
#[must_use]
pub fn passes(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET
            | Method::HEAD
            | Method::OPTIONS
            | Method::POST
            | Method::PUT
            | Method::PATCH
            | Method::DELETE
    )
}

/// A path as its receiver may read it: without `%xx`, empty names and a slash at the end. `None`
/// of one that goes up or stays (`..`, `.`), is no text, or has a character that some take for a
/// slash or an end, leave out, or decode once more: what it asks for cannot be told.
#[must_use]
pub fn plain(path: &str) -> Option<String> {
    let path = decoded(path)?;
    let is_unclear =
        |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\\' | ';' | '?' | '#' | '%');
    if path.contains(is_unclear) {
        return None;
    }
    let mut plain = String::with_capacity(path.len());
    for name in path.split('/').filter(|name| !name.is_empty()) {
        if matches!(name, "." | "..") {
            return None;
        }
        plain.push('/');
        plain.push_str(name);
    }
    Some(plain)
}

/// Each `%xx` as the byte that it stands for.
fn decoded(path: &str) -> Option<String> {
    let mut parts = path.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
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
            (OpenAi, true, true, Some("d".to_owned()))
        );
        assert_eq!(of("/v1/responses"), (OpenAi, true, false, None));
        assert_eq!(of("/v1/embeddings"), (OpenAi, true, false, None));
        for counts_as_a_call in [
            "/v1/files",
            "/v1/batches",
            "/v1/images/generations",
            "/v1/audio/speech",
            "/v1/videos",
            "/v1/responses/compact",
            "/v1/conversations",
        ] {
            assert_eq!(of(counts_as_a_call), (OpenAi, false, false, None));
        }
        let batches = of("/v1/messages/batches");
        assert_eq!(batches, (Anthropic, false, false, None));
        assert_eq!(of("/v1/messages"), (Anthropic, true, false, None));
        assert_eq!(
            of("/v1/messages/count_tokens"),
            (Anthropic, false, false, None)
        );
        assert_eq!(
            of("/v1beta/models/gemini-3-pro:streamGenerateContent"),
            (Gemini, true, false, Some("gemini-3-pro".to_owned()))
        );
        let listed = Asked::of(&Method::GET, "/v1/chat/completions", &HeaderMap::new());
        assert!(!listed.uses_tokens);
    }
    #[test]
    fn no_header_and_no_spelling_of_a_path_takes_its_tokens_away() {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", "2023-06-01".parse().unwrap());
        for path in [
            "/v1/chat/completions",
            "/v1/chat/completions/",
            "//v1//chat/completions",
            "/v1/chat/completion%73",
            "/v1/chat%2Fcompletions",
            "/V1/Chat/Completions",
            "/v1/messages/",
            "/v1beta/models/m%3AgenerateContent",
            "/v1beta/tunedModels/m:generateContent",
            "/V1Beta/Models/m:GenerateContent",
            "/v1beta/models/m:countTokens:generateContent",
            "/v1/models/m:countTokens/chat/completions",
            "/model/anthropic.claude%3A0/converse",
            "/model/m/invoke",
        ] {
            let plain = plain(path).unwrap();
            for headers in [&HeaderMap::new(), &headers] {
                assert!(
                    Asked::of(&Method::POST, &plain, headers).uses_tokens,
                    "{path}"
                );
            }
        }
        for path in [
            "/v1/messages/../chat/completions",
            "/./v1",
            "/%2e%2E/v1",
            "/%zz",
            "/%+1",
            "/%ff",
            "/v1/chat\\completions",
            "/v1/chat%5ccompletions",
            "/v1/chat/completions;a=b",
            "/v1/chat/completions%3Ba",
            "/v1/chat/completions%00",
            "/v1/chat/completions%20",
            "/v1/chat/completions%c2%a0",
            "/v1/chat/completions%3F",
            "/v1/chat/completions%23",
            "/v1/chat/completion%2573",
        ] {
            assert_eq!(plain(path), None, "{path}");
        }
        let model = |path| {
            let path = plain(path).unwrap();
            Asked::of(&Method::POST, &path, &HeaderMap::new()).model
        };
        assert_eq!(
            model("/v1beta/models/gemini%2D3:generateContent").as_deref(),
            Some("gemini-3")
        );
        assert_eq!(
            model("/OpenAI/Deployments/gpt-5/chat/completions").as_deref(),
            Some("gpt-5")
        );
        let arn = "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-x";
        for path in [
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.anthropic.claude-x/converse",
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.anthropic.claude-x/invoke-with-response-stream",
        ] {
            assert_eq!(model(path).as_deref(), Some(arn));
        }
        assert_eq!(
            model("/model/anthropic.claude%3A0/converse").as_deref(),
            Some("anthropic.claude:0")
        );
    }
}
