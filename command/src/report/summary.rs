//! The figures of a replay.

use crate::replay::{Outcome, Run};

/// The figures of a replay.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many requests there were.
    pub requests: u64,
    /// How many started when they arrived.
    pub admitted: u64,
    /// How many started later.
    pub waited: u64,
    /// How many never started.
    pub refused: u64,
    /// How many each limit refused.
    pub refused_by: Vec<u64>,
    /// How many each limit made wait, and then let through.
    pub delayed_by: Vec<u64>,
    /// Half of those that waited did so no longer than this, in microseconds.
    pub wait_p50_us: u64,
    /// 99 of 100.
    pub wait_p99_us: u64,
    /// The longest.
    pub wait_max_us: u64,
    /// For each limit, what all asked for and what the admitted used.
    pub amounts: Vec<(u64, u64)>,
}

impl Summary {
    /// Counts a run.
    pub fn of(run: &Run) -> Self {
        let mut summary = Self {
            refused_by: vec![0; run.limits.len()],
            delayed_by: vec![0; run.limits.len()],
            amounts: vec![(0, 0); run.limits.len()],
            ..Self::default()
        };
        let mut waits = Vec::new();
        for (request, decision) in run.pairs() {
            summary.count(decision.outcome, decision.binding);
            for (limit, (requests, used)) in summary.amounts.iter_mut().enumerate() {
                let amount = run.charges.used(limit, request);
                *requests += amount;
                *used += if decision.ran.is_some() { amount } else { 0 };
            }
            if let (Outcome::Waited, Some((started, _))) = (decision.outcome, decision.ran) {
                waits.push(started - request.arrived);
            }
        }
        summary.waits(waits);
        summary
    }

    fn count(&mut self, outcome: Outcome, binding: Option<usize>) {
        self.requests += 1;
        let (all, by) = match outcome {
            Outcome::Admitted => (&mut self.admitted, None),
            Outcome::Waited => (&mut self.waited, Some(&mut self.delayed_by)),
            Outcome::Refused => (&mut self.refused, Some(&mut self.refused_by)),
        };
        *all += 1;
        if let (Some(by), Some(limit)) = (by, binding) {
            by[limit] += 1;
        }
    }

    fn waits(&mut self, mut waits: Vec<u64>) {
        waits.sort_unstable();
        self.wait_p50_us = rank(&waits, 50);
        self.wait_p99_us = rank(&waits, 99);
        self.wait_max_us = waits.last().copied().unwrap_or(0);
    }
}

/// The least of the sorted numbers that `percent` of them do not exceed.
fn rank(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn a_percentile_is_one_of_the_numbers() {
        let numbers: Vec<u64> = (1..=200).collect();
        assert_eq!((rank(&numbers, 50), rank(&numbers, 99)), (100, 198));
        assert_eq!((rank(&[7], 50), rank(&[7], 99), rank(&[], 99)), (7, 7, 0));
    }
}
