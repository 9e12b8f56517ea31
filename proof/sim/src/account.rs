//! An account: what it has used of each limit, and how headers of a while ago stood.

use std::collections::VecDeque;

use tidegate_core::{Span, Timestamp};

use crate::ledger::Entry;
use crate::limit::{Full, Limit, Meter, Standing, Unit};

/// So many earlier states are kept for headers that lag; of longer ago the oldest of these.
const MOST_SEEN: usize = 4_096;

/// An account of a provider.
#[derive(Clone, Debug, Default)]
pub struct Account {
    meters: Vec<Meter>,
    seen: VecDeque<(Timestamp, Vec<Standing>)>,
    /// What it has really done.
    pub entry: Entry,
}

/// What a call takes of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// So much has to be left.
    pub needs: u64,
    /// So much is charged.
    pub takes: u64,
}

/// A limit that has no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Where it stands.
    pub standing: Standing,
    /// How much was needed.
    pub needs: u64,
    /// When it would fit.
    pub full: Full,
}

impl Account {
    /// One that has used nothing.
    #[must_use]
    pub fn new(limits: &[Limit]) -> Self {
        Self {
            meters: limits.iter().copied().map(Meter::new).collect(),
            ..Self::default()
        }
    }

    /// Limits have these capacities from now on.
    pub fn change(&mut self, now: Timestamp, limits: &[Limit]) {
        for (meter, limit) in self.meters.iter_mut().zip(limits) {
            meter.change(now, limit.capacity);
        }
    }

    /// Takes of each limit, or of none.
    ///
    /// # Errors
    /// The limit that has room last.
    pub fn take(&mut self, now: Timestamp, share: impl Fn(Unit) -> Share) -> Result<(), Bound> {
        let bounds = self.meters.iter_mut().filter_map(|meter| {
            let standing = meter.standing(now);
            let needs = share(standing.limit.unit).needs;
            let full = meter.room(now, needs).err().filter(|_| needs > 0)?;
            Some(Bound {
                standing,
                needs,
                full,
            })
        });
        if let Some(bound) = bounds.max_by_key(|bound| bound.full) {
            return Err(bound);
        }
        self.charge(now, |unit| share(unit).takes);
        Ok(())
    }

    /// Charges, whether it fits or not.
    pub fn charge(&mut self, now: Timestamp, takes: impl Fn(Unit) -> u64) {
        for meter in &mut self.meters {
            meter.charge(now, takes(meter.unit()));
        }
    }

    /// Gives back.
    pub fn refund(&mut self, now: Timestamp, gives: impl Fn(Unit) -> u64) {
        for meter in &mut self.meters {
            meter.refund(now, gives(meter.unit()));
        }
    }

    /// Where its limits stand.
    pub fn standings(&mut self, now: Timestamp) -> Vec<Standing> {
        self.meters
            .iter_mut()
            .map(|meter| meter.standing(now))
            .collect()
    }

    /// What headers say that lag by so much; remembers how things stand now.
    pub fn told(&mut self, now: Timestamp, lag: Span) -> Vec<Standing> {
        let standings = self.standings(now);
        if lag == Span::from_micros(0) {
            return standings;
        }
        self.seen.push_back((now, standings));
        let old = |(at, _): &(Timestamp, _)| now.since(*at) >= lag;
        // The newest that is old enough stays at the front.
        while self.seen.len() > MOST_SEEN || self.seen.get(1).is_some_and(old) {
            self.seen.pop_front();
        }
        self.seen
            .front()
            .map_or_else(Vec::new, |(_, standings)| standings.clone())
    }
}
