//! One request in the queues of all members at once.
//!
//! The queues share a race: at most one member grants, and what another has granted at
//! the same moment is given back untold. A member that cools down keeps the request's
//! place and passes over it until then. Dropped, the wait gives back every place, and
//! the lease if one was given.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{Span, Timestamp};
use tidegate_store::Race;

use super::ledger::Ledger;
use super::member::Member;
use super::round::{Asked, LATE, no_answer};
use super::walk::{Candidates, Tally, sign};
use crate::admission::Admission;
use crate::clock::{Clock, Sleep};
use crate::error::DecisionError;
use crate::request::Request;
use crate::set::Manner;

/// For how long one member beyond a network is asked alone.
const HEDGE: Duration = Duration::from_millis(25);

/// A request that waits for any of a pool's members.
pub(super) struct PoolWait<'a> {
    places: Asked<&'a Member, Turn<'a>>,
    tally: Tally,
    ledger: &'a Ledger,
    clock: &'a Clock,
    since: Timestamp,
    longest: Span,
    /// When a member that has not answered is late.
    ends: Sleep,
    told: bool,
}

/// What one member comes to.
pub(super) type Turn<'a> = dyn Future<Output = Result<Admission, DecisionError>> + Send + 'a;

impl<'a> PoolWait<'a> {
    /// For a request that came at `since` and has tried all `candidates`. Those of `late`
    /// have not answered: it is in line there once they refuse.
    pub(super) fn new(
        candidates: &Candidates<'a>,
        mut late: Asked<&'a Member, Turn<'a>>,
        (key, request): (&'a [u8], &'a Request<'a>),
        ledger: &'a Ledger,
        (clock, since): (&'a Clock, Timestamp),
    ) -> Self {
        ledger.begin_wait();
        let tried_for = clock.now().since(since);
        let longest = Span::from(request.patience().unwrap_or(Duration::MAX));
        let race = Race::new(HEDGE);
        let cooling = candidates.cooling.iter().map(|(member, _)| *member);
        let members = candidates.ready.iter().copied().chain(cooling);
        let place = |member: &'a Member| -> (&'a Member, Pin<Box<Turn<'a>>>) {
            let set = member.inner();
            let manner = Manner {
                since: set.clock.now() - tried_for,
                race: Some(race.clone()),
                hold: Some(member.hold()),
            };
            let tried = late.take(|one| one.id() == member.id());
            let turn = async move {
                if let Some(tried) = tried
                    && let granted @ Admission::Granted(_) = tried.await?
                {
                    return Ok(granted);
                }
                Ok(set.acquire_uncounted(key, request, manner).await?.0)
            };
            (member, Box::pin(turn))
        };
        Self {
            places: Asked::of(members.map(place)),
            tally: candidates.tally(),
            ledger,
            clock,
            since,
            longest,
            ends: Sleep::until(clock.clone(), since + longest + Span::from(LATE)),
            told: false,
        }
    }

    /// The lease of the first member that grants one; else the refusal that ends
    /// soonest.
    pub(super) async fn answer(mut self) -> Result<Admission, DecisionError> {
        let granted = poll_fn(|context| self.poll(context)).await;
        self.told = true;
        let admission = match granted {
            Some(granted) => granted,
            None => Admission::Refused(std::mem::take(&mut self.tally).decision()?),
        };
        let wait = self.clock.now().since(self.since);
        self.ledger.waited(admission.refusal(), wait, self.longest);
        Ok(admission)
    }

    /// `None` once no member has granted. The others are not polled any more when one
    /// has: dropped, they give back what they have.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Admission>> {
        while let Some((member, answer)) = self.places.poll_one(context) {
            match answer {
                Ok(granted @ Admission::Granted(_)) => {
                    let set = member.inner();
                    set.counters.admitted();
                    set.counters.waited(self.clock.now().since(self.since));
                    return Poll::Ready(Some(sign(member, granted)));
                }
                Ok(Admission::Refused(decision)) => self.tally.refused(member, decision),
                Err(error) => self.tally.failed(error),
            }
        }
        // One that answers nothing keeps nobody past the deadline, if another has refused.
        if self.tally.is_refusal() && Pin::new(&mut self.ends).poll(context).is_ready() {
            let late = self.places.give_up();
            late.for_each(|_| self.tally.failed(no_answer()));
        }
        match self.places.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }
}

impl Drop for PoolWait<'_> {
    fn drop(&mut self) {
        // What is given back may be another's turn at once: no longer this one's.
        self.places.give_up().for_each(drop);
        self.ledger.end_wait();
        if !self.told {
            self.ledger.counters.abandoned();
        }
    }
}
