//! What a store answers.

use smallvec::SmallVec;
use tidegate_core::{Amount, Standing, Timestamp, Verdict};

/// The answer to a command.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// To take, debit and peek.
    Decision(Decision),
    /// To end.
    Settled(Settlement),
    /// To renew and reset.
    Done,
}

/// May it start, and where does everything stand?
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// Which of the plan's limits binds: whose refusal lasts longest.
    pub binding: Option<usize>,
    /// The levels at which some limit refused: bit 0 is the outermost.
    pub refused_levels: u8,
    /// For a refusal where some limit gives its amounts back when a lease
    /// expires: when the next lease may do so, and asking again makes sense.
    pub refund_at: Option<Timestamp>,
    /// A shadow limit would have refused.
    pub shadowed: bool,
    /// For each of the plan's limits its standing after the step; `None` where
    /// the key does not reach the level. Empty unless asked for.
    pub standings: SmallVec<[Option<Standing>; 1]>,
    /// The lease made.
    pub lease: Option<Granted>,
}

impl Decision {
    /// A bare verdict.
    #[must_use]
    pub fn bare(verdict: Verdict, binding: Option<usize>) -> Self {
        Self {
            verdict,
            binding,
            refused_levels: 0,
            refund_at: None,
            shadowed: false,
            standings: SmallVec::new(),
            lease: None,
        }
    }
}

/// A lease as given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its id (the earlier one's, for a repeated idempotency key).
    pub id: u128,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Larger than that of every earlier lease on the same slots; 0 without slots.
    pub fence: u64,
    /// It was given before, to an ask with the same idempotency key.
    pub repeated: bool,
}

/// How a lease ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settlement {
    /// It had expired: slots were back already; the real use was charged.
    pub expired: bool,
    /// This is the answer given before: nothing was changed this time.
    pub repeated: bool,
    /// For each limit that was taken, by its `uid`: taken and used.
    pub uses: SmallVec<[Use; 4]>,
}

/// What one limit's share of a lease came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    /// The limit's [`uid`](crate::PlanLimit::uid).
    pub uid: u32,
    /// What was taken at first.
    pub taken: Amount,
    /// What was used in the end. More was charged as debt; less was given back,
    /// but for what had drained from a bucket by then: that is free already.
    pub used: Amount,
}
