//! A call: what its path, its header `x-sim` and its body ask for.
//!
//! Where a gateway on the way lets no header pass, a wish stands in the body's `user`: `x-sim: gap=10ms`.

use std::str::FromStr;

use serde_json::Value;
use tidegate_core::Span;
use tidegate_policy::parse_duration;

use crate::tool::{self, Tool};

/// In whose words a call and its answer are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// OpenAI's `/chat/completions`.
    Chat,
    /// OpenAI's `/responses`.
    Responses,
    /// OpenAI's `/embeddings`.
    Embeddings,
    /// Anthropic's `/messages`.
    Messages,
    /// Gemini's `:generateContent` and `:streamGenerateContent`.
    Gemini,
}

impl Shape {
    /// Of a path, behind whatever prefix.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        const ENDS: [(&str, Shape); 6] = [
            ("/chat/completions", Shape::Chat),
            ("/responses", Shape::Responses),
            ("/embeddings", Shape::Embeddings),
            ("/messages", Shape::Messages),
            (":generateContent", Shape::Gemini),
            (":streamGenerateContent", Shape::Gemini),
        ];
        let of = ENDS.iter().find(|(end, _)| path.ends_with(end));
        of.map(|(_, shape)| *shape)
    }
}

/// What a test wishes of one answer, in the header `x-sim`: `output=20,cut=5,gap=10ms`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Wish {
    /// `input=N`: the prompt has so many tokens.
    pub input: Option<u64>,
    /// `output=N`: the answer has so many tokens, if its bound allows.
    pub output: Option<u64>,
    /// `cut=N`, `end=N`, `silence=N`, `error=N`: it breaks off after so many tokens.
    pub broken: Option<(u64, Break)>,
    /// `first=TIME`: until the first token.
    pub first: Option<Span>,
    /// `gap=TIME`: between two tokens.
    pub gap: Option<Span>,
    /// `status=CODE`: it fails with that.
    pub status: Option<u16>,
}

/// How an answer breaks off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// The connection is gone.
    Cut,
    /// The body ends as if it were whole.
    End,
    /// Nothing more comes.
    Silence,
    /// An event says that the provider failed; then the body ends.
    Error,
}

impl Break {
    /// As it is called in wishes and settings.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "cut" => Self::Cut,
            "end" => Self::End,
            "silence" => Self::Silence,
            "error" => Self::Error,
            _ => return None,
        })
    }
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut wish = Self::default();
        for part in text.split(',') {
            let (name, value) = part.trim().split_once('=').ok_or_else(|| wrong(part))?;
            let number = || value.parse().map_err(|_| wrong(part));
            match name {
                "input" => wish.input = Some(number()?),
                "output" => wish.output = Some(number()?),
                "first" => wish.first = Some(span(value)?),
                "gap" => wish.gap = Some(span(value)?),
                "status" => {
                    let status = value.parse().ok();
                    let status = status.filter(|status| (400..600).contains(status));
                    wish.status = Some(status.ok_or_else(|| wrong(part))?);
                }
                name => {
                    let how = Break::named(name).ok_or_else(|| wrong(part))?;
                    wish.broken = Some((number()?, how));
                }
            }
        }
        Ok(wish)
    }
}

fn wrong(part: &str) -> String {
    format!(
        "x-sim: `{part}`: write input=N, output=N, cut=N, end=N, silence=N, error=N, first=TIME, \
         gap=TIME or status=400..599"
    )
}

/// A length of time, `0` among them.
///
/// # Errors
/// What to write.
pub fn span(text: &str) -> Result<Span, String> {
    if text
        .trim_start_matches('0')
        .trim_end_matches(['m', 's'])
        .is_empty()
    {
        return Ok(Span::from_micros(0));
    }
    let span = parse_duration(text).map_err(|error| format!("`{text}`: {error}"))?;
    Ok(Span::from_micros(
        u64::try_from(span.as_micros()).unwrap_or(u64::MAX),
    ))
}

/// What is asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// In whose words.
    pub shape: Shape,
    /// The model.
    pub model: String,
    /// How many tokens the prompt has: its texts' length in characters, divided by four and
    /// rounded up, and 3 for each message.
    pub prompt: u64,
    /// How many tokens the answer may have.
    pub bound: Option<u64>,
    /// How many inputs embeddings are wanted of.
    pub inputs: usize,
    /// Whether it is to be a stream.
    pub stream: bool,
    /// Whether a stream of OpenAI's chat is to say its usage.
    pub stream_usage: bool,
    /// The tool that the answer calls.
    pub tool: Option<Tool>,
    /// What a test wishes.
    pub wish: Wish,
}

