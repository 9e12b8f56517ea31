//! Which member holds the lease that an idempotent request was given before.
//!
//! The process remembers it of its own grants (`repeats`). What another process was
//! granted, the members' stores know: each member is asked, all at once, before anything
//! is taken anew. A member that fails, or is [late] while others on other stores have
//! answered, is left out of the request: it holds up nobody, and what it may hold is not found.
//! A store that has answered for one member answers for the others on it within its deadline.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use smallvec::SmallVec;

use super::member::Member;
use super::round::{Asked, late, no_answer};
use super::walk::LeftOut;
use crate::clock::{Clock, Sleep};
use crate::error::DecisionError;
use crate::request::Request;

/// What the members have said.
#[derive(Default)]
pub(super) struct Found<'a> {
    /// The one that holds the lease.
    pub(super) holder: Option<&'a Member>,
    /// Those that could not tell, and why: they are asked for no grant.
    pub(super) left_out: LeftOut<'a>,
}

/// Whether one member holds it; `None`: nobody can tell.
type Look<'a> = dyn Future<Output = Result<Option<bool>, DecisionError>> + Send + 'a;

/// Asks all `members` at once which of them granted `request` before; none of them takes
/// anything. It answers as soon as one says so, or all have answered, or those that have
/// not are late and another is left to decide.
///
/// A retry is granted a second lease while it holds the first if the member that holds
/// the first cannot be asked (its store is away, its breaker is open, or it does not
/// answer within [`LATE`](super::round::LATE), or every limit of it refuses nobody),
/// another member grants, and this process does not remember the first. Two processes
/// that ask the same at the same moment may be granted by two members, too. A lease that
/// is held twice so ends with its own expiry.
pub(super) async fn holder<'a>(
    members: &'a [Member],
    key: &'a [u8],
    request: &'a Request<'a>,
    clock: &Clock,
) -> Found<'a> {
    // What these hold is there after this process has started again.
    let outlives = |member: &&Member| member.inner().shared || member.inner().loses_answers;
    if request.idempotency.is_none() || !members.iter().any(|member| outlives(&member)) {
        return Found::default();
    }
    let look = |member: &'a Member| -> (&'a Member, Pin<Box<Look<'a>>>) {
        (member, Box::pin(member.inner().has_granted(key, request)))
    };
    let mut round = Round {
        looks: Asked::of(members.iter().filter(outlives).map(look)),
        can_decide: members.iter().any(|member| !outlives(&member)),
        answered: SmallVec::new(),
        late: Some(late(clock)),
        found: Found::default(),
    };
    poll_fn(|context| round.poll(context)).await;
    round.found
}

/// All members are being asked.
struct Round<'a> {
    looks: Asked<&'a Member, Look<'a>>,
    /// Whether a member is there that needs not be asked, or has answered.
    can_decide: bool,
    /// Whose stores have answered.
    answered: SmallVec<[&'a Member; 8]>,
    /// Until those that have not answered are late; `None` once they are.
    late: Option<Sleep>,
    found: Found<'a>,
}

impl<'a> Round<'a> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some((member, answer)) = self.looks.poll_one(context) {
            match answer {
                Ok(Some(true)) => {
                    self.found.holder = Some(member);
                    return Poll::Ready(());
                }
                Ok(has_granted) => {
                    self.can_decide = true;
                    // Where nobody can tell, no store was asked.
                    if has_granted.is_some() {
                        self.answered.push(member);
                    }
                }
                Err(error) => self.found.left_out.push((member, Err(error))),
            }
        }
        if self.looks.is_empty() {
            return Poll::Ready(());
        }
        let is_over = |late: &mut Sleep| Pin::new(late).poll(context).is_ready();
        drop(self.late.take_if(is_over));
        if self.late.is_some() || !self.can_decide {
            return Poll::Pending;
        }
        self.leave_out_the_late();
        match self.looks.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Those on a store of which none has answered are not waited for.
    fn leave_out_the_late(&mut self) {
        let answered = &self.answered;
        let is_late = |member: &'a Member| !answered.iter().any(|other| other.is_beside(member));
        let late = self.looks.give_up_if(is_late);
        let late = late.map(|member| (member, Err(no_answer())));
        self.found.left_out.extend(late);
    }
}
