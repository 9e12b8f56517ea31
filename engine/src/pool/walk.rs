//! The members tried in order, and what remains of their refusals.

use smallvec::SmallVec;
use tidegate_core::{Span, Timestamp};

use super::member::Member;
use crate::decision::Decision;
use crate::error::Error;

/// Some of a pool's members.
pub(super) type Members<'a> = SmallVec<[&'a Member; 8]>;

/// Who is tried, in order, and who is passed over for now.
#[derive(Default)]
pub(super) struct Candidates<'a> {
    pub(super) ready: Members<'a>,
    /// With the ends of their cool-downs.
    pub(super) cooling: SmallVec<[(&'a Member, Timestamp); 4]>,
}

/// What the members that did not admit have said: the refusal that ends
/// soonest, and the error that says most.
#[derive(Default)]
pub(super) struct Tally {
    /// Clocks of several sets may differ; waits can be compared.
    soonest: Option<(Span, Decision)>,
    error: Option<Error>,
}

impl Tally {
    pub(super) fn refused(&mut self, member: &Member, decision: Decision) {
        let now = member.inner().clock.now();
        let wait = decision
            .not_until()
            .map_or(Span::from_micros(u64::MAX), |at| at.since(now));
        if self.soonest.as_ref().is_none_or(|(least, _)| wait < *least) {
            self.soonest = Some((wait, decision.of(member)));
        }
    }

    pub(super) fn failed(&mut self, error: Error) {
        if self.error.as_ref().is_none_or(|e| rank(e) < rank(&error)) {
            self.error = Some(error);
        }
    }

    /// The refusal that ends soonest; if none refused, the error.
    pub(super) fn decision(self) -> Result<Decision, Error> {
        match self.soonest {
            Some((_, decision)) => Ok(decision),
            None => Err(self.error.unwrap_or(Error::Nothing("member"))),
        }
    }
}

/// *Cannot tell* says more than *not ever*, for it may pass; that, with the
/// largest capacity there is, more than an ask that makes no sense; and that
/// more than a name that one member does not know.
fn rank(error: &Error) -> (u8, u64) {
    match error {
        Error::Store(_) | Error::QueueFull(_) | Error::Stopped => (3, 0),
        Error::NeverFits { capacity, .. } => (2, *capacity),
        Error::UnknownLimit { .. } => (0, 0),
        _ => (1, 0),
    }
}
