//! One lease, renewed until its holder ends it or it is lost.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Span, Timestamp};
use tidegate_store::OwnedKey;

use super::ending::Ending;
use super::pace::Pace;
use super::term::{End, Loss, Term, sure_until};
use super::thread::Renews;
use crate::clock::{Clock, Sleep};
use crate::error::LeaseError;
use crate::lease_id::LeaseId;
use crate::pool::Member;
use crate::set::Inner;

/// Why a lease is not renewed any more.
const LAST: &str = "it was held for as long as it may be";

/// What is renewed, and how.
pub(crate) struct Renewal {
    pub(crate) set: Arc<Inner>,
    /// The pool's member that gave it.
    pub(crate) member: Option<Member>,
    pub(crate) key: OwnedKey,
    pub(crate) id: LeaseId,
    pub(crate) ttl: Duration,
    /// It is not renewed beyond this.
    pub(crate) longest: Option<Timestamp>,
    pub(crate) term: Arc<Term>,
}

/// What a renewal came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Renewed {
    /// It is held for its ttl again.
    Whole,
    /// It is held for as long as it may be, and not renewed any more.
    Rest,
}

impl Renews for Renewal {
    fn clock(&self) -> &Clock {
        &self.term.clock
    }

    fn due(&self) -> Option<Timestamp> {
        let now = self.term.clock.now();
        let left = self.term.sure_until().since(now).as_duration();
        let pause = Pace::new(self.ttl).answered(left);
        (!pause.is_zero()).then(|| now + Span::from(pause))
    }

    fn run(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.renewed())
    }
}

impl Renewal {
    /// Renews until the lease is ended or lost: then also if a renewal is
    /// under way that nobody answers.
    async fn renewed(self: Box<Self>) {
        let (mut ending, mut renewing) = (Ending::of(&self.term), pin!(self.go_on()));
        poll_fn(|context| {
            let ended = pin!(&mut ending).poll(context).is_ready();
            if ended || renewing.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }

    async fn go_on(&self) {
        let mut pace = Pace::new(self.ttl);
        let mut due = self.after(|left| pace.answered(left));
        loop {
            Sleep::until(self.term.clock.clone(), due).await;
            self.term.renews();
            due = match self.renew().await {
                Ok(Renewed::Whole) => self.after(|left| pace.answered(left)),
                Ok(Renewed::Rest) => return,
                Err(error) => {
                    self.term.note(error.to_string());
                    // A store that fails at once leaves no moment to be told of it.
                    if self.term.end().is_some() {
                        return;
                    }
                    self.after(|left| pace.unanswered(left))
                }
            };
        }
    }

    /// When it is asked for again, by what is left: of one instant, however long
    /// this thread stands still meanwhile.
    fn after(&self, pause: impl FnOnce(Duration) -> Duration) -> Timestamp {
        let now = self.term.clock.now();
        let left = self.term.sure_until().since(now).as_duration();
        now + Span::from(pause(left))
    }

    /// Renews it now.
    ///
    /// # Errors
    /// It is lost: the term has ended then. *Cannot tell*.
    pub(crate) async fn renew(&self) -> Result<Renewed, LeaseError> {
        // Read once: by the time of the answer less may be left, which has not been
        // asked for yet.
        let length = self.length();
        let renewed = match length < self.ttl {
            true => Renewed::Rest,
            false => Renewed::Whole,
        };
        if length < Span::MILLISECOND.as_duration() {
            self.term.note(LAST);
            return Ok(renewed);
        }
        let answer = self.set.renew(self.key.bytes(), self.id.0, length);
        let error = match answer.await {
            Ok(until) => {
                let sure = sure_until(until, Span::from(length), self.set.has_own_clock);
                self.term.extend(until, sure);
                if let Some(member) = &self.member {
                    member.renewed(self.id, until);
                }
                if renewed == Renewed::Rest {
                    self.term.note(LAST);
                }
                return Ok(renewed);
            }
            Err(error) => error,
        };
        let loss = match error {
            LeaseError::Ended(_) => Loss::Ended,
            LeaseError::Unknown => Loss::Forgotten,
            error => return Err(error),
        };
        self.term.finish(End::Lost(loss));
        Err(error)
    }

    /// For how long it is renewed now: its ttl, or what is left of the longest hold.
    fn length(&self) -> Duration {
        let left = self
            .longest
            .map(|until| until.since(self.term.clock.now()).as_duration());
        left.map_or(self.ttl, |left| left.min(self.ttl))
    }
}
