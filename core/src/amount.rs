//! Amounts: whole units, small enough that a double holds them exactly.
//!
//! A script inside Redis or a JSON client counts in doubles; 2^53 - 1 is the
//! largest whole number that survives there, so no store accepts more.

/// How much is asked for, held or used, in a limit's own units.
pub type Amount = u64;

/// The largest amount anywhere: 2^53 - 1.
pub const MAX_AMOUNT: Amount = (1 << 53) - 1;

/// The nearest amount to a number of any size.
pub(crate) fn clamp(number: u128) -> Amount {
    number.min(u128::from(MAX_AMOUNT)) as Amount
}
