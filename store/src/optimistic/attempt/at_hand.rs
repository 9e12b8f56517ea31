//! What an attempt knows of a plain root when it ends, for the next command.

use tidegate_core::Timestamp;

use super::Attempt;
use crate::optimistic::root_at_hand::RootAtHand;

impl Attempt<'_> {
    /// What it knows of its root, once what it said is written; `None` of a root that is not
    /// plain.
    #[must_use]
    pub fn into_at_hand(self) -> Option<RootAtHand> {
        let has_calendars = !self.request.calendars.is_empty();
        if has_calendars || self.leases.pending.is_some() {
            return None;
        }
        let latest = self.instant();
        let mut rows = self.rows.all;
        let row = rows.pop().filter(|row| row.is_plain(&self.own))?;
        if !rows.is_empty() {
            return None;
        }
        let unknown = match (self.leases.exhausted, self.leases.reached) {
            (true, _) => Timestamp::MAX,
            (false, Some((due, _))) => due,
            (false, None) => Timestamp::MIN,
        };
        let (own, leases) = ((self.own, self.clock), (self.leases.ledger, unknown));
        RootAtHand::new(own, self.head, (latest, row.states), leases)
    }
}
