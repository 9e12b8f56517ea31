//! One who stands in the lines of several sets at once: a pool's ask.

use std::sync::Arc;

use tidegate_contract::sync::Mutex;

use super::waiter::{Answer, Manner, Turn, Waiter};
use crate::ask::Ask;
use crate::decision::Admission;
use crate::error::Error;
use crate::pool::Member;

/// Whether one of the lines has granted. An offer is made under its lock, so
/// that at most one ever grants: nothing is granted twice to be given back
/// later, and no offer is lost because another was being made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Race(Arc<Mutex<bool>>);

impl Race {
    /// What `offer` answers, unless another line has granted already.
    pub(super) fn run(&self, offer: impl FnOnce() -> Answer) -> Option<Answer> {
        let mut won = self.0.lock();
        if *won {
            return None;
        }
        let answer = offer();
        *won = answer.as_ref().is_ok_and(|decision| decision.admitted());
        Some(answer)
    }

    pub(crate) fn is_won(&self) -> bool {
        *self.0.lock()
    }
}

/// The member in whose line one stands, and the race with the others' lines.
#[derive(Debug)]
pub(super) struct Pooled {
    pub(super) member: Member,
    pub(super) race: Race,
}

impl Pooled {
    /// The admission as this member's.
    pub(super) fn sign(&self, admission: Admission) -> Admission {
        sign(&self.member, admission)
    }
}

/// Takes a lease of `member` now or not at all. The set counts a grant; a
/// refusal is the pool's to count, for another member may grant.
pub(crate) fn try_member(member: &Member, key: &[u8], ask: &Ask<'_>) -> Result<Admission, Error> {
    let set = member.inner();
    let decision = super::decide_now(set, key, ask)?;
    if decision.admitted() {
        set.counters.decided(true);
    }
    Ok(sign(member, super::admission(set, key, decision)))
}

/// Stands in the line of `member`, as one of several.
pub(crate) fn stand(
    member: &Member,
    key: &[u8],
    ask: &Ask<'_>,
    race: &Race,
) -> Result<Turn, Error> {
    let (set, aim) = (member.inner(), super::aim(ask)?);
    let pooled = Pooled {
        member: member.clone(),
        race: race.clone(),
    };
    let waiter = Waiter::new(set, key, ask, aim, Manner::Pooled(pooled))?;
    super::join(set, ask, waiter)
}

fn sign(member: &Member, admission: Admission) -> Admission {
    match admission {
        Admission::Granted(lease) => Admission::Granted(lease.of(member)),
        Admission::Refused(decision) => Admission::Refused(decision.of(member)),
    }
}
