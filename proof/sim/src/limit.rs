//! A limit as a provider enforces it: a fixed window or a token bucket, in whole numbers.
//!
//! Written apart from the product's own arithmetic on purpose: what is to show that the product
//! keeps to a limit must not be wrong where the product is.

use std::fmt;
use std::str::FromStr;

use tidegate_core::{Span, Timestamp};
use tidegate_policy::parse_duration;

/// What a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unit {
    /// Calls.
    Requests,
    /// Tokens of prompt and answer.
    Tokens,
    /// Tokens of the prompt.
    Input,
    /// Tokens of the answer.
    Output,
}

impl Unit {
    /// As headers and settings call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Input => "input-tokens",
            Self::Output => "output-tokens",
        }
    }
}

/// How a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// So much in each window; windows begin at multiples of the period since 1970.
    Window,
    /// Refills all the time; the most at once is a period's worth.
    Bucket,
}

/// A limit: `tokens=200000/1m`, and `,bucket` if it is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// What it counts.
    pub unit: Unit,
    /// So much in a period, at least 1.
    pub capacity: u64,
    /// At least a millisecond.
    pub period: Span,
    /// How it counts.
    pub kind: Kind,
}

impl Limit {
    /// Whether it is a quota, which minutes do not bring back.
    #[must_use]
    pub fn is_daily(&self) -> bool {
        self.period >= Span::from_secs(86_400)
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "write UNIT=CAPACITY/PERIOD, such as tokens=200000/1m, or with \
            ,bucket behind it; UNIT is requests, tokens, input-tokens or output-tokens";
        let (limit, kind) = match text.split_once(',') {
            None => (text, Kind::Window),
            Some((limit, "window")) => (limit, Kind::Window),
            Some((limit, "bucket")) => (limit, Kind::Bucket),
            Some(_) => return Err(EXPECTED.to_owned()),
        };
        let (unit, rest) = limit.split_once('=').ok_or(EXPECTED)?;
        let (capacity, period) = rest.split_once('/').ok_or(EXPECTED)?;
        let units = [Unit::Requests, Unit::Tokens, Unit::Input, Unit::Output];
        let unit = units.into_iter().find(|known| known.name() == unit);
        let capacity = capacity.parse().ok().filter(|capacity| *capacity > 0);
        let period = parse_duration(period).map_err(|error| error.to_string())?;
        Ok(Self {
            unit: unit.ok_or(EXPECTED)?,
            capacity: capacity.ok_or(EXPECTED)?,
            period: Span::from_micros(u64::try_from(period.as_micros()).map_err(|_| EXPECTED)?),
            kind,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, period) = (self.unit.name(), self.period.as_duration());
        write!(f, "{name}={}/{period:?}", self.capacity)
    }
}

/// Why an amount does not fit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Full {
    /// It fits after so long.
    For(Span),
    /// It is more than the limit ever grants.
    Ever,
}

/// Where a limit stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The limit, with the capacity that it has now.
    pub limit: Limit,
    /// What is left.
    pub remaining: u64,
    /// Until all of it is there again.
    pub reset: Span,
}

/// What was used of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meter {
    limit: Limit,
    /// Of a window its beginning; of a bucket the instant of its level. In microseconds.
    at: i64,
    /// In units; of a bucket times the period.
    used: u128,
}

impl Meter {
    /// Nothing is used.
    #[must_use]
    pub const fn new(limit: Limit) -> Self {
        Self {
            limit,
            at: i64::MIN,
            used: 0,
        }
    }

