//! Amounts: whole units, small enough that a double holds them exactly.
//!
//! A script inside Redis or a JSON client counts in doubles; 2^53 - 1 is the
//! largest whole number that survives there, so no store accepts more.

use crate::error::RuleError;

/// How much is asked for, held or used, in a limit's own units.
pub type Amount = u64;

/// The largest amount anywhere: 2^53 - 1.
pub const MAX_AMOUNT: Amount = (1 << 53) - 1;

/// Checks that a parameter is an amount of at least one unit.
pub(crate) fn check(parameter: &'static str, got: u64) -> Result<u64, RuleError> {
    if (1..=MAX_AMOUNT).contains(&got) {
        return Ok(got);
    }
    Err(RuleError::OutOfRange {
        parameter,
        got,
        least: 1,
        most: MAX_AMOUNT,
    })
}

/// The nearest amount to a number of any size.
pub(crate) fn clamp(number: u128) -> Amount {
    number.min(u128::from(MAX_AMOUNT)) as Amount
}
