//! Who is tried, in order, and what remains of their refusals.

use smallvec::SmallVec;
use tidegate_core::{Span, Timestamp};

use super::member::Member;
use crate::admission::Admission;
use crate::decision::Decision;
use crate::error::Error;

/// Some of a pool's members.
pub(super) type Members<'a> = SmallVec<[&'a Member; 8]>;

/// Who could not tell, and why.
pub(super) type Failed<'a> = SmallVec<[(&'a Member, Error); 1]>;

/// Who is tried, in order, and who is passed over for now.
#[derive(Default)]
pub(super) struct Candidates<'a> {
    pub(super) ready: Members<'a>,
    /// With the ends of their cool-downs.
    pub(super) cooling: SmallVec<[(&'a Member, Timestamp); 4]>,
    /// Why others are not asked: the error that says most.
    left_out: Option<Error>,
}

impl<'a> Candidates<'a> {
    pub(super) fn only(member: &'a Member) -> Self {
        Self {
            ready: [member].into_iter().collect(),
            ..Self::default()
        }
    }

    /// These but for `left_out`, each with why.
    pub(super) fn without(
        mut self,
        left_out: impl IntoIterator<Item = (&'a Member, Error)>,
    ) -> Self {
        let mut tally = self.tally();
        for (member, error) in left_out {
            self.ready.retain(|ready| ready.id() != member.id());
            self.cooling
                .retain(|(cooling, _)| cooling.id() != member.id());
            tally.failed(error);
        }
        self.left_out = tally.error;
        self
    }

    /// All in order, those that cool down last, each with the end of its cool-down.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'a Member, Option<Timestamp>)> + '_ {
        let ready = self.ready.iter().map(|&member| (member, None));
        let cooling = self.cooling.iter();
        ready.chain(cooling.map(|&(member, until)| (member, Some(until))))
    }

    /// What is known before any of them is asked.
    pub(super) fn tally(&self) -> Tally {
        Tally {
            soonest: None,
            error: self.left_out.clone(),
        }
    }
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
            self.soonest = Some((wait, member.decided(decision)));
        }
    }

    /// Whether any of them has refused.
    pub(super) const fn is_refusal(&self) -> bool {
        self.soonest.is_some()
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
/// largest capacity there is, more than a request that makes no sense; and that
/// more than a name that one member does not know.
fn rank(error: &Error) -> (u8, u64) {
    match error {
        Error::Store(_) | Error::QueueFull(_) | Error::Stopped => (3, 0),
        Error::NeverFits { capacity, .. } => (2, *capacity),
        Error::UnknownLimit { .. } => (0, 0),
        _ => (1, 0),
    }
}

/// What a member has answered, as that of a pool.
pub(super) fn sign(member: &Member, admission: Admission) -> Admission {
    match admission {
        Admission::Granted(lease) => Admission::Granted(lease.of(member)),
        Admission::Refused(decision) => Admission::Refused(member.decided(decision)),
    }
}
