//! Numbers out of arguments.

use std::ops::RangeInclusive;

use crate::error::{Fault, quoted};

/// More digits than any number that is accepted.
const MAX_DIGITS: usize = 19;

/// Whatever number: the service has its bounds.
pub(super) const ANY: RangeInclusive<i64> = 0..=i64::MAX;

/// The whole number in `text`, within `range`; `name` is what an error calls it.
#[inline]
pub(super) fn integer(
    text: &[u8],
    range: RangeInclusive<i64>,
    name: &'static str,
) -> Result<i64, Fault> {
    match decimal(text) {
        Some(number) if range.contains(&number) => Ok(number),
        _ => Err(out_of(text, &range, name)),
    }
}

#[cold]
fn out_of(text: &[u8], range: &RangeInclusive<i64>, name: &'static str) -> Fault {
    Fault::Number {
        name,
        least: *range.start(),
        most: *range.end(),
        found: quoted(text),
    }
}

/// As [`integer`], where nothing is below zero, and nothing has a sign.
#[inline]
pub(super) fn natural(
    text: &[u8],
    range: RangeInclusive<i64>,
    name: &'static str,
) -> Result<u64, Fault> {
    // `-0` is no number that anybody means.
    if text.starts_with(b"-") {
        return Err(out_of(text, &range, name));
    }
    Ok(integer(text, range, name)?.unsigned_abs())
}

#[inline]
fn decimal(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    let mut number = 0_i64;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(i64::from(value))?;
    }
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_decimal_numbers_in_range_are_numbers() {
        let most = i64::MAX.to_string();
        for (text, number) in [("0", 0), ("-7", -7), ("007", 7), (most.as_str(), i64::MAX)] {
            assert_eq!(
                integer(text.as_bytes(), i64::MIN..=i64::MAX, "n"),
                Ok(number)
            );
        }
        for text in [
            "",
            "-",
            "+1",
            "1.0",
            " 1",
            "1e3",
            "0x1",
            "9223372036854775808",
            "1\0",
        ] {
            assert!(
                integer(text.as_bytes(), i64::MIN..=i64::MAX, "n").is_err(),
                "{text}"
            );
        }
        assert!(integer(b"5", 6..=9, "n").is_err());
        assert_eq!(natural(b"0", 0..=9, "n"), Ok(0));
        assert!(natural(b"-0", 0..=9, "n").is_err());
    }
}
