//! What a client asks for, and when it leaves.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::http::{self, Leaves};
use crate::provider::PRICE;

/// As a gateway measures the prompt below, and as the provider counts it: what is reserved for a
/// prompt is what it uses.
const PROMPT_TOKENS: u64 = 21;
const PROMPT: &str = "What is the tide doing today, and why does it wait for no one at all?";

/// The bound that calls name, where they do.
const BOUND: u64 = 32;

/// The longest answer of those that name none.
pub const LONGEST: u64 = 64;

/// The most that a gateway takes an answer for whose call names no bound: where it knows of none, or
/// of short ones alone.
const UNBOUNDED: u64 = 512;

/// What calls are like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Habits {
    /// Whether calls name a bound on their answer.
    pub bounded: bool,
    /// Whether some clients leave before they have their answer.
    pub leave: bool,
}

/// One call: what is sent, and when its client leaves.
#[derive(Clone, Debug)]
pub struct Call {
    /// Everything but the fields that name its key.
    stream: bool,
    bounded: bool,
    output: u64,
    /// When its client leaves.
    pub leaves: Leaves,
}

impl Call {
    /// Drawn by its number.
    #[must_use]
    pub fn draw(number: u64, habits: Habits) -> Self {
        let mut random = StdRng::seed_from_u64(number);
        let stream = random.random_bool(0.5);
        let longest = if habits.bounded { BOUND } else { LONGEST };
        let leaves = match random.random_range(0..10) {
            0 | 1 if habits.leave => {
                Leaves::After(Duration::from_millis(random.random_range(1..40)))
            }
            2 | 3 if habits.leave && stream => Leaves::AtByte(random.random_range(200..6_000)),
            _ => Leaves::Never,
        };
        Self {
            stream,
            bounded: habits.bounded,
            output: random.random_range(1..=longest),
            leaves,
        }
    }

    /// The most that is reserved for it, in millionths of a dollar.
    #[must_use]
    pub const fn reserved(&self) -> u64 {
        let answer = if self.bounded { BOUND } else { UNBOUNDED };
        PROMPT_TOKENS * PRICE.0 + answer * PRICE.1
    }

    /// As it is sent.
    #[must_use]
    pub fn request(&self, fields: &[(&'static str, String)]) -> String {
        let wish = format!("input={PROMPT_TOKENS},output={}", self.output);
        let mut all = vec![("x-sim", &*wish)];
        all.extend(fields.iter().map(|(name, value)| (*name, &**value)));
        let bound = match self.bounded {
            true => format!(r#""max_tokens":{BOUND},"#),
            false => String::new(),
        };
        let body = format!(
            r#"{{"model":"m",{bound}"stream":{},"messages":[{{"role":"user","content":"{PROMPT}"}}]}}"#,
            self.stream
        );
        http::request("POST", "/v1/chat/completions", &all, &body)
    }
}
