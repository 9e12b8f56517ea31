//! Numbers as people read them.

/// A length of time with three digits that matter: `1.25 s`, `57 min 16 s`.
pub fn length(micros: u64) -> String {
    let seconds = micros / 1_000_000 + u64::from(micros % 1_000_000 >= 500_000);
    match micros {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{micros} us"),
        1_000..1_000_000 => digits(micros, 1_000, "ms"),
        1_000_000..59_500_000 => digits(micros, 1_000_000, "s"),
        59_500_000..3_599_500_000 => pair(seconds / 60, "min", seconds % 60, "s"),
        3_599_500_000..86_399_500_000 => pair(seconds / 3_600, "h", seconds / 60 % 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

fn pair(large: u64, unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    }
}

/// Three digits of a quotient, without zeros at the end.
fn digits(number: u64, unit: u64, name: &str) -> String {
    let whole = number / unit;
    let places = if whole < 10 {
        2
    } else {
        usize::from(whole < 100)
    };
    let scale = 10_u64.pow(places as u32);
    // Rounded half up, in integers: the same text on every machine.
    let scaled = (u128::from(number) * u128::from(scale) + u128::from(unit) / 2) / u128::from(unit);
    let (whole, part) = (scaled / u128::from(scale), scaled % u128::from(scale));
    let text = if places == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{part:0places$}")
    };
    let text = if places == 0 {
        &text
    } else {
        text.trim_end_matches('0').trim_end_matches('.')
    };
    format!("{text} {name}")
}

/// A share in percent: `68.2 %`.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let tenths = (u128::from(part) * 1_000 + u128::from(whole) / 2) / u128::from(whole);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{length, percent};

    #[test]
    fn lengths_have_the_digits_that_matter() {
        for (micros, text) in [
            (0, "0 s"),
            (250, "250 us"),
            (1_250, "1.25 ms"),
            (500_000, "500 ms"),
            (1_000_000, "1 s"),
            (12_345_678, "12.3 s"),
            (59_449_999, "59.4 s"),
            (59_999_999, "1 min"),
            (3_435_948_056, "57 min 16 s"),
            (3_599_999_999, "1 h"),
            (7_200_000_000, "2 h"),
            (90_000_000_000, "1 d 1 h"),
        ] {
            assert_eq!(length(micros), text);
        }
    }

    #[test]
    fn shares_are_rounded_to_a_tenth() {
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(3, 3), "100.0 %");
        assert_eq!(percent(0, 0), "-");
    }
}
