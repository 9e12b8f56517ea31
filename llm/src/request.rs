//! What a call asks for, read from its body in one pass that keeps nothing of the texts.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use tidegate_core::{Amount, MAX_AMOUNT};

use crate::dialect::Asked;
use crate::surrogate;

/// Longer names of models are cut.
const LONGEST_MODEL: usize = 256;

/// A file has at least so many bytes.
const ATTACHMENT: usize = 1_024;

/// What members are called that files stand in, as base64 alone or as `data:...;base64,`: of OpenAI's,
/// Anthropic's, Gemini's, Bedrock's and Mistral's calls. What stands elsewhere is text.
const FILES: [&str; 11] = [
    "audio_url",
    "bytes",
    "data",
    "document_url",
    "file_data",
    "image",
    "image_url",
    "images",
    "inputImage",
    "input_audio",
    "video_url",
];

/// What stands within a member of [those](FILES), as OpenAI's `"image_url": {"url": ...}`.
const URL: &str = "url";

/// What a file (a picture, a page) counts as; a provider says what it was afterwards.
const TOKENS_OF_ATTACHMENT: u64 = 1_500;

/// What a call asks for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Request {
    /// The model, if the body names it (Gemini's path does).
    pub model: Option<String>,
    /// Whether the answer is to come as a stream.
    pub stream: bool,
    /// Whether the stream is to say its usage at the end (OpenAI's `stream_options`; the others
    /// always do).
    pub stream_usage: bool,
    /// Whether it has options of a stream at all.
    pub has_stream_options: bool,
    /// How many tokens each answer may have, as [its own dialect](Asked::bounded_by) says it: none, of a
    /// call whose [tokens are of the prompt alone](Asked::is_prompt_alone).
    pub max_output: Option<Amount>,
    /// How many answers are wanted: 1 unless it says otherwise.
    pub answers: Amount,
    /// How many tokens the prompt has, by its length: a quarter of its ASCII bytes, one for each
    /// other character and for each number in a list, 1,500 for each file: base64 where files stand
    /// (what looks like one elsewhere is text).
    pub prompt: Amount,
}

/// A body that is no JSON object.
#[derive(Debug)]
pub struct NotJson(serde_json::Error);

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body is no JSON object: {}", self.0)
    }
}

impl std::error::Error for NotJson {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl Request {
    /// Reads the body of a call that asks for that. Members that are not of their type are left out: the provider will say so. Half of
    /// a surrogate pair (`\ud83d` alone), which is no text to Rust, counts as another character.
    ///
    /// # Errors
    /// [`NotJson`].
    pub fn read(asked: &Asked, body: &[u8]) -> Result<Self, NotJson> {
        Self::of(asked, body).or_else(|error| match surrogate::mended(body) {
            Some(mended) => Self::of(asked, &mended),
            None => Err(error),
        })
    }

    fn of(asked: &Asked, body: &[u8]) -> Result<Self, NotJson> {
        let mut reader = serde_json::Deserializer::from_slice(body);
        let request = reader.deserialize_map(Body(asked)).map_err(NotJson)?;
        reader.end().map_err(NotJson)?;
        Ok(request)
    }

    /// The most tokens that its answers can have, if it says so.
    #[must_use]
    pub fn output_bound(&self) -> Option<Amount> {
        let bound = self.max_output?.saturating_mul(self.answers);
        Some(bound.min(MAX_AMOUNT))
    }

    /// How many tokens an answer has of which so many came, by events and lengths. A text may be measured
    /// as longer than it is: [the bound](Self::output_bound) says it better. One that is exceeded by more
    /// than as much again bounds nothing: whoever answers does not read it so.
    #[must_use]
    pub fn bounded(&self, came: Amount) -> Amount {
        match self.output_bound() {
            Some(bound) if came <= bound.saturating_mul(2) => came.min(bound),
            _ => came,
        }
    }
}

struct Body<'a>(&'a Asked);

impl<'de> Visitor<'de> for Body<'_> {
    type Value = Request;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Request, A::Error> {
        let mut request = Request {
            answers: 1,
            ..Request::default()
        };
        let mut length = Length::default();
        while let Some(member) = members.next_key::<String>()? {
            match member.as_str() {
                "model" => request.model = members.next_value::<Known>()?.text,
                "stream" => request.stream = members.next_value::<Known>()?.is_true,
                "stream_options" => {
                    request.has_stream_options = true;
                    request.stream_usage = members.next_value::<Known>()?.includes_usage;
                }
                "max_tokens"
                | "max_completion_tokens"
                | "max_output_tokens"
                | "generationConfig"
                | "generation_config"
                | "inferenceConfig" => {
                    let known = members.next_value::<Known>()?;
                    if self.0.bounded_by.contains(&&*member) {
                        request.bound(known.bound(&member));
                    }
                }
                "n" => {
                    let answers = members.next_value::<Known>()?.amount;
                    request.answers = answers.unwrap_or(1).max(1);
                }
                "metadata" | "user" | "safety_identifier" | "prompt_cache_key" => {
                    members.next_value::<IgnoredAny>()?;
                }
                name => {
                    let is_file = FILES.contains(&name);
                    let length = &mut length;
                    members.next_value_seed(Measure { length, is_file })?;
                }
            }
        }
        request.prompt = length.tokens();
        if self.0.is_prompt_alone {
            request.max_output = Some(0);
        }
        Ok(request)
    }
}

