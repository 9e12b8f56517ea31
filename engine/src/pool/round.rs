//! Members that are asked, and those of them that are late.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_contract::StoreError;
use tidegate_core::Span;

use crate::clock::{Clock, Sleep};
use crate::error::Error;

/// After so long without an answer a member is late. Longer than a breaker is patient, so
/// that one before a store that hangs counts it as a failure.
pub(super) const LATE: Duration = Duration::from_millis(300);

/// When who is asked now is late.
pub(super) fn late(clock: &Clock) -> Sleep {
    Sleep::until(clock.clone(), clock.now() + Span::from(LATE))
}

/// What is said of a member that is late and not waited for.
pub(super) fn no_answer() -> Error {
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

/// Asks `members` one after the other, until `read` comes to something: the next one when
/// the one before has answered, or is [late](LATE). So all of them together take no longer
/// than the slowest, and a little for each that is late. If it comes to nothing, those
/// that are still being asked.
pub(super) async fn in_turn<M: Copy, T, R, F: Future<Output = T>>(
    members: impl Iterator<Item = M>,
    latecomers: Latecomers,
    clock: &Clock,
    ask: impl Fn(M) -> F,
    mut read: impl FnMut(M, T) -> Option<R>,
) -> Result<R, Asked<M, F>> {
    let mut members = members.map(|member| (member, Box::pin(ask(member))));
    let mut behind = Asked::of([]);
    let mut asked = members.next();
    let mut waits: Option<Sleep> = None;
    let found = poll_fn(|context| {
        loop {
            while let Some((member, answer)) = behind.poll_one(context) {
                if let Some(read) = read(member, answer) {
                    return Poll::Ready(Some(read));
                }
            }
            let Some((member, answer)) = &mut asked else {
                let is_over = behind.is_empty() || latecomers == Latecomers::AreLeft;
                return match is_over {
                    true => Poll::Ready(None),
                    false => Poll::Pending,
                };
            };
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                if let Some(read) = read(*member, answer) {
                    return Poll::Ready(Some(read));
                }
            } else {
                let wait = waits.get_or_insert_with(|| late(clock));
                if Pin::new(wait).poll(context).is_pending() {
                    return Poll::Pending;
                }
                behind.0.extend(asked.take());
            }
            (asked, waits) = (members.next(), None);
        }
    })
    .await;
    found.ok_or(behind)
}
