//! Members that are asked, and those of them that are late.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::Span;

use crate::clock::{Clock, Sleep};

/// After so long without an answer a member is late. Longer than a breaker is patient, so
/// that one before a store that hangs counts it as a failure.
pub(super) const LATE: Duration = Duration::from_millis(300);

/// When who is asked now is late.
pub(super) fn late(clock: &Clock) -> Sleep {
    Sleep::until(clock.clone(), clock.now() + Span::from(LATE))
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

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks none of them any more; who has not answered.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = M> + '_ {
        self.0.drain(..).map(|(member, _)| member)
    }
}

/// Asks `members` one after the other, until `read` comes to something: the next one when
/// the one before has answered, and beside it once that one is [late](LATE). So all of them
/// together take no longer than the slowest, and a little for each.
pub(super) async fn in_turn<M: Copy, T, R, F: Future<Output = T>>(
    members: impl Iterator<Item = M>,
    clock: &Clock,
    ask: impl Fn(M) -> F,
    mut read: impl FnMut(M, T) -> Option<R>,
) -> Option<R> {
    let mut next = members.map(|member| (member, Box::pin(ask(member))));
    let mut asked = Asked::of(next.next());
    let mut waits: Option<Sleep> = None;
    poll_fn(|context| {
        loop {
            if let Some((member, answer)) = asked.poll_one(context) {
                if let Some(read) = read(member, answer) {
                    return Poll::Ready(Some(read));
                }
                if !asked.is_empty() {
                    continue;
                }
            } else if asked.is_empty() {
                return Poll::Ready(None);
            } else {
                let wait = waits.get_or_insert_with(|| late(clock));
                if Pin::new(wait).poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
            match next.next() {
                Some(one) => {
                    asked.0.push(one);
                    waits = None;
                }
                None if asked.is_empty() => return Poll::Ready(None),
                None => return Poll::Pending,
            }
        }
    })
    .await
}
