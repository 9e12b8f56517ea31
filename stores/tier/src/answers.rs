//! Replies to what is decided here.

use smallvec::SmallVec;
use tidegate_store::core::{Amount, Standing, Verdict};
use tidegate_store::{Decision, Detail, Reply};

use crate::grants::Grant;

/// A request was admitted by `grant`.
pub(crate) fn admitted(grant: &Grant, detail: Detail) -> Reply {
    if detail == Detail::Verdict {
        return Reply::Verdict(Verdict::Admit);
    }
    let mut decision = Decision::bare(Verdict::Admit, None);
    decision.shadowed = grant.told.shadowed;
    if detail == Detail::Always {
        decision.standings = standings(grant);
    }
    Reply::Decision(decision)
}

/// Where a limit stands of which a grant has admitted a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GrantLevel {
    /// As the store said when it granted; `None` where it said nothing.
    told: Option<Standing>,
    /// What is left of the grant.
    left: Amount,
}

impl GrantLevel {
    /// Of the limit at `position`.
    #[inline(always)]
    pub(crate) fn of(grant: &Grant, position: usize) -> Self {
        let told = match grant.told.standings.get(position) {
            Some(told) => *told,
            None => None,
        };
        let left = grant.units.left(position);
        Self { told, left }
    }

    /// Where it stands: what the store had left when it granted, and what this node has left of
    /// the grant. `None` where the key does not reach the limit's level.
    #[must_use]
    pub fn standing(self) -> Option<Standing> {
        let mut standing = self.told?;
        standing.remaining = (standing.remaining + self.left).min(standing.limit);
        Some(standing)
    }
}

/// Where the limits stand.
pub(crate) fn standings(grant: &Grant) -> SmallVec<[Option<Standing>; 1]> {
    let standing = |position| GrantLevel::of(grant, position).standing();
    (0..grant.told.standings.len()).map(standing).collect()
}

/// A request was refused as this one was.
pub(crate) fn refused(refusal: &Decision, detail: Detail) -> Reply {
    match detail {
        Detail::Verdict => Reply::Verdict(refusal.verdict),
        Detail::OnRefusal | Detail::Always => Reply::Decision(refusal.clone()),
    }
}