impl Request {
    /// Of two bounds the smaller counts.
    fn bound(&mut self, bound: Option<Amount>) {
        let smaller = |known: Amount| bound.map_or(known, |bound| bound.min(known));
        self.max_output = self.max_output.map(smaller).or(bound);
    }
}

/// A value, as far as it is of one of the types that are looked for. Nothing else of it is kept: a
/// list of millions takes no memory.
#[derive(Default)]
pub(super) struct Known {
    text: Option<String>,
    pub(super) amount: Option<Amount>,
    is_true: bool,
    /// Of an object: its `include_usage`.
    includes_usage: bool,
    /// Of an object: its `maxOutputTokens`, as Gemini's.
    max_output_tokens: Option<Amount>,
    /// Of an object: its `maxTokens`, as Bedrock's.
    max_tokens: Option<Amount>,
}

impl Known {
    /// The bound on an answer that it is, of a member with that name.
    fn bound(&self, member: &str) -> Option<Amount> {
        match member {
            "generationConfig" | "generation_config" => self.max_output_tokens,
            "inferenceConfig" => self.max_tokens,
            _ => self.amount,
        }
    }
}

impl<'de> Deserialize<'de> for Known {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = Known;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Known, E> {
        Ok(Known {
            text: Some(text.chars().take(LONGEST_MODEL).collect()),
            ..Known::default()
        })
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Known, E> {
        Ok(Known {
            is_true,
            ..Known::default()
        })
    }

