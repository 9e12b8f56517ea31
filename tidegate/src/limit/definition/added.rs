//! A limit that only some keys have: those that were given it.
//!
//! The plan of a set has a limit of that name for all keys, so that the positions of limits
//! are the same for each, in every store. Keys that were not given it are asked for nothing
//! of it: for them it is absent. What it grants there decides nothing; it is much, so that
//! what is left of the limit of a key that had it once is forgotten soon.

use std::time::Duration;

use super::{Kind, Limit};
use crate::limit::Algorithm;
use crate::limit::Period;
use tidegate_core::Amount;

/// What a limit grants in a second where it is absent.
const MUCH: Amount = 1 << 40;

impl Limit {
    /// A limit that the set does not have: only the keys have it that are
    /// [given](crate::LimitSet::set_override) it, beside the set's own. A request that does not
    /// name it takes one of it if it counts calls, one held with a lease, of a rate its cost, or
    /// else nothing; nothing, too, of a rate whose [unit](Self::unit) is not that of the set's
    /// own. One that names it for a key without it takes nothing.
    #[must_use]
    pub fn added(mut self) -> Self {
        self.added = true;
        self
    }

    /// Whether only the keys have it that are given it.
    #[must_use]
    pub const fn is_added(&self) -> bool {
        self.added
    }

    /// Whether the key at hand was not given it.
    pub(crate) const fn is_absent(&self) -> bool {
        self.absent
    }

    /// What stands for this limit, of keys at `level`, where it is absent. Two that are counted
    /// alike have the same.
    pub(crate) fn absent_at(&self, level: Option<&String>) -> Self {
        let period = self.period.as_ref().map(|period| match period {
            Period::Every(_) => Period::Every(Duration::from_secs(1)),
            calendar => calendar.clone(),
        });
        let algorithm = match self.algorithm {
            Algorithm::Gcra | Algorithm::LeakyBucket => Algorithm::TokenBucket,
            other => other,
        };
        Self {
            capacity: MUCH,
            period,
            algorithm,
            burst: None,
            ttl: None,
            sub_windows: None,
            max_entries: None,
            level: level.cloned(),
            adaptive: false,
            added: true,
            absent: true,
            ..self.clone()
        }
    }

    /// `units` slots beside this limit, called `name`, that no key is asked for.
    pub(crate) fn slots_beside(&self, name: String, units: Amount) -> Self {
        Self {
            level: self.level.clone(),
            added: true,
            absent: true,
            ..Self::concurrency(name, units)
        }
    }

    /// This limit where `absent` stands for it, if that is one that is counted as this one is.
    pub(crate) fn in_place_of_absent(&self, absent: &Self) -> Option<Self> {
        let limit = Self {
            level: absent.level.clone(),
            absent: false,
            ..self.clone()
        };
        (self.absent_at(absent.level.as_ref()) == *absent).then_some(limit)
    }

    /// Whether a request takes one of it that does not name it, with a lease alone.
    pub(crate) const fn is_added_concurrency(&self) -> bool {
        self.added && matches!(self.kind, Kind::Concurrency)
    }
}
