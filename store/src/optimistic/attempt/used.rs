//! What was used in the course of an attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Timestamp;

use super::leases::LeaseLedger;
use crate::key::KeyPath;
use crate::optimistic::clock::Clock;
use crate::optimistic::exchange::UsageWrite;
use crate::plan::Plan;
use crate::usage::{Hour, UsageSum};

/// A record: of which row, in which hour, of which limit.
type Record = (Box<[u8]>, Hour, Arc<str>);

/// What was used of each record, and from when on that is over.
#[derive(Debug, Default)]
pub(super) struct Used(BTreeMap<Record, (UsageSum, Timestamp)>);

impl Used {
    /// Adds what `ledger` has noted of the rows of `path`.
    pub(super) fn take_in(&mut self, plan: &Plan, path: &KeyPath<'_>, ledger: &mut LeaseLedger) {
        let Some(keep) = plan.usage() else { return };
        for change in ledger.drain_used(path.depth()) {
            let place = (path.row(change.level).into(), change.hour, change.limit);
            let (sum, over_at) = self.0.entry(place).or_default();
            sum.add(change.amount);
            *over_at = change.hour.over_at(keep);
        }
    }

    /// In how many hours of rows.
    pub(super) fn hours(&self) -> usize {
        let mut of: Vec<_> = self.0.keys().map(|(key, hour, _)| (key, hour)).collect();
        of.dedup();
        of.len()
    }

    /// What is to be written of it at `now`: a record that is over is not made again.
    pub(super) fn writes(&mut self, now: Timestamp, clock: Clock) -> Vec<UsageWrite> {
        let used = std::mem::take(&mut self.0).into_iter();
        let kept = used.filter(|(_, (sum, over_at))| !sum.is_nothing() && *over_at > now);
        let write = |((key, hour, limit), (sum, over_at))| UsageWrite {
            key,
            limit,
            hour,
            sum,
            over_at,
            // The caller's clock may step back.
            keep_until: match clock {
                Clock::Caller => Timestamp::MAX,
                Clock::Server => over_at,
            },
        };
        kept.map(write).collect()
    }
}
