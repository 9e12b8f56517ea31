//! The kinds of limits, for the library and for the ledger.

use std::time::Duration;

use tidegate::{Algorithm, Limit, Period};

use crate::ledger::{Kind, SECOND};

/// A day, in microseconds.
pub const DAY: u64 = 86_400 * SECOND;

/// The level of keys' first segments.
pub const ROOT: &str = "org";

/// The level of whole keys.
pub const LEAF: &str = "user";

/// A kind of limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// In each window since the epoch, of so many microseconds.
    Fixed(u64),
    /// In each window that opens with the first use.
    FirstUse(u64),
    /// In each day of UTC.
    Day,
    /// A bucket that gets so much each second; its capacity is its burst.
    Bucket(u64),
    /// In any rolling window, told apart by sub-windows.
    Sliding(u64),
    /// In any rolling window, to the microsecond.
    Log(u64),
}

/// A limit of a fleet.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Its kind.
    pub shape: Shape,
    /// How much it admits.
    pub capacity: u64,
    /// It is about the keys' first segment.
    pub is_of_root: bool,
}

impl Shape {
    /// All of them, with windows of 2 seconds and `capacity` in each.
    #[must_use]
    pub const fn all(capacity: u64) -> [Self; 6] {
        [
            Self::Fixed(2 * SECOND),
            Self::FirstUse(2 * SECOND),
            Self::Day,
            Self::Bucket(capacity / 2),
            Self::Sliding(2 * SECOND),
            Self::Log(2 * SECOND),
        ]
    }

    /// As tables name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed(_) => "fixed window",
            Self::FirstUse(_) => "first-use window",
            Self::Day => "calendar day",
            Self::Bucket(_) => "bucket",
            Self::Sliding(_) => "sliding window",
            Self::Log(_) => "sliding log",
        }
    }

    /// How the ledger counts it.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Fixed(length) => Kind::Fixed(length),
            Self::FirstUse(length) => Kind::FirstUse(length),
            Self::Day => Kind::Fixed(DAY),
            Self::Bucket(rate) => Kind::Bucket(rate),
            Self::Sliding(length) | Self::Log(length) => Kind::Rolling(length),
        }
    }
}

impl Planned {
    /// The limit, called so, of a set whose keys have levels or not.
    #[must_use]
    pub fn limit(&self, name: &str, has_levels: bool) -> Limit {
        let of = |length: u64, algorithm| {
            let length = Duration::from_micros(length);
            Limit::rate(name, self.capacity, length).algorithm(algorithm)
        };
        let limit = match self.shape {
            Shape::Fixed(length) => of(length, Algorithm::FixedWindow),
            Shape::FirstUse(length) => of(length, Algorithm::FirstUseWindow),
            Shape::Day => Limit::rate(name, self.capacity, Period::day("UTC")),
            Shape::Bucket(rate) => {
                Limit::rate(name, rate, Duration::from_secs(1)).burst(self.capacity)
            }
            Shape::Sliding(length) => of(length, Algorithm::SlidingWindow),
            Shape::Log(length) => of(length, Algorithm::SlidingLog),
        };
        match has_levels {
            true if self.is_of_root => limit.at_level(ROOT),
            true => limit.at_level(LEAF),
            false => limit,
        }
    }
}