    /// What it counts.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.limit.unit
    }

    /// The limit has this capacity from now on; what was used stays used.
    pub fn change(&mut self, now: Timestamp, capacity: u64) {
        self.observe(now);
        self.limit.capacity = capacity;
    }

    /// Whether an amount fits now.
    ///
    /// # Errors
    /// [`Full`].
    pub fn room(&mut self, now: Timestamp, amount: u64) -> Result<(), Full> {
        self.observe(now);
        if amount > self.limit.capacity {
            return Err(Full::Ever);
        }
        let over = (self.used + self.scaled(amount)).saturating_sub(self.capacity());
        if over == 0 {
            return Ok(());
        }
        Err(Full::For(match self.limit.kind {
            Kind::Window => self.left_of_window(now),
            Kind::Bucket => self.drains(over),
        }))
    }

    /// Uses an amount, whether it fits or not.
    pub fn charge(&mut self, now: Timestamp, amount: u64) {
        self.observe(now);
        self.used += self.scaled(amount);
    }

    /// Gives an amount back, of what is still counted.
    pub fn refund(&mut self, now: Timestamp, amount: u64) {
        self.observe(now);
        self.used = self.used.saturating_sub(self.scaled(amount));
    }

    /// Where it stands.
    pub fn standing(&mut self, now: Timestamp) -> Standing {
        self.observe(now);
        let left = self.capacity().saturating_sub(self.used);
        let remaining = left / self.scaled(1);
        Standing {
            limit: self.limit,
            remaining: u64::try_from(remaining).unwrap_or(u64::MAX),
            reset: match self.limit.kind {
                Kind::Window => self.left_of_window(now),
                Kind::Bucket => self.drains(self.used),
            },
        }
    }

    fn period(&self) -> i64 {
        i64::try_from(self.limit.period.as_micros()).unwrap_or(i64::MAX)
    }

    fn scaled(&self, amount: u64) -> u128 {
        match self.limit.kind {
            Kind::Window => u128::from(amount),
            Kind::Bucket => u128::from(amount) * u128::from(self.limit.period.as_micros()),
        }
    }

    fn capacity(&self) -> u128 {
        self.scaled(self.limit.capacity)
    }

    /// How long a bucket takes to drain so much.
    fn drains(&self, level: u128) -> Span {
        let micros = level.div_ceil(u128::from(self.limit.capacity));
        Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    fn left_of_window(&self, now: Timestamp) -> Span {
        let end = self.at.saturating_add(self.period());
        Span::from_micros(u64::try_from(end.saturating_sub(now.as_micros())).unwrap_or(0))
    }

    /// Lets time pass.
    fn observe(&mut self, now: Timestamp) {
        let micros = now.as_micros();
        match self.limit.kind {
            Kind::Window => {
                let begin = micros - micros.rem_euclid(self.period());
                if begin > self.at {
                    (self.at, self.used) = (begin, 0);
                }
            }
            Kind::Bucket => {
                let passed = u128::try_from(i128::from(micros) - i128::from(self.at)).unwrap_or(0);
                let drained = passed.saturating_mul(u128::from(self.limit.capacity));
                self.used = self.used.saturating_sub(drained);
                self.at = self.at.max(micros);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A multiple of a minute since 1970.
    const BEGIN: i64 = 1_800_000_000_000_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(BEGIN + millis * 1_000)
    }

    fn meter(text: &str) -> Meter {
        Meter::new(text.parse().unwrap())
    }

    #[test]
    fn a_window_grants_its_capacity_and_all_of_it_again_at_the_next() {
        let mut meter = meter("tokens=100/1m");
        assert_eq!(meter.room(at(1_000), 100), Ok(()));
        meter.charge(at(1_000), 70);
        assert_eq!(meter.room(at(1_000), 30), Ok(()));
        let wait = Full::For(Span::from_millis(58_500));
        assert_eq!(meter.room(at(1_500), 31), Err(wait));
        let standing = meter.standing(at(1_500));
        assert_eq!(
            (standing.remaining, standing.reset.as_micros()),
            (30, 58_500_000)
        );
        assert_eq!(meter.room(at(60_000), 100), Ok(()));
        assert_eq!(meter.room(at(60_000), 101), Err(Full::Ever));
    }

    #[test]
    fn a_bucket_refills_all_the_time_and_says_to_the_microsecond_when_it_fits() {
        let mut meter = meter("requests=7/1m,bucket");
        meter.charge(at(0), 7);
        let Err(Full::For(wait)) = meter.room(at(0), 1) else {
            panic!("it is full")
        };
        assert_eq!(wait.as_micros(), 60_000_000_u64.div_ceil(7));
        let wait = wait.as_micros();
        assert!(
            meter
                .room(at(0).after_micros(u128::from(wait - 1)), 1)
                .is_err()
        );
        assert_eq!(meter.room(at(0).after_micros(u128::from(wait)), 1), Ok(()));
        let standing = meter.standing(at(30_000));
        assert_eq!(
            (standing.remaining, standing.reset.as_micros()),
            (3, 30_000_000)
        );
    }

    #[test]
    fn a_lowered_capacity_leaves_used_what_was_used() {
        for text in ["tokens=100/1m", "tokens=100/1m,bucket"] {
            let mut meter = meter(text);
            meter.charge(at(0), 60);
            meter.change(at(0), 50);
            assert_eq!(meter.standing(at(0)).remaining, 0, "{text}");
            assert!(matches!(meter.room(at(0), 1), Err(Full::For(_))), "{text}");
            meter.change(at(0), 200);
            assert_eq!(meter.standing(at(0)).remaining, 140, "{text}");
        }
    }

    #[test]
    fn what_is_no_limit_is_told_what_to_write() {
        for text in [
            "",
            "tokens",
            "tokens=0/1m",
            "tokens=5",
            "beans=5/1m",
            "tokens=5/1m,log",
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(
                error.contains("such as tokens=200000/1m"),
                "{text}: {error}"
            );
        }
        assert!("tokens=5/0s".parse::<Limit>().is_err());
    }
}
