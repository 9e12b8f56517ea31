//! What a call has used, read from an answer's body or from its stream.
//!
//! Every dialect says it in an object `usage` (Gemini: `usageMetadata`), at the top, in `message`
//! (Anthropic's first event) or in `response` (OpenAI's responses). Where a stream says it several
//! times, a later number takes the place of an earlier one.

use http::HeaderMap;
use memchr::memmem;
use serde_json::Value;
use tidegate_core::{Amount, MAX_AMOUNT};

/// A line of a stream that is longer is not read.
pub const LONGEST_LINE: usize = 1024 * 1024;

/// Tokens of a call. `None` where nobody has said it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Of the prompt, without those that came out of a cache or went into one.
    pub input: Option<Amount>,
    /// Of the prompt, out of a cache.
    pub cache_read: Option<Amount>,
    /// Of the prompt, written into a cache.
    pub cache_write: Option<Amount>,
    /// Of the answer, those of reasoning included.
    pub output: Option<Amount>,
    /// Of the answer, those of reasoning.
    pub reasoning: Option<Amount>,
}

impl Usage {
    /// What a JSON body says of it; nothing if it is none, or says nothing.
    #[must_use]
    pub fn of_body(body: &[u8]) -> Self {
        if !mentions(body) {
            return Self::default();
        }
        serde_json::from_slice(body).map_or_else(|_| Self::default(), |body| Self::of(&body))
    }

    /// What Bedrock's headers say of it.
    #[must_use]
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let of = |name: &str| {
            let value = headers.get(name)?.to_str().ok()?.parse().ok()?;
            (value <= MAX_AMOUNT).then_some(value)
        };
        Self {
            input: of("x-amzn-bedrock-input-token-count"),
            output: of("x-amzn-bedrock-output-token-count"),
            cache_read: of("x-amzn-bedrock-cache-read-input-token-count"),
            cache_write: of("x-amzn-bedrock-cache-write-input-token-count"),
            reasoning: None,
        }
    }

    fn of(body: &Value) -> Self {
        const PLACES: [&str; 4] = [
            "/usage",
            "/message/usage",
            "/response/usage",
            "/usageMetadata",
        ];
        let found = PLACES.iter().find_map(|place| body.pointer(place));
        found.map_or_else(Self::default, |usage| Self::of_object(&Object(usage)))
    }

    fn of_object(usage: &Object<'_>) -> Self {
        // Anthropic and Bedrock count what came out of a cache apart; OpenAI and Gemini within.
        let within = usage.first(&[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/cachedContentTokenCount",
        ]);
        let apart = usage.first(&["/cache_read_input_tokens", "/cacheReadInputTokens"]);
        let prompt = usage.first(&[
            "/prompt_tokens",
            "/input_tokens",
            "/promptTokenCount",
            "/inputTokens",
        ]);
        let answer = usage.first(&[
            "/completion_tokens",
            "/output_tokens",
            "/candidatesTokenCount",
            "/outputTokens",
        ]);
        // Gemini counts its thoughts beside the answer, and a tool's prompts beside the prompt.
        let thoughts = usage.amount("/thoughtsTokenCount");
        Self {
            input: prompt
                .map(|prompt| prompt.saturating_sub(within.unwrap_or(0)))
                .map(|prompt| plus(prompt, usage.amount("/toolUsePromptTokenCount"))),
            cache_read: within.or(apart),
            cache_write: usage.first(&["/cache_creation_input_tokens", "/cacheWriteInputTokens"]),
            output: answer.map(|answer| plus(answer, thoughts)).or(thoughts),
            reasoning: thoughts.or(usage.first(&[
                "/completion_tokens_details/reasoning_tokens",
                "/output_tokens_details/reasoning_tokens",
            ])),
        }
    }

    /// What `later` says takes the place of what was said before.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        Self {
            input: later.input.or(self.input),
            cache_read: later.cache_read.or(self.cache_read),
            cache_write: later.cache_write.or(self.cache_write),
            output: later.output.or(self.output),
            reasoning: later.reasoning.or(self.reasoning),
        }
    }

    /// Whether anything was said.
    #[must_use]
    pub fn is_known(&self) -> bool {
        *self != Self::default()
    }

    /// Tokens of the prompt, cached or not.
    #[must_use]
    pub fn prompt(&self) -> Amount {
        let parts = [self.input, self.cache_read, self.cache_write];
        parts.into_iter().fold(0, plus)
    }

    /// Tokens of prompt and answer.
    #[must_use]
    pub fn total(&self) -> Amount {
        plus(self.prompt(), self.output)
    }
}

fn plus(sum: Amount, more: Option<Amount>) -> Amount {
    sum.saturating_add(more.unwrap_or(0)).min(MAX_AMOUNT)
}

/// Whether it is worth reading.
fn mentions(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"\"usage").is_some()
}

/// What a stream says last: Anthropic's, and OpenAI's responses.
const LAST: [&[u8]; 4] = [
    b"\"message_stop\"",
    b"\"response.completed\"",
    b"\"response.incomplete\"",
    b"\"response.failed\"",
];

/// An object that may have anything in it.
struct Object<'v>(&'v Value);

impl Object<'_> {
    fn amount(&self, pointer: &str) -> Option<Amount> {
        let amount = self.0.pointer(pointer)?.as_u64()?;
        (amount <= MAX_AMOUNT).then_some(amount)
    }

    fn first(&self, pointers: &[&str]) -> Option<Amount> {
        pointers.iter().find_map(|pointer| self.amount(pointer))
    }
}

/// Reads a stream of server-sent events as it passes by, and keeps what it says of usage. Its
/// memory is bounded by [`LONGEST_LINE`]; a chunk may end anywhere.
#[derive(Clone, Default, Debug)]
pub struct StreamReader {
    usage: Usage,
    line: Vec<u8>,
    /// The line that is being read is too long.
    skips: bool,
    events: u64,
    ended: bool,
}

impl StreamReader {
    /// A reader at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads on.
    pub fn read(&mut self, mut chunk: &[u8]) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', chunk) {
            let (line, rest) = chunk.split_at(end);
            if self.line.is_empty() && !self.skips {
                self.line(line);
            } else {
                self.keep(line);
                let whole = std::mem::take(&mut self.line);
                if !std::mem::take(&mut self.skips) {
                    self.line(&whole);
                }
            }
            chunk = &rest[1..];
        }
        self.keep(chunk);
    }

    /// Keeps a part of a line until its end comes.
    fn keep(&mut self, part: &[u8]) {
        if self.skips || self.line.len() + part.len() > LONGEST_LINE {
            self.skips = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:") else {
            return;
        };
        self.events += 1;
        let data = data.trim_ascii();
        self.ended |=
            data == b"[DONE]" || LAST.iter().any(|last| memmem::find(data, last).is_some());
        self.usage = self.usage.then(Usage::of_body(data));
    }

    /// What it has said so far.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// How many events came.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Whether the stream said that it is complete. (Gemini's does not say so.)
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }
}
