//! What can be asked of a store, as data: it can cross a process or a network.

use std::sync::Arc;

use tidegate_core::{Amount, Bounds, Timestamp};

use crate::key::KeyPath;
use crate::plan::Plan;

/// One command on one key and its ancestors, executed as one step.
#[derive(Clone, Debug)]
pub struct Command<'a> {
    /// The rules it is decided by.
    pub plan: &'a Arc<Plan>,
    /// Who or what is limited.
    pub key: KeyPath<'a>,
    /// The caller's clock; a store with a clock of its own ignores it.
    pub now: Timestamp,
    /// For each of the plan's limits that follows a calendar, its boundaries.
    /// Empty if none does.
    pub calendars: &'a [Option<Bounds>],
    /// What to do.
    pub verb: Verb<'a>,
}

/// What to do. Amounts stand in the order of the plan's limits; 0 leaves a
/// limit out, and so does a level that the key does not reach.
#[derive(Clone, Copy, Debug)]
pub enum Verb<'a> {
    /// Take the amounts if all fit; with terms, as a lease.
    Take {
        /// How much of each limit.
        amounts: &'a [Amount],
        /// The lease to make; none for a charge that is never settled.
        lease: Option<Terms<'a>>,
        /// When to add the standings.
        detail: Detail,
    },
    /// Charge the amounts whether they fit or not.
    Debit {
        /// How much of each limit.
        amounts: &'a [Amount],
    },
    /// Answer what a take would, and where everything stands; change nothing.
    Peek {
        /// How much of each limit.
        amounts: &'a [Amount],
    },
    /// End a lease.
    End {
        /// Which.
        id: u128,
        /// How.
        ending: Ending<'a>,
        /// Remember the answer for a retry (by the plan's `keep`).
        remember: bool,
    },
    /// Move a lease's expiry.
    Renew {
        /// Which.
        id: u128,
        /// To when.
        until: Timestamp,
    },
    /// Forget the key (not its ancestors), as if never seen. Leases stay.
    Reset,
}

/// The lease that a take makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms<'a> {
    /// Its id: 128 random bits.
    pub id: u128,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// The same bytes on the same key again give the same lease.
    pub idempotency: Option<&'a [u8]>,
}

/// How a lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending<'a> {
    /// This much was used of each of the plan's limits; `None`: as taken.
    Settle(&'a [Option<Amount>]),
    /// All that was taken was used; what is held comes back.
    Release,
    /// The work failed: for each of the plan's limits, whether its amount is
    /// given back.
    Fail(&'a [bool]),
    /// Nothing was used: everything comes back.
    Cancel,
}

/// When an answer carries standings (which cost divisions).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// Never: the verdict alone.
    Verdict,
    /// When refused.
    #[default]
    OnRefusal,
    /// Always.
    Always,
}
