//! A finer unit than one, so that money and fractions stay whole numbers.

use tidegate_core::{Amount, MAX_AMOUNT};

use crate::error::AmountError;

/// The unit that a limit's amounts are multiples of: a power of ten.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Unit {
    places: u8,
}

impl Unit {
    /// Whole numbers.
    pub const ONE: Self = Self { places: 0 };

    /// 10 to the power of minus `places` (at most 9): `decimal(3)` is 0.001.
    #[must_use]
    pub const fn decimal(places: u8) -> Self {
        Self {
            places: if places > 9 { 9 } else { places },
        }
    }

    /// How many digits stand behind the point.
    #[must_use]
    pub const fn places(self) -> u8 {
        self.places
    }

    /// `number` in this unit.
    ///
    /// # Errors
    /// [`AmountError`]: NaN, infinite, negative, more than 2^53 - 1 units, or
    /// not an exact multiple of the unit (as its shortest decimal form reads).
    pub fn exact(self, number: f64) -> Result<Amount, AmountError> {
        if !number.is_finite() {
            return Err(AmountError::NotFinite);
        }
        if number < 0.0 {
            return Err(AmountError::Negative);
        }
        self.parse(&format!("{number}"))
    }

    /// A decimal text (`12`, `0.25`) in this unit.
    ///
    /// # Errors
    /// [`AmountError`]: as [`exact`](Self::exact), or not a number.
    pub fn parse(self, text: &str) -> Result<Amount, AmountError> {
        if text.starts_with('-') {
            return Err(AmountError::Negative);
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let fraction = fraction.trim_end_matches('0');
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) {
            return Err(AmountError::NotANumber(text.into()));
        }
        if fraction.len() > usize::from(self.places) {
            return Err(AmountError::NotAMultiple {
                number: text.into(),
                places: self.places,
            });
        }
        let scaled = format!(
            "{whole}{fraction:0<width$}",
            width = usize::from(self.places)
        );
        let amount = scaled.parse().unwrap_or(u64::MAX);
        if amount > MAX_AMOUNT {
            return Err(AmountError::TooLarge);
        }
        Ok(amount)
    }
}
