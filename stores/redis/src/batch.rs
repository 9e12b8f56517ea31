//! A batch of one root: so many commands as one call (`lua/batch.lua`), in their order and at one
//! instant, each on its own shortest way. Where one needs more than is at hand, the call ends
//! before it, and the next begins with it and what it needs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tidegate_store::{Answer, KeyCommand, KeyPath, Op, OwnedCommand, StoreError};
use tokio::time::Instant;

use crate::encoded::Encoded;
use crate::error::garbled;
use crate::inner::Inner;
use crate::known::Known;
use crate::link::text;
use crate::plain::Plainly;
use crate::request::Request;
use crate::wire::reply;
use crate::wire::together::{Deciding, Together};

/// So many commands are one call at most: the server does nothing else meanwhile, for about ten
/// milliseconds where each is for the whole script.
const MOST_AT_ONCE: usize = 250;

/// How far a batch has come.
#[derive(Default)]
struct Progress {
    /// The instant at which all is decided, as the server said it, and since when, by this process.
    time: Option<([Arc<[u8]>; 2], Instant)>,
    /// The next command, where the whole script is to be asked for it.
    next: Option<Request>,
    /// Revisions that were met, and those that lead from them to the plan.
    met: BTreeSet<i64>,
    revisions: Vec<Arc<[u8]>>,
}

/// For so long later calls decide by the instant of the first. The server keeps a row that has
/// drained for a second longer: after that it would be taken for one that was never used.
const LONGEST: Duration = Duration::from_millis(500);

impl Progress {
    /// The instant at which all is decided; `None`: as of the next call.
    fn instant(&self) -> Option<[Arc<[u8]>; 2]> {
        let (time, since) = self.time.as_ref()?;
        (since.elapsed() < LONGEST).then(|| time.clone())
    }
}

impl Inner {
    /// Pushes an answer to each of `batch`, which is of one root.
    pub(crate) async fn decide_together(
        self: &Arc<Self>,
        batch: &OwnedCommand,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        let mut progress = Progress::default();
        loop {
            let known = self.known_of(batch).await?;
            let calls = self.calls(batch, answers.len(), &mut progress);
            let Some(now) = calls.first().map(Encoded::now) else {
                return Ok(());
            };
            // All are of one root.
            let counted = calls.iter().find_map(Encoded::counted);
            let replies = self.call_together(&known, &calls, &mut progress);
            let replies = self.entered_before(counted, now, replies).await?;
            let before = answers.len();
            let mut asked = calls.into_iter();
            for (value, call) in replies.zip(asked.by_ref()) {
                match self.take_in(&known, call, value, &mut progress).await? {
                    Some(Err(error @ StoreError::Unavailable(_))) => return Err(error),
                    Some(answer) => answers.push(answer),
                    None => break,
                }
            }
            if answers.len() == before && progress.next.is_none() {
                return Err(garbled("no replies"));
            }
        }
    }

    /// The next commands of `batch`, each on its way, from the one at `from` on.
    fn calls(
        self: &Arc<Self>,
        batch: &OwnedCommand,
        from: usize,
        progress: &mut Progress,
    ) -> Vec<Encoded> {
        let settled = batch.lend(|command| self.changes.settled_on(command.plan));
        let settled = settled.filter(|_| progress.revisions.is_empty());
        let first = progress.next.take().map(Encoded::Whole);
        let skipped = from + usize::from(first.is_some());
        let encode = |command: &KeyCommand<'_>| match &settled {
            Some(settled) => self.encoded(command, Some(Arc::clone(settled))),
            None => Encoded::Whole(Request::of(command, self.shared.clock, &self.names)),
        };
        let others: Vec<_> = batch.lend(|command| {
            let Op::Batch(items) = command.op else {
                return Vec::new();
            };
            let items = items.iter().skip(skipped);
            let items = items.take(MOST_AT_ONCE - usize::from(first.is_some()));
            items
                .map(|&(path, verb)| encode(&command.one(path, verb)))
                .collect()
        });
        first.into_iter().chain(others).collect()
    }

    /// What the server says to each, as far as it got.
    async fn call_together(
        &self,
        known: &Known,
        calls: &[Encoded],
        progress: &mut Progress,
    ) -> Result<impl Iterator<Item = Value> + use<>, StoreError> {
        let shared = &self.shared;
        let (instant, begun) = (progress.instant(), Instant::now());
        let is_first = instant.is_none();
        let mut together = Together::new(instant);
        for call in calls {
            match call {
                Encoded::Plain(plain, call) => {
                    let (_, arguments) = plain.call(call, shared.clock, &shared.scripts);
                    let by = match plain.is_alone(call) {
                        true => Deciding::SingleBucket,
                        false => Deciding::Straight,
                    };
                    together.add(by, call.keys(), &arguments);
                }
                Encoded::Whole(request) => {
                    let arguments = request.arguments(known, &progress.revisions);
                    together.add(Deciding::Whole, &request.keys, &arguments);
                }
            }
        }
        let (keys, arguments) = together.done();
        let script = &shared.scripts.batch;
        let Value::Array(replies) = shared.link.call(script, &keys, &arguments).await? else {
            return Err(garbled("no replies"));
        };
        let mut replies = replies.into_iter();
        let Some(Value::Array(time)) = replies.next() else {
            return Err(garbled("no instant"));
        };
        let time: Option<Vec<Arc<[u8]>>> = time
            .into_iter()
            .map(|part| text(part).map(Into::into))
            .collect();
        let time = time.and_then(|time| time.try_into().ok());
        let time = time.ok_or_else(|| garbled("no instant"))?;
        if is_first {
            progress.time = Some((time, begun));
        }
        Ok(replies)
    }

    /// The answer to one; `None`: it is to be asked again, as the progress says.
    async fn take_in(
        self: &Arc<Self>,
        known: &Known,
        call: Encoded,
        value: Value,
        progress: &mut Progress,
    ) -> Result<Option<Answer>, StoreError> {
        let mut request = match call {
            Encoded::Plain(_, call) => match self.read_plain(&call, value) {
                Ok(Plainly::Reply(reply)) => return Ok(Some(Ok(reply))),
                Ok(_) => {
                    let whole = Request::of(&call.command(), self.shared.clock, &self.names);
                    progress.next = Some(whole);
                    return Ok(None);
                }
                Err(error) => return Ok(Some(Err(error))),
            },
            Encoded::Whole(request) => request,
        };
        match reply::read(value, &request.deciding, request.now) {
            Ok(reply::Answer::Reply(reply) | reply::Answer::Kept(reply)) => {
                return Ok(Some(Ok(reply)));
            }
            Ok(reply::Answer::Revisions(more, now)) => {
                progress.met.extend(more);
                let (link, own) = (&self.shared.link, &known.registered);
                let leading = self.registry.leading_to(link, &progress.met, now, own);
                progress.revisions = leading.await?;
            }
            Ok(reply::Answer::More(owners)) => {
                for owner in owners {
                    let path = KeyPath::stored(&owner, request.plan.levels());
                    let path = path.map_err(|_| garbled("a lease of no key"))?;
                    request.add_rows(&path, &self.names);
                }
            }
            // By itself it says how it fails.
            Ok(reply::Answer::NotPlain) => {
                return Ok(Some(self.answer_alone(&mut request).await));
            }
            Ok(_) => return Ok(Some(Err(garbled("no reply")))),
            Err(error) => return Ok(Some(Err(error))),
        }
        progress.next = Some(request);
        Ok(None)
    }
}
