//! What a reply to a take means where others are before it in line.

use tidegate_store::core::{Span, Timestamp, Verdict};
use tidegate_store::{Detail, Reply, StoreError};

use super::stay::is_refusal;

/// Whether the reply takes what others may wait for. (A lease that was given before is only told
/// of again.)
#[must_use]
pub fn takes_anew(reply: &Reply) -> bool {
    let Some(decision) = reply.full_decision() else {
        return false;
    };
    let is_repeated = decision.lease.is_some_and(|lease| lease.repeated);
    decision.verdict.admitted() && !is_repeated
}

/// What a try came to that was decided, where others in line may be first.
#[derive(Debug)]
pub enum Outcome {
    /// This.
    Reply(Result<Reply, StoreError>),
    /// Somebody ahead in line waits for the same: its limits refused it with this, or would
    /// have admitted it.
    Kept(Option<Reply>),
    /// There was more to do than is done at once, or another was first.
    Again,
}

impl Outcome {
    /// Of a reply to one who `is_behind` others in line, or is not.
    #[must_use]
    pub fn of(reply: Result<Reply, StoreError>, is_behind: bool) -> Self {
        match reply {
            Ok(reply) if is_behind && is_refusal(&reply) => Self::Kept(Some(reply)),
            reply => Self::Reply(reply),
        }
    }
}

/// The answer to a take that others keep back, made from a look at its limits as of `now`:
/// what its limits say, or the next instant.
#[must_use]
pub fn kept_back(looked: Reply, now: Timestamp, detail: Detail) -> Reply {
    let Reply::Decision(mut decision) = looked else {
        return looked;
    };
    if decision.verdict.admitted() {
        decision.verdict = Verdict::NotUntil(now + Span::from_micros(1));
        decision.binding = None;
    }
    if detail == Detail::Verdict {
        decision.standings.clear();
    }
    Reply::Decision(decision)
}
