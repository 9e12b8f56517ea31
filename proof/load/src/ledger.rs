//! Whether what was admitted was within the limits.
//!
//! An ask was admitted at some instant between its sending and its answer. So
//! from the sending of the first to the answer of the last, at least as much time
//! has passed here as on the server; and whatever the server admitted in that time
//! must be within the limit for it.

use crate::policy::Bound;
use crate::watch::Nanos;

/// What was admitted, for each limit and key.
pub struct Ledger {
    pages: Vec<Page>,
}

struct Page {
    bound: Bound,
    /// By key; one alone if all keys share it.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    admitted: u64,
    first_sent: Nanos,
    last_answered: Nanos,
}

/// How far a limit was used.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    pub limit: String,
    /// Keys that were admitted anything, or all of them as one.
    pub keys: usize,
    pub shared: bool,
    /// How many of them were admitted more than the limit.
    pub exceeded: usize,
    /// Of the one that came closest: its number, what it was admitted, and the most.
    pub closest: Option<(usize, u64, u64)>,
}

impl Entry {
    const NONE: Self = Self {
        admitted: 0,
        first_sent: Nanos::MAX,
        last_answered: 0,
    };
}

impl Ledger {
    pub fn new(bounds: &[Bound], keys: u32) -> Self {
        let counted = bounds.iter().filter(|bound| bound.most.within(0).is_some());
        let page = |bound: &Bound| Page {
            entries: vec![Entry::NONE; if bound.shared { 1 } else { keys as usize }],
            bound: bound.clone(),
        };
        Self {
            pages: counted.map(page).collect(),
        }
    }

    /// An ask that was sent and answered at these instants was admitted.
    pub fn admitted(&mut self, key: u32, sent: Nanos, answered: Nanos) {
        for page in &mut self.pages {
            let at = if page.bound.shared { 0 } else { key as usize };
            let entry = &mut page.entries[at];
            entry.admitted += page.bound.amount;
            entry.first_sent = entry.first_sent.min(sent);
            entry.last_answered = entry.last_answered.max(answered);
        }
    }

    /// How far each limit was used.
    pub fn uses(&self) -> Vec<Use> {
        self.pages.iter().map(Page::used).collect()
    }
}

impl Page {
    fn used(&self) -> Use {
        let mut used = Use {
            limit: self.bound.name.clone(),
            keys: 0,
            shared: self.bound.shared,
            exceeded: 0,
            closest: None,
        };
        for (key, entry) in self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, e)| e.admitted > 0)
        {
            let elapsed = entry.last_answered.saturating_sub(entry.first_sent);
            let most = self.bound.most.within(elapsed).unwrap_or(u64::MAX);
            used.keys += 1;
            used.exceeded += usize::from(entry.admitted > most);
            let closer = |(_, admitted, limit): (usize, u64, u64)| {
                u128::from(entry.admitted) * u128::from(limit)
                    > u128::from(admitted) * u128::from(most)
            };
            if used.closest.is_none_or(closer) {
                used.closest = Some((key, entry.admitted, most));
            }
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;
    use crate::policy::{Bound, Most};

    #[test]
    fn one_more_than_burst_and_rate_is_found() {
        let bound = Bound {
            name: "rpm".to_owned(),
            amount: 1,
            shared: false,
            most: Most::Bucket {
                burst: 2,
                count: 1,
                period_ns: 1_000.0,
            },
        };
        let mut ledger = Ledger::new(&[bound], 3);
        for answered in [10, 20, 1_005] {
            ledger.admitted(1, answered - 5, answered);
        }
        ledger.admitted(2, 7, 8);
        let uses = ledger.uses();
        assert_eq!((uses[0].keys, uses[0].exceeded), (2, 0));
        assert_eq!(uses[0].closest, Some((1, 3, 3)));
        ledger.admitted(1, 990, 1_004);
        assert_eq!(ledger.uses()[0].exceeded, 1);
    }
}
