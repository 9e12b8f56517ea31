//! Members that are asked, and those of them that are late.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Span, Timestamp};
use tidegate_store::StoreError;

use super::member::Member;
use crate::clock::{Clock, Sleep};
use crate::error::DecisionError;

/// After so long without an answer a member is late. Longer than a breaker is patient, so
/// that one before a store that hangs counts it as a failure.
pub(super) const LATE: Duration = Duration::from_millis(300);

/// When who is asked now is late.
pub(super) fn late(clock: &Clock) -> Sleep {
    Sleep::until(clock.clone(), clock.now() + Span::from(LATE))
}

/// What is said of a member that is late and not waited for.
pub(super) fn no_answer() -> DecisionError {
    let words = format!("no answer within {} ms", LATE.as_millis());
    StoreError::Unavailable(words).into()
}

/// Those who are being asked. Dropped, they give back what they take.
pub(super) struct Asked<M, F: ?Sized>(SmallVec<[(M, Pin<Box<F>>); 4]>);

impl<M: Copy, T, F: Future<Output = T> + ?Sized> Asked<M, F> {
    pub(super) fn of(all: impl IntoIterator<Item = (M, Pin<Box<F>>)>) -> Self {
        Self(all.into_iter().collect())
    }

    /// The first of them that has answered.
    pub(super) fn poll_one(&mut self, context: &mut Context<'_>) -> Option<(M, T)> {
        for at in 0..self.0.len() {
            let (member, asked) = &mut self.0[at];
            if let Poll::Ready(answer) = asked.as_mut().poll(context) {
                let member = *member;
                drop(self.0.remove(at));
                return Some((member, answer));
            }
        }
        None
    }

    /// This member's, if it is among them.
    pub(super) fn take(&mut self, is_it: impl Fn(M) -> bool) -> Option<Pin<Box<F>>> {
        let at = self.0.iter().position(|(member, _)| is_it(*member))?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn into_each(self) -> impl Iterator<Item = (M, Pin<Box<F>>)> {
        self.0.into_iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is so of any.
    fn any(&self, is_it: impl Fn(M) -> bool) -> bool {
        self.0.iter().any(|(member, _)| is_it(*member))
    }

    /// Asks none of these any more; which they are.
    pub(super) fn give_up_if(&mut self, is_it: impl Fn(M) -> bool) -> impl Iterator<Item = M> {
        let (given_up, left) = self.0.drain(..).partition(|(member, _)| is_it(*member));
        self.0 = left;
        let given_up: SmallVec<[(M, Pin<Box<F>>); 4]> = given_up;
        given_up.into_iter().map(|(member, _)| member)
    }

    /// Asks none of them any more; who has not answered.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = M> + '_ {
        self.0.drain(..).map(|(member, _)| member)
    }
}

/// Whether those that are late are waited for once there is nobody else to ask.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Latecomers {
    /// Until each has answered.
    AreWaitedFor,
    /// No longer.
    AreLeft,
}

/// A member, and the end of its cool-down.
pub(super) type One<'a> = (&'a Member, Option<Timestamp>);

type Members<'a> = SmallVec<[One<'a>; 8]>;

/// Asks `members` one after the other, until `read` comes to something: the next one when
/// the one before has answered, or is [late](LATE). So all of them together take no longer
/// than the slowest, and a little for each that is late. If it comes to nothing, those
/// that are still being asked.
///
/// Of members on one store none is asked beside another, which would be as late, and charged
/// as well; and none after one at which the store could not be reached.
pub(super) async fn in_turn<'a, T, R, F: Future<Output = Result<T, DecisionError>>>(
    members: impl Iterator<Item = One<'a>>,
    latecomers: Latecomers,
    clock: &Clock,
    question: impl Fn(One<'a>) -> F,
    mut read: impl FnMut(One<'a>, Result<T, DecisionError>) -> Option<R>,
) -> Result<R, Asked<One<'a>, F>> {
    let mut members: Members<'a> = members.collect();
    let mut behind: Asked<One<'a>, F> = Asked::of([]);
    let mut asked = None;
    let mut waits: Option<Sleep> = None;
    let found = poll_fn(|context| {
        let mut heard =
            |one: One<'a>, answer: Result<T, DecisionError>, members: &mut Members<'a>| {
                if let Err(error) = &answer
                    && is_outage(error)
                {
                    let is_lost = |(other, _): &One<'a>| other.is_beside(one.0);
                    let (lost, left): (Members<'a>, _) = members.drain(..).partition(is_lost);
                    *members = left;
                    for other in lost {
                        read(other, Err(DecisionError::clone(error)));
                    }
                }
                read(one, answer)
            };
        loop {
            while let Some((one, answer)) = behind.poll_one(context) {
                if let Some(read) = heard(one, answer, &mut members) {
                    return Poll::Ready(Some(read));
                }
            }
            if asked.is_none() {
                let is_free = |(one, _): &One<'a>| !behind.any(|late| late.0.is_beside(one));
                let next = members.iter().position(is_free);
                let next = next.map(|at| members.remove(at));
                asked = next.map(|one| (one, Box::pin(question(one))));
                waits = None;
            }
            let Some((one, answer)) = &mut asked else {
                let is_over = behind.is_empty() || latecomers == Latecomers::AreLeft;
                return match is_over {
                    true => Poll::Ready(None),
                    false => Poll::Pending,
                };
            };
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                let one = *one;
                asked = None;
                if let Some(read) = heard(one, answer, &mut members) {
                    return Poll::Ready(Some(read));
                }
            } else {
                let wait = waits.get_or_insert_with(|| late(clock));
                if Pin::new(wait).poll(context).is_pending() {
                    return Poll::Pending;
                }
                behind.0.extend(asked.take());
            }
        }
    })
    .await;
    found.ok_or(behind)
}

/// Whether a store could not be reached.
fn is_outage(error: &DecisionError) -> bool {
    matches!(error, DecisionError::Store(error) if error.outage().is_some())
}