impl Call {
    /// Reads one.
    ///
    /// # Errors
    /// What the caller is to write instead.
    pub fn read(shape: Shape, path: &str, body: &[u8], wish: Option<&str>) -> Result<Self, String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if !body.is_object() {
            return Err("the body is no JSON object".to_owned());
        }
        let of_user = || body["user"].as_str()?.strip_prefix("x-sim:");
        let wish = wish.or_else(of_user);
        let wish: Wish = wish.map_or(Ok(Wish::default()), str::parse)?;
        if body.get("n").is_some_and(|n| *n != 1) {
            return Err("`n` is 1 here".to_owned());
        }
        let bound = bound(&body)?;
        if shape == Shape::Messages && bound.is_none() {
            return Err("max_tokens: Field required".to_owned());
        }
        let model = match shape {
            Shape::Gemini => of_path(path),
            _ => body["model"].as_str(),
        };
        let model = model.filter(|model| !model.is_empty());
        Ok(Self {
            shape,
            model: model
                .ok_or("you must provide a model parameter")?
                .to_owned(),
            prompt: wish.input.unwrap_or_else(|| tokens(&body)),
            bound: bound.filter(|_| shape != Shape::Embeddings),
            inputs: body["input"].as_array().map_or(1, Vec::len),
            stream: match shape {
                Shape::Embeddings => false,
                Shape::Gemini => path.ends_with(":streamGenerateContent"),
                _ => body["stream"] == true,
            },
            stream_usage: body["stream_options"]["include_usage"] == true,
            tool: tool::wanted(&body),
            wish,
        })
    }
}

fn bound(body: &Value) -> Result<Option<u64>, String> {
    const NAMES: [&str; 4] = [
        "/max_completion_tokens",
        "/max_tokens",
        "/max_output_tokens",
        "/generationConfig/maxOutputTokens",
    ];
    let named = NAMES
        .iter()
        .find_map(|name| Some((name, body.pointer(name)?)));
    let Some((name, value)) = named.filter(|(_, value)| !value.is_null()) else {
        return Ok(None);
    };
    match value.as_u64() {
        Some(bound) if bound > 0 => Ok(Some(bound)),
        _ => Err(format!("`{}` is a number of at least 1", &name[1..])),
    }
}

/// The model of `.../models/MODEL:verb`.
fn of_path(path: &str) -> Option<&str> {
    let (_, model) = path.rsplit_once('/')?;
    model.split_once(':').map(|(model, _)| model)
}

/// What a prompt's tokens are counted in.
const PARTS: [&str; 8] = [
    "messages",
    "input",
    "prompt",
    "system",
    "instructions",
    "contents",
    "systemInstruction",
    "tools",
];

fn tokens(body: &Value) -> u64 {
    let parts = PARTS.iter().filter_map(|part| body.get(part));
    let letters: usize = parts.map(letters).sum();
    let messages = ["messages", "contents"].iter();
    let messages = messages
        .filter_map(|name| body[name].as_array())
        .map(Vec::len);
    (letters.div_ceil(4) + 3 * messages.sum::<usize>()).max(1) as u64
}

/// How many characters its texts have; a number in a list (a token by its number) is four.
fn letters(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.iter().map(letters).sum(),
        Value::Object(members) => members.values().map(letters).sum(),
        Value::Number(_) => 4,
        Value::Null | Value::Bool(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_stands_in_the_header_or_in_the_user_of_a_body() {
        let body = br#"{"model":"m","user":"x-sim: output=3"}"#;
        let read = |wish| {
            Call::read(Shape::Chat, "/", body, wish)
                .unwrap()
                .wish
                .output
        };
        assert_eq!(read(None), Some(3));
        assert_eq!(read(Some("output=4")), Some(4));
    }

    #[test]
    fn a_wish_is_read_and_what_is_none_is_told_what_to_write() {
        let wish: Wish = "output=20, cut=5,first=0ms,gap=10ms,status=529"
            .parse()
            .unwrap();
        let expected = Wish {
            input: None,
            output: Some(20),
            broken: Some((5, Break::Cut)),
            first: Some(Span::from_micros(0)),
            gap: Some(Span::from_millis(10)),
            status: Some(529),
        };
        assert_eq!(wish, expected);
        for text in [
            "",
            "output",
            "output=x",
            "status=200",
            "gap=fast",
            "beans=1",
        ] {
            assert!(text.parse::<Wish>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_body_says_what_it_asks_for() {
        let call = |shape, body: &str| Call::read(shape, "/v1/x", body.as_bytes(), None);
        let chat = call(
            Shape::Chat,
            r#"{"model":"m","messages":[{"role":"user","content":"Hello there"}],
                "max_completion_tokens":9,"stream":true,"stream_options":{"include_usage":true}}"#,
        )
        .unwrap();
        // `user` and the text: 15 characters.
        assert_eq!((chat.prompt, chat.bound), (4 + 3, Some(9)));
        assert!(chat.stream && chat.stream_usage);
        let bad = |shape, body| call(shape, body).unwrap_err();
        assert!(bad(Shape::Chat, "[]").contains("no JSON object"));
        assert!(bad(Shape::Chat, "{}").contains("model"));
        assert!(bad(Shape::Chat, r#"{"model":"m","n":2}"#).contains("`n`"));
        assert!(bad(Shape::Chat, r#"{"model":"m","max_tokens":0}"#).contains("max_tokens"));
        assert!(bad(Shape::Messages, r#"{"model":"m"}"#).contains("max_tokens"));
        let path = "/v1beta/models/gemini-3:streamGenerateContent";
        let gemini = Call::read(Shape::of(path).unwrap(), path, b"{}", None).unwrap();
        assert_eq!((&*gemini.model, gemini.stream), ("gemini-3", true));
    }
}
