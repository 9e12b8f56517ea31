//! What was debited for others when a call's answer began, and what is left of its end.
//!
//! An answer's headers may count the call's own use beyond what it took: then that was debited as
//! somebody else's, and the call's end does not charge it again.

use std::pin::Pin;

use futures_util::future::{MaybeDone, maybe_done};
use smallvec::SmallVec;
use tokio::task::JoinHandle;

/// What was debited for others, limit by limit.
pub type Debits = SmallVec<[Debit; 1]>;

/// What was debited for others.
pub struct Debit {
    limit: String,
    /// What the call took.
    taken: u64,
    /// Known once it is carried out.
    amount: MaybeDone<JoinHandle<u64>>,
}

impl Debit {
    pub(super) fn new(limit: &str, taken: u64, amount: JoinHandle<u64>) -> Self {
        Self {
            limit: limit.to_owned(),
            taken,
            amount: maybe_done(amount),
        }
    }

    /// Until it is.
    pub(super) async fn carried_out(&mut self) {
        (&mut self.amount).await;
    }

    /// The limit that it was charged to.
    pub fn limit(&self) -> &str {
        &self.limit
    }

    /// So much of what a call has used is charged already, of which the headers of its answer can
    /// have counted `early`.
    pub async fn part(mut self, early: u64) -> u64 {
        self.carried_out().await;
        // A panic is its own.
        let amount = Pin::new(&mut self.amount)
            .take_output()
            .and_then(Result::ok);
        amount.unwrap_or(0).min(early.saturating_sub(self.taken))
    }
}
