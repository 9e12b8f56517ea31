//! A command's way to the server: the short one, if that may do, and else the whole script's.

use std::sync::Arc;

use redis::Value;
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::{KeyCommand, Reply, StoreError};

use crate::error::garbled;
use crate::inner::Inner;
use crate::known::Known;
use crate::plain::{Plain, PlainCall, Plainly};
use crate::request::Request;
use crate::shared::Shared;
use crate::wire::reply::Answer;

/// A command on its way.
pub(crate) enum Encoded {
    /// By a short script.
    Plain(Arc<Plain>, PlainCall),
    /// By the whole one.
    Whole(Request),
}

impl Encoded {
    /// The root under which it may use something that is counted, and for how long that is kept.
    pub(crate) fn counted(&self) -> Option<(&[u8], Span)> {
        match self {
            Self::Plain(_, call) => call.counted(),
            Self::Whole(request) => {
                let (root, keep) = request.counted.as_ref()?;
                Some((root, *keep))
            }
        }
    }

    /// When it was made.
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Plain(_, call) => call.now(),
            Self::Whole(request) => request.now,
        }
    }
}

impl Inner {
    /// A command on its shortest way, by the revision of its plan, if that is settled.
    pub(crate) fn encoded(
        self: &Arc<Self>,
        command: &KeyCommand<'_>,
        settled: Option<Arc<Known>>,
    ) -> Encoded {
        if let Some(known) = settled.as_ref().filter(|_| self.registry.is_time_to_look()) {
            self.look_after(known);
        }
        let plain = settled.and_then(|known| known.plain.clone());
        let plain = plain.filter(|_| !self.not_plain.spend());
        let call = plain.and_then(|plain| Some((plain, PlainCall::of(command, &self.names)?)));
        match call {
            Some((plain, call)) if call.is_single_bucket() && self.not_single_bucket.spend() => {
                Encoded::Plain(plain, call.not_single_bucket())
            }
            Some((plain, call)) => Encoded::Plain(plain, call),
            None => Encoded::Whole(Request::of(command, self.shared.clock, &self.names)),
        }
    }

    /// Beside whatever is asked: nobody waits for it.
    fn look_after(self: &Arc<Self>, known: &Arc<Known>) {
        let (inner, known) = (Arc::clone(self), Arc::clone(known));
        self.shared.link.driver().tasks().spawn(async move {
            let Shared { link, scripts, .. } = &*inner.shared;
            let own = &known.registered;
            if inner.registry.look_after(link, scripts, own).await {
                // What is beside the plans may be lost with them.
                inner.entered.forget();
            }
        });
    }

    /// What it comes to.
    pub(crate) async fn answer_to(
        self: &Arc<Self>,
        encoded: Encoded,
    ) -> Result<Answer, StoreError> {
        let mut request = match encoded {
            Encoded::Plain(plain, call) => match self.query_plain(&plain, &call).await? {
                Some(reply) => return Ok(Answer::Reply(reply)),
                None => Request::of(&call.command(), self.shared.clock, &self.names),
            },
            Encoded::Whole(request) => request,
        };
        // The shortest way is not moved with all that this needs.
        Box::pin(self.answer(&mut request)).await
    }

    /// The same, as a reply.
    pub(crate) async fn execute(self: Arc<Self>, encoded: Encoded) -> Result<Reply, StoreError> {
        reply_of(self.answer_to(encoded).await?)
    }

    /// The reply of the whole script to one of a batch, by itself.
    pub(crate) async fn answer_alone(
        self: &Arc<Self>,
        request: &mut Request,
    ) -> Result<Reply, StoreError> {
        reply_of(self.answer(request).await?)
    }

    /// The answer to a plain call, if all about it is plain.
    async fn query_plain(
        &self,
        plain: &Plain,
        call: &PlainCall,
    ) -> Result<Option<Reply>, StoreError> {
        let shared = &self.shared;
        if self.changes.settled_on(call.plan()).is_none() {
            return Ok(None);
        }
        let (script, arguments) = plain.call(call, shared.clock, &shared.scripts);
        let answer = shared.link.call(script, call.keys(), &arguments);
        let answer = self.entered_before(call.counted(), call.now(), answer);
        match self.read_plain(call, answer.await?)? {
            Plainly::Reply(reply) => Ok(Some(reply)),
            Plainly::Seldom | Plainly::Once => Ok(None),
        }
    }

    /// What a plain call came to; the next may be likely to come to the same.
    pub(crate) fn read_plain(
        &self,
        call: &PlainCall,
        answer: Value,
    ) -> Result<Plainly, StoreError> {
        let told = call.read(answer)?;
        match told {
            Plainly::Seldom if call.is_single_bucket() => self.not_single_bucket.fill(),
            Plainly::Seldom => self.not_plain.fill(),
            Plainly::Reply(_) | Plainly::Once => {}
        }
        Ok(told)
    }
}

fn reply_of(answer: Answer) -> Result<Reply, StoreError> {
    match answer {
        Answer::Reply(reply) | Answer::Kept(reply) => Ok(reply),
        _ => Err(garbled("no reply")),
    }
}
