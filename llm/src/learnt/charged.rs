//! What is known to be charged because others have used it, until it counts no more.

use std::collections::VecDeque;

use tidegate_core::{Amount, Timestamp};

/// So many charges are told apart; of more the oldest are taken together.
const MOST: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Charged(VecDeque<(Amount, Timestamp)>);

impl Charged {
    /// How much of it counts at `now`.
    pub(super) fn at(&self, now: Timestamp) -> Amount {
        let counts = self.0.iter().filter(|(_, until)| now < *until);
        counts.map(|(amount, _)| amount).sum()
    }

    /// `total` counts at `now`; what is new of it until `until`.
    pub(super) fn is(&mut self, total: Amount, until: Timestamp, now: Timestamp) {
        self.0.retain(|(_, until)| now < *until);
        let mut known = self.at(now);
        while known > total
            && let Some((amount, _)) = self.0.pop_front()
        {
            known -= amount;
        }
        if known < total {
            self.0.push_back((total - known, until));
        }
        if self.0.len() > MOST
            && let (Some(first), Some(second)) = (self.0.pop_front(), self.0.front_mut())
        {
            second.0 += first.0;
        }
    }
}
