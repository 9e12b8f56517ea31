//! What was used beside what was charged.
//!
//! Of a call whose answer its client has in full, what was used is charged, to the millionth. Of one
//! that a limit refused, or that nobody received, nothing. Of every other, between what is known to
//! have been used and what was reserved: nobody knows more.

use std::collections::HashMap;

use crate::http::Ended;
use crate::provider::Used;

/// What a key may spend, in millionths of a dollar.
pub const BUDGET: u64 = 10_000_000;

/// A call that was made.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// Its number.
    pub number: u64,
    /// The most that is reserved for it.
    pub reserved: u64,
    /// How it ended.
    pub ended: Ended,
    /// Its process was killed so soon after that it may not have settled it.
    pub is_unsettled: bool,
}

/// Sums, in millionths of a dollar.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Books {
    /// Calls with their answer in full, refused by a limit, and others.
    pub whole: u64,
    /// Refused by a limit.
    pub refused: u64,
    /// Nobody listened.
    pub unreached: u64,
    /// Whose end nobody knows.
    pub unknown: u64,
    /// What the ledger says was used.
    pub used: u64,
    /// What the store says was spent.
    pub spent: u64,
    /// The least and the most that is to be charged.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Books {
    /// Sums up.
    #[must_use]
    pub fn of(made: &[Made], ledger: &HashMap<String, Used>, spent: u64) -> Self {
        let mut books = Self {
            spent,
            ..Self::default()
        };
        for call in made {
            let used = ledger.get(&name(call.number)).copied().unwrap_or_default();
            books.used += used.whole;
            let (least, most) = match call.ended {
                Ended::Whole if !call.is_unsettled => {
                    books.whole += 1;
                    (used.whole, used.whole)
                }
                Ended::Refused => {
                    books.refused += 1;
                    (used.whole, used.whole)
                }
                Ended::Unreached => {
                    books.unreached += 1;
                    (used.whole, used.whole)
                }
                _ => {
                    books.unknown += 1;
                    (used.prompt, call.reserved.max(used.whole))
                }
            };
            books.least += least;
            books.most += most;
        }
        books
    }

    /// Used beyond the budget.
    #[must_use]
    pub const fn overspent(&self) -> u64 {
        self.used.saturating_sub(BUDGET)
    }

    /// What the store says is owed.
    #[must_use]
    pub const fn debt(&self) -> u64 {
        self.spent.saturating_sub(BUDGET)
    }

    /// Charged and used by nobody.
    #[must_use]
    pub const fn phantom(&self) -> u64 {
        self.spent.saturating_sub(self.most)
    }

    /// Whether what was used was charged and nothing else, and no more than the budget was used,
    /// but for what those may owe that were under way at its end.
    #[must_use]
    pub const fn hold(&self, may_owe: u64) -> bool {
        let is_exact = self.phantom() == 0 && self.uncharged() == 0;
        is_exact && self.overspent() <= may_owe && self.debt() <= may_owe
    }

    /// Used and not charged.
    #[must_use]
    pub const fn uncharged(&self) -> u64 {
        self.least.saturating_sub(self.spent)
    }
}

/// The credential that a call is sent with: the ledger's accounts are calls.
#[must_use]
pub fn name(number: u64) -> String {
    format!("call-{number}")
}
