//! Who is tried, in order, and what remains of their refusals.

use smallvec::SmallVec;
use tidegate_core::{Span, Timestamp};

use super::member::Member;
use crate::admission::Admission;
use crate::decision::Decision;
use crate::error::{DecisionError, RequestError};

/// Some of a pool's members.
pub(super) type Members<'a> = SmallVec<[&'a Member; 8]>;

/// Members that are not asked again for this request, each with its error, or with its
/// decision that it never grants as much.
pub(super) type LeftOut<'a> = SmallVec<[(&'a Member, Result<Decision, DecisionError>); 1]>;

/// Who is tried, in order, and who is passed over for now.
#[derive(Default)]
pub(super) struct Candidates<'a> {
    pub(super) ready: Members<'a>,
    /// With the ends of their cool-downs.
    pub(super) cooling: SmallVec<[(&'a Member, Timestamp); 4]>,
    /// Why others are not asked.
    left_out: Tally,
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
        left_out: impl IntoIterator<Item = (&'a Member, Result<Decision, DecisionError>)>,
    ) -> Self {
        for (member, answer) in left_out {
            self.ready.retain(|ready| ready.id() != member.id());
            self.cooling
                .retain(|(cooling, _)| cooling.id() != member.id());
            match answer {
                Ok(never) => self.left_out.refused(member, never),
                Err(error) => self.left_out.failed(error),
            }
        }
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
        self.left_out.clone()
    }
}

/// What the members that did not admit have said: the refusal that ends
/// soonest, that of the largest limit which never grants as much, and the error that says
/// most.
#[derive(Clone, Default)]
pub(super) struct Tally {
    /// Clocks of several sets may differ; waits can be compared.
    soonest: Option<(Span, Decision)>,
    never: Option<Decision>,
    error: Option<DecisionError>,
}

impl Tally {
    pub(super) fn refused(&mut self, member: &Member, decision: Decision) {
        let Some(at) = decision.not_until() else {
            let most = decision.most_at_once();
            if self
                .never
                .as_ref()
                .is_none_or(|never| never.most_at_once() < most)
            {
                self.never = Some(member.decided(decision));
            }
            return;
        };
        let wait = at.since(member.inner().clock.now());
        if self.soonest.as_ref().is_none_or(|(least, _)| wait < *least) {
            self.soonest = Some((wait, member.decided(decision)));
        }
    }

    /// Whether any of them has refused for now.
    pub(super) const fn is_refusal(&self) -> bool {
        self.soonest.is_some()
    }

    pub(super) fn failed(&mut self, error: DecisionError) {
        if self.error.as_ref().is_none_or(|e| rank(e) < rank(&error)) {
            self.error = Some(error);
        }
    }

    /// The refusal that ends soonest. If there is none: *cannot tell* says more than
    /// *never*, for it may pass; that more than any other error.
    pub(super) fn decision(self) -> Result<Decision, DecisionError> {
        match (self.soonest, self.never, self.error) {
            (Some((_, decision)), ..) => Ok(decision),
            (None, _, Some(error)) if rank(&error) == CANNOT_TELL => Err(error),
            (None, Some(never), _) => Ok(never),
            (None, None, error) => Err(error.unwrap_or(RequestError::NothingRequested.into())),
        }
    }
}

const CANNOT_TELL: u8 = 2;

/// *Cannot tell* says more than a request that makes no sense; and that more than a name
/// that one member does not know.
fn rank(error: &DecisionError) -> u8 {
    match error {
        DecisionError::Store(_)
        | DecisionError::QueueFull(_)
        | DecisionError::RootQueueFull(_)
        | DecisionError::Stopped => CANNOT_TELL,
        DecisionError::Request(
            RequestError::UnknownLimit { .. }
            | RequestError::OtherSet
            | RequestError::LimitRemoved { .. },
        ) => 0,
        _ => 1,
    }
}

/// What a member has answered, as that of a pool.
pub(super) fn sign(member: &Member, admission: Admission) -> Admission {
    match admission {
        Admission::Granted(lease) => Admission::Granted(lease.of(member)),
        Admission::Refused(decision) => Admission::Refused(member.decided(decision)),
    }
}
