//! How much of a limit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{MAX_AMOUNT, Unit};

/// The most digits behind the point that a unit has.
const FINEST: u8 = 9;

/// How much of a limit: of one with a unit, with digits behind the point.
///
/// ```
/// # use tidegate_client::Quantity;
/// assert_eq!("1_200".parse(), Ok(Quantity::Whole(1_200)));
/// assert_eq!("0.05".parse(), Ok(Quantity::Decimal("0.05".to_owned())));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A whole number, from 0 to 2^53 - 1.
    Whole(u64),
    /// A decimal number as it is written, with 9 digits at most behind the point.
    Decimal(String),
}

impl From<u64> for Quantity {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl FromStr for Quantity {
    type Err = String;

    /// It may be written with underscores.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.replace('_', "");
        if digits.contains('.') {
            let is_decimal = Unit::decimal(FINEST).parse(&digits);
            return is_decimal
                .map(|_| Self::Decimal(digits))
                .map_err(|wrong| wrong.to_string());
        }
        whole(text).map(Self::Whole)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Decimal(text) => text.fmt(f),
        }
    }
}

/// A whole number, which may be written with underscores.
///
/// # Errors
/// What else it is.
pub fn whole(text: &str) -> Result<u64, String> {
    let amount = text.replace('_', "").parse().ok();
    amount
        .filter(|amount| *amount <= MAX_AMOUNT)
        .ok_or_else(|| format!("`{text}` is no whole number from 0 to {MAX_AMOUNT}"))
}

/// A length of time in whole milliseconds, at least one.
#[must_use]
pub fn millis(length: Duration) -> u64 {
    let millis = length.as_micros().div_ceil(1_000).max(1);
    u64::try_from(millis).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_rounded_up_to_milliseconds() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_micros(1_001)), 2);
        assert_eq!(millis(Duration::from_secs(5)), 5_000);
    }

    #[test]
    fn what_is_no_quantity_is_told() {
        for text in ["", "-1", ".5", "1.", "1.0.0", "1e9", "9007199254740992"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }
}
