//! What the numbers of a rule may be.

use core::ops::RangeInclusive;

use crate::amount::{Amount, MAX_AMOUNT};
use crate::error::RuleError;
use crate::time::Span;

/// Checks that a parameter is an amount of at least one unit.
pub(crate) fn amount(parameter: &'static str, got: Amount) -> Result<Amount, RuleError> {
    within(parameter, got, 1..=MAX_AMOUNT)
}

/// Checks that a limit may have this period: 1 ms to 400 days.
pub(crate) fn period(parameter: &'static str, got: Span) -> Result<Span, RuleError> {
    let range = Span::MILLISECOND.as_micros()..=Span::LONGEST_PERIOD.as_micros();
    within(parameter, got.as_micros(), range).map(Span::from_micros)
}

fn within(parameter: &'static str, got: u64, range: RangeInclusive<u64>) -> Result<u64, RuleError> {
    if range.contains(&got) {
        return Ok(got);
    }
    Err(RuleError::OutOfRange {
        parameter,
        got,
        least: *range.start(),
        most: *range.end(),
    })
}
