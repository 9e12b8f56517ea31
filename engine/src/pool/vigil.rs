//! One ask in the lines of all members at once.
//!
//! The lines share a flag: whoever would grant takes it first, so that at most
//! one member ever grants, and the others pass over the ask from then on. A
//! member that cools down keeps the ask in line and passes over it until then.
//! Dropped, the vigil gives back every place, and the lease if one was given.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tidegate_core::Timestamp;

use super::ledger::Ledger;
use super::member::Member;
use super::walk::{Candidates, Tally};
use crate::ask::Ask;
use crate::clock::Clock;
use crate::decision::Admission;
use crate::error::Error;
use crate::wait::{self, Race, Turn};

/// The future of one who waits for any of a pool's members.
#[must_use = "nobody waits until it is polled"]
pub(super) struct Vigil {
    turns: SmallVec<[Standing; 4]>,
    tally: Tally,
    ledger: Arc<Ledger>,
    clock: Clock,
    since: Timestamp,
    told: bool,
}

/// A place in one member's line, until it is told.
struct Standing {
    member: Member,
    turn: Option<Turn>,
}

impl Vigil {
    /// Stands in the lines of all candidates; of those that cannot serve the
    /// ask, `tally` learns why.
    pub(super) fn stand(
        candidates: &Candidates<'_>,
        (key, ask): (&[u8], &Ask<'_>),
        ledger: &Arc<Ledger>,
        clock: &Clock,
    ) -> Self {
        ledger.begin_wait();
        let mut vigil = Self {
            turns: SmallVec::new(),
            tally: Tally::default(),
            ledger: Arc::clone(ledger),
            clock: clock.clone(),
            since: clock.now(),
            told: false,
        };
        let race = Race::default();
        let cooling = candidates.cooling.iter().map(|(member, _)| member);
        for member in candidates.ready.iter().chain(cooling) {
            vigil.join(member, key, ask, &race);
            if race.is_won() {
                break;
            }
        }
        vigil
    }

    fn join(&mut self, member: &Member, key: &[u8], ask: &Ask<'_>, race: &Race) {
        match wait::stand(member, key, ask, race) {
            Ok(turn) => self.turns.push(Standing {
                member: member.clone(),
                turn: Some(turn),
            }),
            Err(error) => self.tally.failed(error),
        }
    }

    /// The lease, if a line has given it.
    fn granted(&mut self, context: &mut Context<'_>) -> Option<Admission> {
        for Standing { member, turn } in &mut self.turns {
            let Some(Poll::Ready(answer)) = turn.as_mut().map(|t| Pin::new(t).poll(context)) else {
                continue;
            };
            *turn = None;
            if let Some(granted) = self.tally.add(member, answer) {
                return Some(granted);
            }
        }
        None
    }

    fn over(&mut self) {
        self.told = true;
        self.turns.clear();
        self.ledger.end_wait();
    }
}

impl Future for Vigil {
    type Output = Result<Admission, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let granted = self.granted(context);
        let waits = self.turns.iter().any(|standing| standing.turn.is_some());
        if granted.is_none() && waits {
            return Poll::Pending;
        }
        self.over();
        let admission = match granted {
            Some(granted) => granted,
            None => Admission::Refused(std::mem::take(&mut self.tally).decision()?),
        };
        let wait = self.clock.now().since(self.since);
        self.ledger.waited(&admission, wait);
        Poll::Ready(Ok(admission))
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        if !self.told {
            self.over();
            self.ledger.counters.abandoned();
        }
    }
}
