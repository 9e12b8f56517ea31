//! How much of each limit is in use, from what the engine says of it.
//!
//! A limit is looked at whenever something changed it; between two looks its
//! course is known: a bucket drains evenly, a window stands still and is gone
//! at once, what is held stands still. For sliding windows an even course is
//! taken for their steps.

use std::collections::HashMap;

use super::decision::Usage;
use crate::subject::{Course, Subject};

/// Follows the use of all limits, for each key (or ancestor) apart.
pub struct Meter<'l> {
    limits: &'l [Subject],
    /// One for each limit and scope.
    gauges: Vec<HashMap<String, Gauge>>,
}

/// What was seen at the last look, and the area under all before it.
#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    at: u64,
    used: u64,
    /// When it is all back, by itself.
    full_at: Option<u64>,
    area: f64,
    peak: u64,
}

impl<'l> Meter<'l> {
    /// A meter that has seen nothing.
    pub fn new(limits: &'l [Subject]) -> Self {
        Self {
            limits,
            gauges: vec![HashMap::new(); limits.len()],
        }
    }

    /// Takes note of what is in use of one limit at an instant.
    pub fn look(&mut self, limit: usize, key: &str, now: u64, used: u64, full_at: Option<u64>) {
        let subject = &self.limits[limit];
        let scope = subject.scope(key);
        let gauges = &mut self.gauges[limit];
        if !gauges.contains_key(&*scope) {
            gauges.insert(scope.clone().into_owned(), Gauge::default());
        }
        if let Some(gauge) = gauges.get_mut(&*scope) {
            gauge.advance(now, &subject.course);
            gauge.used = used;
            gauge.full_at = full_at;
            gauge.peak = gauge.peak.max(used);
        }
    }

    /// The figures, when everything is over.
    pub fn finish(self, end: u64) -> Vec<Usage> {
        let all = self.gauges.into_iter().zip(self.limits);
        all.map(|(gauges, limit)| total(gauges, &limit.course, end))
            .collect()
    }
}

fn total(gauges: HashMap<String, Gauge>, course: &Course, end: u64) -> Usage {
    // In an order of their own: sums of floats depend on it.
    let mut gauges: Vec<(String, Gauge)> = gauges.into_iter().collect();
    gauges.sort_by(|a, b| a.0.cmp(&b.0));
    let mut usage = Usage::default();
    let mut area = 0.0;
    let whole = end.max(1) as f64 * gauges.len().max(1) as f64;
    for (scope, mut gauge) in gauges {
        gauge.advance(end, course);
        area += gauge.area;
        if gauge.peak > usage.peak {
            (usage.peak, usage.peak_key) = (gauge.peak, scope);
        }
    }
    usage.mean = area / whole;
    usage
}

impl Gauge {
    fn advance(&mut self, now: u64, course: &Course) {
        let span = now.saturating_sub(self.at);
        let gone = self
            .full_at
            .map_or(u64::MAX, |full| full.saturating_sub(self.at));
        let (used, busy) = (self.used as f64, span.min(gone) as f64);
        self.area += match course {
            Course::Evenly | Course::Rolling if gone < u64::MAX && gone > 0 => {
                let rest = 1.0 - busy / gone as f64;
                used * (1.0 + rest) / 2.0 * busy
            }
            _ => used * busy,
        };
        if span >= gone {
            self.used = 0;
        }
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::Meter;
    use crate::subject::{Course, Kind, Subject};

    fn limit(course: Course) -> Subject {
        Subject {
            name: "x".to_owned(),
            kind: Kind::Rate,
            amount: 10,
            capacity: 10,
            period_us: 100,
            course,
            levels: 1,
            reach: 1,
            shadow: false,
        }
    }

    #[test]
    fn a_bucket_drains_evenly_and_a_window_at_once() {
        for (course, mean) in [
            (Course::Evenly, 2.5),
            (Course::AtOnce, 5.0),
            (Course::Held, 5.0),
        ] {
            let limits = [limit(course)];
            let mut meter = Meter::new(&limits);
            meter.look(0, "a", 0, 10, Some(100));
            let usage = &meter.finish(200)[0];
            assert_eq!((usage.peak, usage.mean), (10, mean));
        }
    }

    #[test]
    fn several_keys_share_the_mean_and_the_peak_names_its_key() {
        let limits = [limit(Course::Held)];
        let mut meter = Meter::new(&limits);
        meter.look(0, "a", 0, 2, None);
        meter.look(0, "b", 0, 4, None);
        meter.look(0, "b", 50, 0, None);
        let usage = &meter.finish(100)[0];
        assert_eq!(
            (usage.peak, usage.peak_key.as_str(), usage.mean),
            (4, "b", 2.0)
        );
    }
}