    fn visit_u64<E>(self, amount: u64) -> Result<Known, E> {
        Ok(Known {
            amount: Some(amount).filter(|amount| *amount <= MAX_AMOUNT),
            ..Known::default()
        })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Known, E> {
        Ok(Known::default())
    }

    /// A whole number that is written as `100.0` is one.
    fn visit_f64<E>(self, amount: f64) -> Result<Known, E> {
        let is_amount = amount.fract() == 0.0 && (0.0..=MAX_AMOUNT as f64).contains(&amount);
        Ok(Known {
            amount: is_amount.then_some(amount as Amount),
            ..Known::default()
        })
    }

    fn visit_unit<E>(self) -> Result<Known, E> {
        Ok(Known::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Known, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Known::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Known, A::Error> {
        let mut known = Known::default();
        while let Some(member) = members.next_key::<String>()? {
            match member.as_str() {
                "include_usage" => known.includes_usage = members.next_value::<Known>()?.is_true,
                "maxOutputTokens" | "max_output_tokens" => {
                    known.max_output_tokens = members.next_value::<Known>()?.amount;
                }
                "maxTokens" => known.max_tokens = members.next_value::<Known>()?.amount,
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(known)
    }
}

/// How long the texts of a body are.
#[derive(Clone, Default, Debug)]
pub(super) struct Length {
    ascii: u64,
    other: u64,
    attachments: u64,
}

impl Length {
    /// What stands where files do, which a text may, too.
    fn add_file(&mut self, text: &str) {
        match text.len() >= ATTACHMENT && is_base64(behind_data(text).unwrap_or(text)) {
            true => self.attachments += 1,
            false => self.add(text),
        }
    }

    /// A text.
    pub(super) fn add(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let ascii = bytes.iter().filter(|byte| byte.is_ascii()).count();
        let all = text.chars().count();
        self.ascii += ascii as u64;
        self.other += (all - ascii) as u64;
    }

    /// How many tokens that is.
    pub(super) fn tokens(&self) -> Amount {
        let files = self.attachments.saturating_mul(TOKENS_OF_ATTACHMENT);
        (self.ascii.div_ceil(4) + self.other)
            .saturating_add(files)
            .min(MAX_AMOUNT)
    }
}

/// What stands behind `data:...;base64,`.
fn behind_data(text: &str) -> Option<&str> {
    let (head, data) = text.strip_prefix("data:")?.split_once(',')?;
    head.ends_with(";base64").then_some(data)
}

/// Of either alphabet (RFC 4648). Pieces are looked at without a branch for each byte.
fn is_base64(text: &str) -> bool {
    let is_digit =
        |byte: u8| byte.is_ascii_alphanumeric() | matches!(byte, b'+' | b'/' | b'-' | b'_');
    let text = text.trim_end_matches('=').as_bytes();
    let mut pieces = text.chunks(64);
    pieces.all(|piece| piece.iter().fold(true, |all, byte| all & is_digit(*byte)))
}

/// Measures whatever stands there.
struct Measure<'l> {
    length: &'l mut Length,
    /// Files stand there.
    is_file: bool,
}

impl<'de> DeserializeSeed<'de> for Measure<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Measure<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        match self.is_file {
            true => self.length.add_file(text),
            false => self.length.add(text),
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.length.other += 1;
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.length.other += 1;
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.length.other += 1;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Measure { length, is_file } = self;
        while items
            .next_element_seed(Measure { length, is_file })?
            .is_some()
        {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Measure { length, is_file } = self;
        let is_within = is_file;
        while let Some(is_file) = members.next_key_seed(Name { length, is_within })? {
            members.next_value_seed(Measure { length, is_file })?;
        }
        Ok(())
    }
}

/// Measures a member's name; whether files stand behind it.
struct Name<'l> {
    length: &'l mut Length,
    /// Whether files stand behind the name of what it is a member of.
    is_within: bool,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        self.length.add(name);
        Ok(FILES.contains(&name) || self.is_within && name == URL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, Method};
    use proptest::prelude::*;

    const CHAT: &str = "/v1/chat/completions";

    fn try_read(path: &str, body: &[u8]) -> Result<Request, NotJson> {
        Request::read(&Asked::of(&Method::POST, path, &HeaderMap::new()), body)
    }

    fn read_at(path: &str, body: &str) -> Request {
        try_read(path, body.as_bytes()).unwrap()
    }

    fn read(body: &str) -> Request {
        read_at(CHAT, body)
    }

    #[test]
    fn the_bodies_of_every_dialect_say_what_they_ask_for() {
        let chat = read(
            r#"{"model":"gpt-5","messages":[{"role":"user","content":"Hello there"}],
               "stream":true,"stream_options":{"include_usage":true},
               "max_tokens":900,"max_completion_tokens":500,"n":2,"temperature":0.5}"#,
        );
        assert_eq!(chat.model.as_deref(), Some("gpt-5"));
        assert!(chat.stream && chat.stream_usage);
        assert_eq!(chat.output_bound(), Some(1_000));
        // role, user, content and the text: 26 bytes; and a number.
        assert_eq!(chat.prompt, 8);
        let claude = read_at(
            "/v1/messages",
            r#"{"model":"claude","max_tokens":1024,"system":"Be brief.","messages":[]}"#,
        );
        assert_eq!((claude.output_bound(), claude.prompt), (Some(1_024), 3));
        let gemini = read_at(
            "/v1beta/models/m:generateContent",
            r#"{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":64}}"#,
        );
        assert_eq!(
            (gemini.model.as_deref(), gemini.output_bound()),
            (None, Some(64))
        );
        let converse = read_at(
            "/model/m/converse",
            r#"{"messages":[],"inferenceConfig":{"maxTokens":7}}"#,
        );
        assert_eq!((converse.output_bound(), converse.answers), (Some(7), 1));
    }

    /// The smallest of them all was taken, whoever's call it was: a provider leaves out what it does not
    /// know.
    #[test]
    fn a_bound_counts_in_its_own_dialect_alone() {
        let all = r#"{"max_tokens":1,"max_completion_tokens":2,"max_output_tokens":3,
            "generationConfig":{"maxOutputTokens":4,"maxTokens":0},"inferenceConfig":{"maxTokens":5,"maxOutputTokens":0}}"#;
        for (path, bound) in [
            (CHAT, 1),
            ("/v1/messages", 1),
            ("/v1/responses", 3),
            ("/v1/embeddings", 0),
            ("/v1beta/models/m:streamGenerateContent", 4),
            ("/v1beta/models/m:embedContent", 0),
            (
                "/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict",
                1,
            ),
            ("/model/m/converse", 5),
            ("/model/m/converse-stream", 5),
            ("/model/m/invoke", 1),
        ] {
            assert_eq!(read_at(path, all).output_bound(), Some(bound), "{path}");
        }
        let of_others = r#"{"max_output_tokens":3,"generationConfig":{"maxOutputTokens":4}}"#;
        assert_eq!(read(of_others).output_bound(), None);
    }

    #[test]
    fn what_came_is_within_a_bound_that_it_does_not_refute() {
        let call = read(r#"{"max_tokens":40}"#);
        for (came, is) in [(0, 0), (40, 40), (43, 40), (80, 40), (81, 81)] {
            assert_eq!(call.bounded(came), is, "{came}");
        }
        assert_eq!(read("{}").bounded(43), 43);
    }

    #[test]
    fn a_file_is_not_measured_by_its_bytes_and_other_scripts_are_by_their_characters() {
        let file = "QUJD".repeat(100_000);
        let picture = format!(r#"{{"input":[{{"image_url":"data:image/png;base64,{file}"}}]}}"#);
        assert_eq!(read(&picture).prompt, 1_500 + 3);
        assert_eq!(read(r#"{"input":"潮の門"}"#).prompt, 3);
        assert_eq!(read(r#"{"input":[[1,2,3],[4]]}"#).prompt, 4);
    }

    /// Compact JSON of half a megabyte was taken for a file of 1,500 tokens.
    #[test]
    fn a_text_without_spaces_is_measured_and_a_file_is_told_by_where_it_stands() {
        let json = r#"{\"a\":[1,2],\"b\":\"c\"},"#.repeat(20_000);
        let compact = read(&format!(r#"{{"messages":[{{"content":"[{json}]"}}]}}"#));
        assert!(compact.prompt >= 100_000, "{}", compact.prompt);
        let file = "QUJD".repeat(10_000);
        let measured = |value: &str| read(&format!(r#"{{"messages":[{value}]}}"#)).prompt >= 10_000;
        for text in [
            format!(r#"{{"content":"{file}"}}"#),
            format!(r#"{{"data":"{file}, and a text"}}"#),
            format!(r#"{{"image_url":"https://example.com/{file}?a=b"}}"#),
            format!(r#"{{"data":{{"text":"{file}"}}}}"#),
            format!(r#"{{"content":"data:text/plain;base64,{file}"}}"#),
            format!(r#"{{"text":"data:image/png;base64,{file}"}}"#),
            format!(r#"{{"url":"data:image/png;base64,{file}"}}"#),
        ] {
            assert!(measured(&text), "{}", &text[..40]);
        }
        for file in [
            format!(r#"{{"image_url":{{"url":"data:image/png;base64,{file}"}}}}"#),
            format!(r#"{{"source":{{"type":"base64","data":"{file}=="}}}}"#),
            format!(r#"{{"inlineData":{{"mimeType":"image/png","data":"{file}"}}}}"#),
            format!(r#"{{"file":{{"file_data":"data:application/pdf;base64,{file}"}}}}"#),
            format!(r#"{{"image":{{"source":{{"bytes":"{file}"}}}}}}"#),
            format!(r#"{{"images":["{file}","{file}"]}}"#),
            format!(r#"{{"document_url":"data:application/pdf;base64,{file}"}}"#),
            format!(r#"{{"video_url":{{"url":"data:video/mp4;base64,{file}"}}}}"#),
            format!(r#"{{"input_audio":"{file}-_"}}"#),
        ] {
            assert!(!measured(&file), "{}", &file[..40]);
        }
    }

    /// Such a body was refused, though providers take it.
    #[test]
    fn half_of_a_surrogate_pair_counts_as_a_character() {
        let call = |text: &str| read(&format!(r#"{{"model":"m","input":"{text}"}}"#));
        let odd = call(r"\ud83d\ud83d\ude00 \ude00\\ud800");
        assert_eq!(odd.model.as_deref(), Some("m"));
        assert_eq!(odd, call(r"\ufffd\ud83d\ude00 \ufffd\\ud800"));
        assert!(try_read(CHAT, br#"{"a":"\ud83d"#).is_err());
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction() {
        let bound = |bound: &str| read(&format!(r#"{{"max_tokens":{bound}}}"#)).max_output;
        assert_eq!(bound("100.0"), Some(100));
        assert_eq!(bound("1e2"), Some(100));
        for none in ["100.5", "-1.0", "9007199254740992.0", "1e300"] {
            assert_eq!(bound(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_not_of_its_type_is_left_out() {
        let odd = read(
            r#"{"model":[7,{"a":null}],"stream":"yes","max_tokens":-1,"n":0,"stream_options":[1.5],
               "generationConfig":{"maxOutputTokens":{"a":[]},"other":[true]}}"#,
        );
        let nothing = Request {
            answers: 1,
            has_stream_options: true,
            ..Request::default()
        };
        assert_eq!(odd, nothing);
        for body in ["", "[]", "{", "{}x", "\"text\"", "{\"a\":1e999}"] {
            assert!(try_read(CHAT, body.as_bytes()).is_err(), "{body}");
        }
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert!(try_read(CHAT, deep.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = try_read(CHAT, &body);
        }
    }
}
