//! What one answer said of limits.

use http::HeaderMap;
use tidegate_core::{Span, Timestamp};

use super::observation::{MOST_OBSERVATIONS, Observation};
use super::reader::Reader;
use super::{fields, table};
use crate::provider::Provider;
use crate::when::Received;

/// What one answer said of limits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    /// Limit by limit, at most [`MOST_OBSERVATIONS`].
    pub observations: Vec<Observation>,
    /// How long to wait before asking again, if it says so: `Retry-After-Ms` before `Retry-After`
    /// before a provider's own name.
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
        let windows = table::windows(provider).iter();
        observations.extend(windows.filter_map(|window| reader.window(window)));
        if observations.is_empty() {
            observations = fields::read(&mut reader);
        }
        let more = observations.len().saturating_sub(MOST_OBSERVATIONS);
        reader.ignored += u32::try_from(more).unwrap_or(u32::MAX);
        observations.truncate(MOST_OBSERVATIONS);
        Self {
            observations,
            retry_after: reader.retry_after(table::come_again(provider)),
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
