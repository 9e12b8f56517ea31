//! A limit as the replay and its pictures see it.

use std::borrow::Cow;
use std::fmt;

use tidegate::{Algorithm, Limit, Period};
use tidegate_policy::{LimitSyntax, Policy};
use tidegate_store::KeyPath;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Starts, 1 each.
    Calls,
    /// An amount that the request says.
    Rate,
    /// The same, over a window.
    Budget,
    /// What is held at once.
    Concurrency,
}

/// How what was taken comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// Evenly: a bucket.
    Evenly,
    /// All at once, at boundaries that are multiples of the period since 1970.
    AtOnce,
    /// All at once, a period after the first use.
    AfterFirstUse,
    /// All at once, at midnight of the calendar's day, week or month.
    Calendar(Calendar, String),
    /// Each amount a period after it was taken.
    Rolling,
    /// When the holder ends.
    Held,
}

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calendar {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first to the first.
    Month,
}

/// A limit's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub kind: Kind,
    /// How much: in a period, or at once.
    pub amount: u64,
    /// The most it grants at once.
    pub capacity: u64,
    /// The period in microseconds; 0 for a calendar's, and for what is held.
    pub period_us: u64,
    /// How what was taken comes back.
    pub course: Course,
    /// How many levels the policy's keys have.
    pub levels: usize,
    /// How many levels a key must have for this limit to be about it: its own is the last.
    pub reach: usize,
    /// It is recorded, but refuses nobody.
    pub shadow: bool,
}

/// A policy's limits, in the order of its file.
pub fn subjects(policy: &Policy) -> Vec<Subject> {
    let both = policy.limits.iter().zip(&policy.written);
    both.map(|(limit, written)| Subject::of(limit, written, &policy.levels))
        .collect()
}

impl Subject {
    fn of(limit: &Limit, written: &LimitSyntax, levels: &[String]) -> Self {
        let last = levels.len().saturating_sub(1);
        let level = written
            .level
            .as_ref()
            .and_then(|name| levels.iter().position(|l| l == name));
        Self {
            name: limit.name().to_owned(),
            kind: kind(written.kind),
            amount: limit.capacity(),
            capacity: limit.at_most(),
            period_us: match limit.period() {
                Some(Period::Every(length)) => {
                    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
                }
                _ => 0,
            },
            course: course(limit, written),
            levels: last + 1,
            reach: level.unwrap_or(last) + 1,
            shadow: written.shadow,
        }
    }

    /// The row of a key that this limit is about; the key, if that is none.
    pub fn scope<'k>(&self, key: &'k str) -> Cow<'k, str> {
        let path = KeyPath::stored(key.as_bytes(), self.levels);
        let row = path.map(|path| path.row(self.reach.min(path.depth()) - 1));
        match row {
            Ok(Cow::Borrowed(row)) => String::from_utf8_lossy(row),
            Ok(Cow::Owned(row)) => String::from_utf8_lossy(&row).into_owned().into(),
            Err(_) => key.into(),
        }
    }

    /// Whether it is charged what the request says.
    pub const fn is_charged(&self) -> bool {
        matches!(self.kind, Kind::Rate | Kind::Budget)
    }

    /// "minute" for 60 s, "15s" for what has no name.
    pub fn per(&self) -> String {
        match &self.course {
            Course::Held => String::new(),
            Course::Calendar(Calendar::Day, _) => "day".to_owned(),
            Course::Calendar(Calendar::Week, _) => "week".to_owned(),
            Course::Calendar(Calendar::Month, _) => "month".to_owned(),
            _ => period(self.period_us),
        }
    }

    /// The limit in words, in a unit such as "tokens": "600,000 tokens a minute".
    pub fn describe(&self, unit: &str) -> String {
        let amount = Grouped(self.amount);
        let mut words = match self.kind {
            Kind::Concurrency => format!("{amount} at once"),
            Kind::Calls => format!("{amount} calls a {}", self.per()),
            Kind::Rate | Kind::Budget => format!("{amount} {unit} a {}", self.per()),
        };
        match &self.course {
            Course::Calendar(_, zone) => words += &format!(" in {zone}"),
            Course::Evenly => {
                words += &format!(", burst {}", Grouped(self.capacity));
            }
            _ => {}
        }
        if self.shadow {
            words += ", shadow";
        }
        words
    }
}

const fn kind(written: tidegate_policy::Kind) -> Kind {
    match written {
        tidegate_policy::Kind::Calls => Kind::Calls,
        tidegate_policy::Kind::Rate => Kind::Rate,
        tidegate_policy::Kind::Budget => Kind::Budget,
        tidegate_policy::Kind::Concurrency => Kind::Concurrency,
    }
}

fn course(limit: &Limit, written: &LimitSyntax) -> Course {
    match (limit.period(), written.algorithm) {
        (None, _) => Course::Held,
        (Some(Period::Day { zone }), _) => Course::Calendar(Calendar::Day, zone.clone()),
        (Some(Period::Week { zone }), _) => Course::Calendar(Calendar::Week, zone.clone()),
        (Some(Period::Month { zone }), _) => Course::Calendar(Calendar::Month, zone.clone()),
        (_, Some(Algorithm::FixedWindow)) => Course::AtOnce,
        (_, Some(Algorithm::FirstUseWindow)) => Course::AfterFirstUse,
        (_, Some(Algorithm::SlidingWindow | Algorithm::SlidingLog)) => Course::Rolling,
        _ => Course::Evenly,
    }
}

/// A period by its name, or as a length.
fn period(micros: u64) -> String {
    match micros {
        1_000_000 => "second".to_owned(),
        60_000_000 => "minute".to_owned(),
        3_600_000_000 => "hour".to_owned(),
        86_400_000_000 => "24 hours".to_owned(),
        _ => crate::report::length(micros),
    }
}

/// A number with its thousands apart: 18,305,870.
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut out = String::with_capacity(digits.len() + digits.len() / 3);
        for (i, digit) in digits.char_indices() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                out.push(',');
            }
            out.push(digit);
        }
        f.pad(&out)
    }
}

#[cfg(test)]
mod tests {
    use super::{Course, Grouped, Kind, Subject};

    #[test]
    fn thousands_are_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (18_305_870, "18,305,870"),
        ] {
            assert_eq!(Grouped(number).to_string(), text);
        }
    }

    #[test]
    fn a_limit_is_about_the_key_or_its_ancestor() {
        let mut subject = Subject {
            name: "tpm".to_owned(),
            kind: Kind::Rate,
            amount: 600_000,
            capacity: 900_000,
            period_us: 60_000_000,
            course: Course::Evenly,
            levels: 1,
            reach: 1,
            shadow: false,
        };
        assert_eq!(subject.scope("acme/search/alice"), "acme/search/alice");
        assert_eq!(subject.scope("/v1/users/7"), "/v1/users/7");
        assert_eq!(
            subject.describe("tokens"),
            "600,000 tokens a minute, burst 900,000"
        );
        (subject.levels, subject.reach) = (3, 2);
        assert_eq!(subject.scope("acme/search/alice"), "acme/search");
        assert_eq!(subject.scope("acme"), "acme");
        assert_eq!(subject.scope("/acme/search/alice"), "/acme/search");
        subject.reach = 3;
        assert_eq!(subject.scope("/acme/search/alice"), "/acme//alice");
    }
}
