//! TCP Vegas, for requests.

use super::super::Sample;
use super::bounds::{Bounds, step};
use crate::outcome::Outcome;
use crate::random::mixed;

/// A probe comes after so many samples for each unit of the limit, times 1/2 to 1.
const PROBE_EVERY: f64 = 30.0;

/// Estimates how many of those in flight stand in a queue, from the quotient of the
/// shortest signal and this one, and keeps that between 3 and 6 times the logarithm of the
/// limit (Brakmo, Peterson 1995; the numbers are those of Netflix's concurrency-limits).
///
/// The shortest signal is measured anew now and then, at half the limit. Netflix's takes
/// the signal of the moment instead, and so takes the queue that it has made itself for
/// the upstream's own time: it drifts.
#[derive(Clone, Debug, Default)]
pub(in crate::adaptive) struct Vegas {
    /// The shortest signal since the last probe.
    shortest: Option<f64>,
    samples: f64,
    /// How often it has probed: what the next interval is drawn by.
    probes: u64,
    probe: Option<Probe>,
}

/// The limit is lowered, and what was granted before has yet to end.
#[derive(Clone, Debug)]
struct Probe {
    /// What the limit was.
    before: f64,
    /// So many samples later it is given up.
    patience: f64,
}

impl Vegas {
    pub fn next(&mut self, limit: f64, sample: &Sample, bounds: Bounds) -> f64 {
        match self.probe.take() {
            Some(probe) => bounds.hold(self.go_on(probe, limit, sample)),
            None => bounds.hold(self.estimate(limit, sample, bounds)),
        }
    }

    fn estimate(&mut self, limit: f64, sample: &Sample, bounds: Bounds) -> f64 {
        self.samples += 1.0;
        if self.samples >= self.interval() * limit {
            self.samples = 0.0;
            self.probes += 1;
            self.probe = Some(Probe {
                before: limit,
                patience: 2.0 * limit,
            });
            return bounds.hold((limit / 2.0).floor());
        }
        let step = step(limit);
        if sample.outcome == Outcome::Dropped {
            return limit - step;
        }
        let signal = sample.micros();
        let shortest = *self.shortest.get_or_insert(signal);
        if signal < shortest {
            self.shortest = Some(signal);
            return limit;
        }
        if 2.0 * (sample.in_flight as f64) < limit {
            return limit;
        }
        let queued = (limit * (1.0 - shortest / signal)).ceil();
        match queued {
            _ if queued <= step => limit + 6.0 * step,
            _ if queued < 3.0 * step => limit + step,
            _ if queued > 6.0 * step => limit - step,
            _ => limit,
        }
    }

    /// Ends a probe with the first success that began within the lowered limit.
    fn go_on(&mut self, probe: Probe, limit: f64, sample: &Sample) -> f64 {
        let is_low = sample.in_flight as f64 <= limit;
        if is_low && sample.outcome == Outcome::Succeeded {
            self.shortest = Some(sample.micros());
            return probe.before;
        }
        if probe.patience <= 0.0 {
            return probe.before;
        }
        self.probe = Some(Probe {
            patience: probe.patience - 1.0,
            ..probe
        });
        limit
    }

    /// How many samples for each unit until the next probe.
    fn interval(&self) -> f64 {
        let share = (mixed(self.probes + 1) >> 11) as f64 / (1_u64 << 53) as f64;
        PROBE_EVERY * (0.5 + share / 2.0)
    }
}
