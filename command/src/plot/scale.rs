//! Round numbers for axes, and how to write them.

/// Steps of time that people read easily, in microseconds.
const STEPS: [u64; 31] = {
    const MS: u64 = 1_000;
    const S: u64 = 1_000 * MS;
    const MIN: u64 = 60 * S;
    const H: u64 = 60 * MIN;
    const D: u64 = 24 * H;
    [
        MS,
        2 * MS,
        5 * MS,
        10 * MS,
        20 * MS,
        50 * MS,
        100 * MS,
        200 * MS,
        500 * MS,
        S,
        2 * S,
        5 * S,
        10 * S,
        15 * S,
        30 * S,
        MIN,
        2 * MIN,
        5 * MIN,
        10 * MIN,
        15 * MIN,
        30 * MIN,
        H,
        2 * H,
        3 * H,
        6 * H,
        12 * H,
        D,
        2 * D,
        7 * D,
        30 * D,
        90 * D,
    ]
};

/// The smallest readable step that divides `length` into at most `most` parts.
pub fn time_step(length: u64, most: u64) -> u64 {
    let fits = |step: &&u64| length / **step < most;
    let last = STEPS[STEPS.len() - 1];
    STEPS
        .iter()
        .find(fits)
        .copied()
        .unwrap_or_else(|| last * (length / last / most + 1))
}

/// The unit in which the ticks of an axis of that step are counted.
pub const fn time_unit(step: u64) -> (u64, &'static str) {
    match step {
        0..1_000_000 => (1_000, "milliseconds"),
        1_000_000..60_000_000 => (1_000_000, "seconds"),
        60_000_000..3_600_000_000 => (60_000_000, "minutes"),
        3_600_000_000..86_400_000_000 => (3_600_000_000, "hours"),
        _ => (86_400_000_000, "days"),
    }
}

/// Ticks from zero to at least `top`, about `count` of them, at 1, 2 or 5
/// times a power of ten; whole numbers only.
pub fn ticks(top: f64, count: usize) -> Vec<f64> {
    let rough = (top / count as f64).max(1.0);
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|f| f * power >= rough * 0.999_999);
    let step = factor.unwrap_or(10.0) * power;
    (0..)
        .map(|n| f64::from(n) * step)
        .take_while(|tick| *tick <= top * 1.000_001)
        .collect()
}

/// A number in four characters or so: `950`, `1.2k`, `600k`, `25M`.
pub fn short(number: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units
        .into_iter()
        .find(|(size, _)| number >= *size * 0.999_5);
    let (size, name) = unit.unwrap_or((1.0, ""));
    let scaled = number / size;
    let places = usize::from(scaled < 9.95 && (scaled - scaled.round()).abs() > 0.05);
    let places = if scaled < 99.5 && (scaled - scaled.round()).abs() > 0.05 {
        1
    } else {
        places
    };
    format!("{scaled:.places$}{name}")
}

#[cfg(test)]
mod tests {
    use super::{short, ticks, time_step, time_unit};

    #[test]
    fn a_step_of_time_is_one_that_people_read() {
        assert_eq!(time_step(3_436_000_000, 240), 15_000_000);
        assert_eq!(time_step(3_436_000_000, 12), 300_000_000);
        assert_eq!(time_unit(300_000_000), (60_000_000, "minutes"));
        assert_eq!(time_step(0, 10), 1_000);
        assert!(time_step(u64::MAX / 2, 10) > 0);
    }

    #[test]
    fn ticks_are_round_and_reach_over_the_axis() {
        assert_eq!(ticks(310.0, 4), [0.0, 100.0, 200.0, 300.0]);
        assert_eq!(ticks(1.0, 4), [0.0, 1.0]);
        assert_eq!(ticks(2_300_000.0, 4), [0.0, 1e6, 2e6]);
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (24.0, "24"),
            (950.0, "950"),
            (1_200.0, "1.2k"),
            (600_000.0, "600k"),
            (999_999.0, "1M"),
            (12_500_000.0, "12.5M"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}
