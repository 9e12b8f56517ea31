//! What an answer's headers tell of limits.
//!
//! | file | knows |
//! |---|---|
//! | `table` | the names by provider |
//! | `fields` | the IETF draft's two fields, in its present and its former form |

mod fields;
mod table;

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};
use tidegate_core::{Amount, MAX_AMOUNT, Span, Timestamp};

use crate::provider::{Provider, Unit};
use crate::when::{self, Received};

/// More of them than this in one answer are not read.
pub const MOST_OBSERVATIONS: usize = 16;

/// What one answer said of one limit. Any part may be missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The provider's own name of it: `requests`, `input-tokens`, `tokens-minute`.
    pub name: Cow<'static, str>,
    /// What it counts.
    pub unit: Unit,
    /// How long its window is, where the provider says so.
    pub window: Option<Span>,
    /// How much there is when it is full.
    pub limit: Option<Amount>,
    /// How much is left, at least: of a number that the provider rounds, the least it can be.
    pub remaining: Option<Amount>,
    /// When it is full again (the IETF draft: when there is more), by the caller's clock.
    pub reset_at: Option<Timestamp>,
}

impl Observation {
    fn of(name: &'static str, unit: Unit, window: Option<Span>) -> Self {
        Self {
            name: Cow::Borrowed(name),
            unit,
            window,
            limit: None,
            remaining: None,
            reset_at: None,
        }
    }

    /// Whether it says how much.
    const fn says_something(&self) -> bool {
        self.limit.is_some() || self.remaining.is_some()
    }
}

/// What one answer said of limits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    /// Limit by limit, at most [`MOST_OBSERVATIONS`].
    pub observations: Vec<Observation>,
    /// How long to wait before asking again, if it says so: `Retry-After-Ms` before `Retry-After`.
    pub retry_after: Option<Span>,
    /// Whether to ask again at all, if it says so: `X-Should-Retry`.
    pub should_retry: Option<bool>,
    /// How many values were none: too large, malformed, or too many.
    pub ignored: u32,
}

impl Signals {
    /// Reads the headers of an answer. An answer out of a cache (`Age` above zero) says nothing.
    #[must_use]
    pub fn read(provider: Provider, headers: &HeaderMap, received: Received) -> Self {
        let mut reader = Reader {
            headers,
            received,
            ignored: 0,
        };
        if reader.text("age").is_some_and(|age| age.trim() != "0") {
            return Self::default();
        }
        let mut observations: Vec<Observation> = table::of(provider)
            .iter()
            .filter_map(|row| reader.row(row))
            .collect();
        if observations.is_empty() {
            observations = fields::read(&mut reader);
        }
        let more = observations.len().saturating_sub(MOST_OBSERVATIONS);
        reader.ignored += u32::try_from(more).unwrap_or(u32::MAX);
        observations.truncate(MOST_OBSERVATIONS);
        Self {
            observations,
            retry_after: reader.retry_after(),
            should_retry: reader.should_retry(),
            ignored: reader.ignored,
        }
    }

    /// When all limits that are used up, by what it says, are full again.
    #[must_use]
    pub fn exhausted_until(&self) -> Option<Timestamp> {
        let exhausted = self
            .observations
            .iter()
            .filter(|seen| seen.remaining == Some(0));
        exhausted.filter_map(|seen| seen.reset_at).max()
    }
}

/// Reads values, and counts those that are none.
struct Reader<'h> {
    headers: &'h HeaderMap,
    received: Received,
    ignored: u32,
}

impl<'h> Reader<'h> {
    fn text(&mut self, name: &str) -> Option<&'h str> {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let value = self.headers.get(name)?.to_str().ok();
        self.counted(value)
    }

    /// Counts what is none.
    fn counted<T>(&mut self, value: Option<T>) -> Option<T> {
        self.ignored += u32::from(value.is_none());
        value
    }

    fn row(&mut self, row: &table::Row) -> Option<Observation> {
        let mut seen = Observation::of(row.name, row.unit, row.window);
        seen.limit = self.amount(row.limit);
        let remaining = self.amount(row.remaining);
        seen.remaining = remaining.map(|left| left.saturating_sub(row.rounded_by));
        seen.reset_at = self.instant(row.reset);
        seen.says_something().then_some(seen)
    }

    /// A number of units. Of a list (`100, 100;w=60`) its first. -1 says that it is not known.
    fn amount(&mut self, name: &str) -> Option<Amount> {
        let text = self.text(name)?;
        let first = text.split([',', ';']).next().unwrap_or(text).trim();
        if first == "-1" {
            return None;
        }
        self.counted(amount(first))
    }

    fn instant(&mut self, name: &str) -> Option<Timestamp> {
        let text = self.text(name)?;
        let after = self.counted(when::until(text, self.received))?;
        Some(self.received.at() + after)
    }

    fn retry_after(&mut self) -> Option<Span> {
        if let Some(text) = self.text("retry-after-ms")
            && let Some(after) = self.counted(when::milliseconds(text))
        {
            return Some(after);
        }
        let text = self.text("retry-after")?;
        let after = when::seconds(text).or_else(|| when::until(text, self.received));
        self.counted(after)
    }

    fn should_retry(&mut self) -> Option<bool> {
        let text = self.text("x-should-retry")?;
        self.counted(text.trim().parse().ok())
    }
}

/// Whole units; a fraction (`99.0`, as some proxies write it) is cut off.
fn amount(text: &str) -> Option<Amount> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let amount: Amount = whole.parse().ok()?;
    (digits(whole) && digits(fraction) && amount <= MAX_AMOUNT).then_some(amount)
}
