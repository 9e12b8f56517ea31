//! What a call has used, read from an answer's body or from its stream.
//!
//! Every dialect says it in an object `usage` (Gemini: `usageMetadata`), at the top, in `message`
//! (Anthropic's first event) or in `response` (OpenAI's responses). Gemini's streams are a list of such
//! objects where no events are asked for. Where a stream says it several times, a later number takes
//! the place of an earlier one.

use std::sync::LazyLock;

use http::HeaderMap;
use memchr::memmem::{self, Finder};
use serde_json::Value;
use tidegate_core::{Amount, MAX_AMOUNT};

use crate::brought;
use crate::request::Length;
use crate::said::{self, Said};
use crate::surrogate;

/// How the names begin of the members that say it.
const USAGE: &[u8] = b"\"usage";

/// Of the end of a long object so many such members are looked at: the last.
const MOST_NAMED: usize = 16;

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
    /// What a JSON body says of it: an object, or a list of objects, of which the last that says it
    /// counts, also of one that breaks off. Nothing if it is neither, or says nothing.
    #[must_use]
    pub fn of_body(body: &[u8]) -> Self {
        if !mentions(body) {
            return Self::default();
        }
        if !body.trim_ascii_start().starts_with(b"[") {
            return Self::of_said(&said::of(body));
        }
        let mut usage = Self::default();
        said::of_each(body, |said| usage = usage.then(Self::of_said(said)));
        usage
    }

    /// What the end of a long JSON object says of it, or of a list of them, which may begin anywhere in
    /// that; nothing if it says nothing. Of one that breaks off it may say what stands within another value.
    #[must_use]
    pub fn of_end(end: &[u8]) -> Self {
        let end = end.trim_ascii_end();
        // No object ends so.
        let end = end.strip_suffix(b"]").unwrap_or(end);
        let named = memmem::rfind_iter(end, USAGE).take(MOST_NAMED);
        let mut said = named.map(|at| {
            // From the name of a member on, an object's end is one, too, behind its brace. Where the
            // member is another object's within it, there is a brace too many.
            Self::of_body(&[b"{", &end[at..]].concat())
        });
        said.find(Self::is_known).unwrap_or_default()
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

    fn of_said(said: &Said) -> Self {
        let prompt = said.prompt.amount();
        let prompt = prompt.map(|prompt| prompt.saturating_sub(said.cached_within.unwrap_or(0)));
        let answer = said.answer.amount();
        Self {
            input: prompt.map(|prompt| plus(prompt, said.prompt_of_tool)),
            cache_read: said.cached_within.or(said.cached_apart.amount()),
            cache_write: said.cache_written.amount(),
            output: answer
                .map(|answer| plus(answer, said.thoughts))
                .or(said.thoughts),
            reasoning: said.thoughts.or(said.reasoning),
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

/// Whether it is worth reading: a stream says `"usage":null` in each event but the last.
fn mentions(bytes: &[u8]) -> bool {
    static NAMED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(USAGE));
    let mut named = NAMED.find_iter(bytes);
    named.any(|at| {
        let behind = bytes[at..].strip_prefix(b"\"usage\"");
        let value = behind.and_then(|behind| behind.trim_ascii_start().strip_prefix(b":"));
        !value.is_some_and(|value| value.trim_ascii_start().starts_with(b"null"))
    })
}

/// Whether an event is what a stream says last: Anthropic's, and OpenAI's responses. Its type
/// says so; the same word elsewhere in it is the answer's.
fn is_last(data: &[u8]) -> bool {
    const LAST: [&str; 4] = [
        "message_stop",
        "response.completed",
        "response.incomplete",
        "response.failed",
    ];
    static STOP: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"message_stop\""));
    static RESPONSE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"response."));
    if STOP.find(data).is_none() && RESPONSE.find(data).is_none() {
        return false;
    }
    let event =
        serde_json::from_slice::<Value>(data).or_else(|error| match surrogate::mended(data) {
            Some(mended) => serde_json::from_slice(&mended),
            None => Err(error),
        });
    let event = event.unwrap_or_default();
    event["type"]
        .as_str()
        .is_some_and(|kind| LAST.contains(&kind))
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
    /// Of the texts that its events brought.
    length: Length,
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
        self.ended |= data == b"[DONE]" || is_last(data);
        self.usage = self.usage.then(Usage::of_body(data));
        brought::add(data, &mut self.length);
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

    /// How many tokens the answer has had so far, if it does not say: one for each event, or more by
    /// the length of the texts that came, as [`prompt`](crate::Request::prompt) is measured.
    #[must_use]
    pub fn output(&self) -> Amount {
        self.events.max(self.length.tokens())
    }

    /// Whether the stream said that it is complete. (Gemini's does not say so.)
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }
}
