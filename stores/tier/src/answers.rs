//! Replies to what is decided here.

use tidegate_store::core::Verdict;
use tidegate_store::{Decision, Detail, Reply};

use crate::grants::Grant;

/// A request was admitted by `grant`. What remains is what the store had left when it
/// granted, and what this node has left of the grant.
pub(crate) fn admitted(grant: &Grant, detail: Detail) -> Reply {
    if detail == Detail::Verdict {
        return Reply::Verdict(Verdict::Admit);
    }
    let mut decision = Decision::bare(Verdict::Admit, None);
    decision.shadowed = grant.told.shadowed;
    if detail == Detail::Always {
        decision.standings.clone_from(&grant.told.standings);
        for (position, standing) in decision.standings.iter_mut().enumerate() {
            if let Some(standing) = standing {
                let left = grant.units.left(position);
                standing.remaining = (standing.remaining + left).min(standing.limit);
            }
        }
    }
    Reply::Decision(decision)
}

/// A request was refused as this one was.
pub(crate) fn refused(refusal: &Decision, detail: Detail) -> Reply {
    match detail {
        Detail::Verdict => Reply::Verdict(refusal.verdict),
        Detail::OnRefusal | Detail::Always => Reply::Decision(refusal.clone()),
    }
}
