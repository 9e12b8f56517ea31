//! An answer as it was decided, before a byte of it is written.

use tidegate_core::Timestamp;

use crate::call::{Break, Shape};
use crate::settings::Pace;
use crate::tool::Tool;

/// What a word of an answer is; a token is a word.
const WORDS: [&str; 8] = ["the", "tide", "rises", "and", "falls", "at", "the", "gate"];

/// So many characters of a tool's arguments are a token.
const FRAGMENT: usize = 4;

/// An answer to an admitted call.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// The number of its call.
    pub id: u64,
    /// When the call came.
    pub created: Timestamp,
    /// In whose words.
    pub shape: Shape,
    /// The model.
    pub model: String,
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens of the answer, if it is not broken off: as many as it has pieces.
    pub tokens: u64,
    /// The bound ended it.
    pub is_bounded: bool,
    /// The tool that it calls, in place of a text.
    pub tool: Option<Tool>,
    /// How many inputs embeddings are wanted of.
    pub inputs: usize,
    /// Whether it is a stream.
    pub stream: bool,
    /// Whether OpenAI's chat says its usage in it.
    pub stream_usage: bool,
    /// How fast it comes.
    pub pace: Pace,
    /// After so many tokens it breaks off.
    pub broken: Option<(u64, Break)>,
}

impl Answer {
    /// When the call came, in seconds since 1970.
    #[must_use]
    pub fn created_seconds(&self) -> i64 {
        self.created.as_micros().div_euclid(1_000_000)
    }

    /// How many pieces the call of a tool has: its name, and its arguments.
    #[must_use]
    pub fn pieces_of_tool(tool: &Tool) -> u64 {
        1 + tool.arguments.chars().count().div_ceil(FRAGMENT) as u64
    }

    /// A token by its number: a word, or a piece of a tool's arguments. The first token of a
    /// tool's call is its name, which is told elsewhere.
    #[must_use]
    pub fn piece(&self, number: u64) -> String {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(tool) = &self.tool {
            let Some(begin) = number.checked_sub(1) else {
                return String::new();
            };
            let letters = tool.arguments.chars().skip(begin.saturating_mul(FRAGMENT));
            return letters.take(FRAGMENT).collect();
        }
        let word = WORDS[number % WORDS.len()];
        match number {
            0 => word.to_owned(),
            _ => format!(" {word}"),
        }
    }

    /// Its first tokens together.
    #[must_use]
    pub fn text(&self, tokens: u64) -> String {
        (0..tokens).map(|number| self.piece(number)).collect()
    }
}
