//! One lease, renewed until its holder lets go or it is lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Span, Timestamp};
use tidegate_store::{OwnedKey, StoreError};

use super::pace::Pace;
use super::tenure::{End, Loss, Tenure, sure_until};
use super::watch::Ending;
use crate::clock::Sleep;
use crate::error::Error;
use crate::lease::Lease;
use crate::lease_id::LeaseId;
use crate::pool::Member;
use crate::set::Inner;

/// Why a permit is not renewed any more.
const LAST: &str = "it was held for as long as it may be";

/// What is renewed, and how.
pub(super) struct Renewal {
    set: Arc<Inner>,
    /// The pool's member that gave it.
    member: Option<Member>,
    key: OwnedKey,
    id: LeaseId,
    ttl: Duration,
    tenure: Arc<Tenure>,
}

/// What a renewal came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Renewed {
    /// It is held for its ttl again.
    Whole,
    /// It is held for as long as it may be, and not renewed any more.
    Rest,
    Lost,
}

impl Renewal {
    pub(super) fn new(lease: &Lease, ttl: Duration, tenure: &Arc<Tenure>) -> Self {
        Self {
            set: Arc::clone(lease.set()),
            member: lease.source().cloned(),
            key: OwnedKey::new(lease.key()),
            id: lease.id(),
            ttl,
            tenure: Arc::clone(tenure),
        }
    }

    /// Renews until the permit is given back or lost: then also if a renewal is
    /// under way that nobody answers.
    pub(super) async fn run(self) {
        let (mut ending, mut renewing) = (Ending::of(&self.tenure), pin!(self.go_on()));
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
            Sleep::until(self.tenure.clock.clone(), due).await;
            self.tenure.ask();
            due = match self.renew().await {
                Ok(Renewed::Whole) => self.after(|left| pace.answered(left)),
                Ok(Renewed::Rest | Renewed::Lost) => return,
                Err(error) => {
                    self.tenure.note(error.to_string());
                    self.after(|left| pace.unanswered(left))
                }
            };
        }
    }

    /// When it is asked for again, by what is left: of one instant, however long
    /// this thread stands still meanwhile.
    fn after(&self, pause: impl FnOnce(Duration) -> Duration) -> Timestamp {
        let now = self.tenure.clock.now();
        let left = self.tenure.sure_until().since(now).as_duration();
        now + Span::from(pause(left))
    }

    /// Renews it now.
    ///
    /// # Errors
    /// *Cannot tell*.
    pub(super) async fn renew(&self) -> Result<Renewed, Error> {
        // Read once: by the time of the answer less may be left, which has not been
        // asked for yet.
        let length = self.length();
        let renewed = match length < self.ttl {
            true => Renewed::Rest,
            false => Renewed::Whole,
        };
        if length < Span::MILLISECOND.as_duration() {
            self.tenure.note(LAST.to_owned());
            return Ok(renewed);
        }
        let answer = self.set.renew(self.key.bytes(), self.id.0, length);
        let loss = match answer.await {
            Ok(until) => {
                let sure = sure_until(until, Span::from(length), self.set.has_own_clock);
                self.tenure.extend(sure);
                if let Some(member) = &self.member {
                    member.renewed(self.id, until);
                }
                if renewed == Renewed::Rest {
                    self.tenure.note(LAST.to_owned());
                }
                return Ok(renewed);
            }
            Err(Error::Store(StoreError::LeaseEnded(_))) => Loss::Ended,
            Err(Error::Store(StoreError::UnknownLease)) => Loss::Forgotten,
            Err(error) => return Err(error),
        };
        self.tenure.finish(End::Lost(loss));
        Ok(Renewed::Lost)
    }

    /// For how long it is renewed now: its ttl, or what is left of the longest hold.
    fn length(&self) -> Duration {
        let longest = self.tenure.longest;
        let left = longest.map(|until| until.since(self.tenure.clock.now()).as_duration());
        left.map_or(self.ttl, |left| left.min(self.ttl))
    }
}
