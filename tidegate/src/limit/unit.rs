//! A finer unit than one, so that money and fractions stay whole numbers.

use std::fmt;

use tidegate_core::{Amount, MAX_AMOUNT};

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

    /// So much as text says: `1`, `0.1`, to `0.000000001`; nothing if it is no such power
    /// of ten.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let places = match text.split_once('.') {
            None => 0,
            Some((_, fraction)) => u8::try_from(fraction.len()).ok()?,
        };
        let unit = Self::decimal(places);
        (unit.to_string() == text).then_some(unit)
    }

    /// How many digits stand behind the point.
    #[must_use]
    pub const fn places(self) -> u8 {
        self.places
    }

    /// `number` ones in this unit: 3 of 0.01 are 300.
    ///
    /// # Errors
    /// [`AmountError::TooLarge`].
    pub fn ones(self, number: u64) -> Result<Amount, AmountError> {
        match number.checked_mul(10_u64.pow(u32::from(self.places))) {
            Some(amount) if amount <= MAX_AMOUNT => Ok(amount),
            _ => Err(self.too_large(number.to_string())),
        }
    }

    /// More of it than there can be.
    pub(crate) const fn too_large(self, number: String) -> AmountError {
        AmountError::TooLarge { number, unit: self }
    }

    /// `amount` of this unit, as a decimal with every digit of it: `1205` of 0.01 are
    /// `12.05`.
    pub fn show(self, amount: Amount) -> impl fmt::Display {
        let places = usize::from(self.places);
        fmt::from_fn(move |f| {
            let scale = 10_u64.pow(u32::from(self.places));
            write!(f, "{}", amount / scale)?;
            match places {
                0 => Ok(()),
                _ => write!(f, ".{:0places$}", amount % scale),
            }
        })
    }

    /// `number` in this unit.
    ///
    /// # Errors
    /// [`AmountError`]: NaN, infinite, negative, more than 2^53 - 1 units, or
    /// not an exact multiple of the unit (as its shortest decimal form reads).
    pub fn exact(self, number: f64) -> Result<Amount, AmountError> {
        self.parse(&format!("{number}"))
    }

    /// A decimal text (`12`, `0.25`) in this unit.
    ///
    /// # Errors
    /// [`AmountError`]: as [`exact`](Self::exact), or not a number.
    pub fn parse(self, text: &str) -> Result<Amount, AmountError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let fraction = fraction.trim_end_matches('0');
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let is_cut = whole.is_empty() || text.ends_with('.');
        if is_cut || !digits(whole) || !digits(fraction) {
            let rest = text.strip_prefix('-').map(|rest| self.parse(rest));
            return Err(match rest {
                None | Some(Err(AmountError::NotANumber(_) | AmountError::Negative(_))) => {
                    AmountError::NotANumber(text.into())
                }
                Some(_) => AmountError::Negative(text.into()),
            });
        }
        if fraction.len() > usize::from(self.places) {
            return Err(AmountError::NotAMultiple {
                number: text.into(),
                unit: self,
            });
        }
        let scaled = format!(
            "{whole}{fraction:0<width$}",
            width = usize::from(self.places)
        );
        let amount = scaled.parse().unwrap_or(u64::MAX);
        if amount > MAX_AMOUNT {
            return Err(self.too_large(text.to_owned()));
        }
        Ok(amount)
    }
}

impl fmt::Display for Unit {
    /// `0.01`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(1).fmt(f)
    }
}

/// What is wrong with an amount.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AmountError {
    /// Below zero.
    #[error("{0} is negative; an amount is 0 or more")]
    Negative(String),
    /// More than 2^53 - 1 units.
    #[error("{number} is more than the largest amount, {}", unit.show(MAX_AMOUNT))]
    TooLarge {
        /// The number.
        number: String,
        /// The unit.
        unit: Unit,
    },
    /// Not a number, or not a finite one.
    #[error("`{0}` is not a number")]
    NotANumber(String),
    /// Finer than the limit's unit.
    #[error("{number} is finer than the limit's unit, {unit}")]
    NotAMultiple {
        /// The number.
        number: String,
        /// The unit.
        unit: Unit,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_one_name_and_shows_every_digit() {
        for places in 0..=9 {
            let unit = Unit::decimal(places);
            assert_eq!(Unit::named(&unit.to_string()), Some(unit));
        }
        for wrong in [
            "",
            "0",
            "0.",
            ".1",
            "0.05",
            "0.10",
            "1.0",
            "10",
            "0.0000000001",
        ] {
            assert_eq!(Unit::named(wrong), None, "{wrong}");
        }
        let shown = |places, amount| Unit::decimal(places).show(amount).to_string();
        assert_eq!(shown(0, 1_205), "1205");
        assert_eq!(shown(2, 1_205), "12.05");
        assert_eq!(shown(3, 5), "0.005");
        assert_eq!(shown(1, 0), "0.0");
        assert_eq!(shown(9, MAX_AMOUNT), "9007199.254740991");
    }

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for places in 0..=9 {
            let unit = Unit::decimal(places);
            for amount in [0, 1, 9, 10, 999_999_999, 1_000_000_001, MAX_AMOUNT] {
                assert_eq!(unit.parse(&unit.show(amount).to_string()).unwrap(), amount);
            }
        }
        assert_eq!(Unit::decimal(2).ones(3).unwrap(), 300);
        assert!(Unit::decimal(9).ones(9_007_200).is_err());
        assert!(Unit::decimal(1).ones(u64::MAX).is_err());
    }

    #[test]
    fn what_is_wrong_with_an_amount_is_told_with_the_number_as_it_was_written() {
        let cents = Unit::decimal(2);
        let wrong = |text: &str| cents.parse(text).unwrap_err().to_string();
        assert_eq!(wrong("-3.50"), "-3.50 is negative; an amount is 0 or more");
        assert_eq!(wrong("-x"), "`-x` is not a number");
        assert_eq!(wrong("--1"), "`--1` is not a number");
        assert_eq!(wrong("0.005"), "0.005 is finer than the limit's unit, 0.01");
        let large = " is more than the largest amount, 90071992547409.91";
        assert_eq!(
            wrong("90071992547409.92"),
            format!("90071992547409.92{large}")
        );
        let ones = cents.ones(u64::MAX).unwrap_err().to_string();
        assert_eq!(ones, format!("{}{large}", u64::MAX));
        let exact = |number| cents.exact(number).unwrap_err().to_string();
        assert_eq!(exact(f64::NAN), "`NaN` is not a number");
        assert_eq!(exact(f64::INFINITY), "`inf` is not a number");
        assert_eq!(exact(-0.5), "-0.5 is negative; an amount is 0 or more");
    }
}
