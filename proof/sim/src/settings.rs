//! What a provider is like.

use std::ops::RangeInclusive;

use tidegate_core::Span;
use tidegate_llm::Provider;

use crate::call::Break;
use crate::limit::Limit;

/// What a provider is like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose headers are told.
    pub dialect: Provider,
    /// What is enforced, of each account.
    pub limits: Vec<Limit>,
    /// Capacities that change under way.
    pub changes: Vec<Change>,
    /// What is charged when.
    pub charging: Charging,
    /// Whether a refused call counts against limits on requests, as it does at OpenAI.
    pub counts_refused: bool,
    /// How headers are told.
    pub headers: Headers,
    /// What goes wrong.
    pub faults: Faults,
    /// How fast answers come.
    pub pace: Pace,
    /// So many answers at once come at that pace; of more, each is as much slower as there are more
    /// of them. 0: any number.
    pub slots: u64,
    /// So many answers at once at most, of all accounts: it has no room for more (529 at Anthropic,
    /// 503 elsewhere). 0: any number.
    pub most_at_once: u64,
    /// Other paces and slots, from some instant on each, in order of time.
    pub serving: Vec<Serving>,
    /// Each answer is faster or slower by chance, by up to that share of its time: from 0 to 1.
    pub jitter: f64,
    /// How many tokens an answer has that no bound ends.
    pub output: RangeInclusive<u64>,
    /// The price of a million tokens of prompt and of answer, in millionths.
    pub price: (u64, u64),
    /// An account has so much to spend, in millionths.
    pub spend_cap: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(Provider::OpenAi)
    }
}

impl Settings {
    /// A provider without limits and without faults.
    #[must_use]
    pub fn of(dialect: Provider) -> Self {
        Self {
            dialect,
            limits: Vec::new(),
            changes: Vec::new(),
            charging: Charging::of(dialect),
            counts_refused: false,
            headers: Headers::of(dialect),
            faults: Faults::default(),
            pace: Pace::default(),
            slots: 0,
            most_at_once: 0,
            serving: Vec::new(),
            jitter: 0.0,
            output: 8..=64,
            price: (0, 0),
            spend_cap: None,
        }
    }
}

/// From an instant on, a limit has another capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// So long after the beginning.
    pub after: Span,
    /// The limit of this unit and period has this capacity.
    pub limit: Limit,
}

/// From an instant on, calls that come are served so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Serving {
    /// So long after the beginning.
    pub after: Span,
    /// As [`Settings::slots`].
    pub slots: u64,
    /// As [`Settings::pace`].
    pub pace: Pace,
}

/// What of a call's tokens is charged when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charging {
    /// At the start the larger of prompt and bound; nothing afterwards, but what comes of an
    /// answer without a bound (OpenAI).
    Larger,
    /// At the start the prompt and the bound; nothing afterwards, but what comes of an answer
    /// without a bound (Azure and most others).
    Sum,
    /// At the start the prompt; of the answer what comes, as it comes (Anthropic, Gemini).
    Used,
    /// At the start the prompt and the bound; at the end what was not used comes back (Bedrock).
    Settled,
}

impl Charging {
    /// How a provider charges, as far as it tells.
    #[must_use]
    pub const fn of(dialect: Provider) -> Self {
        match dialect {
            Provider::OpenAi => Self::Larger,
            Provider::Anthropic | Provider::Gemini => Self::Used,
            Provider::Bedrock => Self::Settled,
            _ => Self::Sum,
        }
    }

    /// As it is called.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "larger" => Self::Larger,
            "sum" => Self::Sum,
            "used" => Self::Used,
            "settled" => Self::Settled,
            _ => return None,
        })
    }
}

/// How headers are told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Headers {
    /// They say how things were so long ago.
    pub lag: Span,
    /// What is left of tokens is rounded to multiples of this.
    pub rounding: u64,
    /// The share of answers that have them.
    pub present: f64,
    /// The share of refusals that say when to come again.
    pub retry_after: f64,
}

impl Headers {
    /// Truthful ones; Anthropic rounds tokens to thousands.
    #[must_use]
    pub const fn of(dialect: Provider) -> Self {
        Self {
            lag: Span::from_micros(0),
            rounding: match dialect {
                Provider::Anthropic => 1_000,
                _ => 1,
            },
            present: 1.0,
            retry_after: 1.0,
        }
    }
}

/// What goes wrong: shares of calls, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Fail with 500.
    pub fail: f64,
    /// Find the provider overloaded: 529 at Anthropic, 503 elsewhere.
    pub overloaded: f64,
    /// Break off in the middle of their answer, each way by itself.
    pub cut: f64,
    /// End in the middle as if they were whole.
    pub end: f64,
    /// Fall silent in the middle.
    pub silence: f64,
    /// Say in the middle that the provider failed.
    pub error: f64,
    /// Are ten times as slow.
    pub slow: f64,
}

impl Faults {
    /// The shares of answers that break off, by how.
    #[must_use]
    pub const fn breaks(&self) -> [(f64, Break); 4] {
        [
            (self.cut, Break::Cut),
            (self.end, Break::End),
            (self.silence, Break::Silence),
            (self.error, Break::Error),
        ]
    }
}

/// How fast an answer comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Until the first token.
    pub first: Span,
    /// Between two.
    pub gap: Span,
}

impl Default for Pace {
    fn default() -> Self {
        let none = Span::from_micros(0);
        Self {
            first: none,
            gap: none,
        }
    }
}

impl Pace {
    /// So many times as slow.
    #[must_use]
    pub fn times(self, factor: u64) -> Self {
        let times = |span: Span| Span::from_micros(span.as_micros().saturating_mul(factor));
        Self {
            first: times(self.first),
            gap: times(self.gap),
        }
    }

    /// By that factor faster or slower.
    #[must_use]
    pub fn stretched(self, factor: f64) -> Self {
        let stretched = |span: Span| {
            let micros = (span.as_micros() as f64 * factor).round();
            Span::from_micros(micros as u64)
        };
        Self {
            first: stretched(self.first),
            gap: stretched(self.gap),
        }
    }

    /// As slow as it is where so many answers share so many slots.
    #[must_use]
    pub fn shared(self, answers: u64, slots: u64) -> Self {
        let slower = |span: Span| {
            let micros = span.as_micros().saturating_mul(answers.max(slots));
            Span::from_micros(micros / slots)
        };
        Self {
            first: slower(self.first),
            gap: slower(self.gap),
        }
    }

    /// How long a whole answer takes.
    #[must_use]
    pub fn whole(self, tokens: u64) -> Span {
        let gaps = self
            .gap
            .as_micros()
            .saturating_mul(tokens.saturating_sub(1));
        Span::from_micros(self.first.as_micros().saturating_add(gaps))
    }
}
