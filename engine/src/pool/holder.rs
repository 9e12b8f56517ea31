//! Which member holds the lease that an idempotent ask was given before.
//!
//! The process remembers it of its own grants (`repeats`). What another process was
//! granted, the members' store knows: each member is asked, all at once, before anything
//! is taken anew. Two processes that ask the same at the same moment may still be granted
//! by two members. A member whose store cannot tell is passed over, as it is by the take.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use smallvec::SmallVec;

use super::member::Member;
use crate::ask::Ask;

/// Whether one member holds it.
type Look<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// The first of `members` that says so; none of them takes anything.
pub(super) async fn holder<'a>(
    members: &'a [Member],
    key: &'a [u8],
    ask: &'a Ask<'a>,
) -> Option<&'a Member> {
    ask.idempotency?;
    let shared = members.iter().filter(|member| member.inner().shared);
    let look = |member: &'a Member| -> (&'a Member, Look<'a>) {
        let set = member.inner();
        let look = async move { set.has_granted(key, ask).await.unwrap_or(false) };
        (member, Box::pin(look))
    };
    let mut looks: SmallVec<[(&Member, Look<'_>); 4]> = shared.map(look).collect();
    poll_fn(|context| {
        let mut at = 0;
        while let Some((member, look)) = looks.get_mut(at) {
            match look.as_mut().poll(context) {
                Poll::Ready(true) => return Poll::Ready(Some(*member)),
                Poll::Ready(false) => drop(looks.remove(at)),
                Poll::Pending => at += 1,
            }
        }
        match looks.is_empty() {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    })
    .await
}
