//! A clock that hurries, for demonstrations: an hour of traffic in a minute.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate::{Clock, TimeSource, Timestamp};

struct FastClock {
    begun: Instant,
    /// Wall time at the start, in microseconds since 1970.
    start: i64,
    speed: u32,
}

impl TimeSource for FastClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is a clock")]
        let micros = self.begun.elapsed().as_micros() * u128::from(self.speed);
        Timestamp::from_micros(self.start + i64::try_from(micros).unwrap_or(i64::MAX / 2))
    }

    fn speed(&self) -> u32 {
        self.speed
    }
}

/// How many times as fast as the machine's a clock runs, as it is typed.
pub fn factor(text: &str) -> Result<u32, String> {
    let read = text
        .parse()
        .ok()
        .filter(|speed| (1..=10_000).contains(speed));
    read.ok_or_else(|| "write how many times as fast, a whole number from 1 to 10000".to_owned())
}

/// The machine's clock, or one that runs `speed` times as fast from now on.
pub fn clock(speed: u32) -> Clock {
    if speed == 1 {
        return Clock::system();
    }
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    let (begun, wall) = (Instant::now(), SystemTime::now());
    let micros = wall.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros());
    Clock::custom(FastClock {
        begun,
        start: i64::try_from(micros).unwrap_or(0),
        speed,
    })
}

#[cfg(test)]
mod tests {
    use super::factor;

    #[test]
    fn a_speed_that_is_none_is_told_what_to_write() {
        assert_eq!((factor("1"), factor("10000")), (Ok(1), Ok(10_000)));
        for odd in ["x", "0", "-1", "1.5", "10001", ""] {
            let told = factor(odd).expect_err(odd);
            assert!(told.contains("a whole number from 1 to 10000"), "{told}");
        }
    }
}
