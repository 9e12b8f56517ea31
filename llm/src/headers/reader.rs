//! Reads values, and counts those that are none.

use http::HeaderMap;
use tidegate_core::{Amount, MAX_AMOUNT, Span, Timestamp};

use super::observation::Observation;
use super::table::{Row, Window};
use crate::provider::Unit;
use crate::when::{self, Received};

/// Reads values, and counts those that are none.
pub(super) struct Reader<'h> {
    pub(super) headers: &'h HeaderMap,
    pub(super) received: Received,
    pub(super) ignored: u32,
}

impl<'h> Reader<'h> {
    pub(super) fn text(&mut self, name: &str) -> Option<&'h str> {
        let value = self.headers.get(name)?.to_str().ok();
        self.counted(value)
    }

    /// Counts what is none.
    pub(super) fn counted<T>(&mut self, value: Option<T>) -> Option<T> {
        self.ignored += u32::from(value.is_none());
        value
    }

    pub(super) fn row(&mut self, row: &Row) -> Option<Observation> {
        let mut seen = Observation::of(row.name, row.unit, row.window);
        seen.limit = self.amount(row.limit);
        let remaining = self.amount(row.remaining);
        seen.remaining = remaining.map(|left| left.saturating_sub(row.rounded_by));
        seen.reset_at = self.instant(row.reset);
        seen.says_something().then_some(seen)
    }

    /// Nothing of one that lets calls in: how much is left it does not say.
    pub(super) fn window(&mut self, window: &Window) -> Option<Observation> {
        let status = self.text(window.status)?;
        if status.trim() != "rejected" {
            return None;
        }
        let mut seen = Observation::of(window.name, Unit::Other, window.window);
        seen.remaining = Some(0);
        seen.reset_at = self.instant(window.reset);
        Some(seen)
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

    /// `last` is a further name for it, in seconds or as an instant.
    pub(super) fn retry_after(&mut self, last: Option<&str>) -> Option<Span> {
        if let Some(text) = self.text("retry-after-ms")
            && let Some(after) = self.counted(when::milliseconds(text))
        {
            return Some(after);
        }
        ["retry-after"].into_iter().chain(last).find_map(|name| {
            let text = self.text(name)?;
            let after = when::seconds(text).or_else(|| when::until(text, self.received));
            self.counted(after)
        })
    }

    pub(super) fn should_retry(&mut self) -> Option<bool> {
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
