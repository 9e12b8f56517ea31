//! A command's tries: each a transaction on a connection of its own, as the loop of
//! [`tidegate_store::optimistic`] says, with an eye for the line of those who wait.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use tidegate_net::waiting::{Outcome, kept_back};
use tidegate_store::optimistic::{Attempt, LoadRequest, OwnedKeyCommand, Step, WriteSet};
use tidegate_store::{Reply, StoreError};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::connection::Lent;
use crate::error::Trouble;
use crate::inner::Inner;
use crate::kept::Decided;
use crate::registry;
use crate::trips::{self, Loaded};
use crate::turns::{Ahead, Turn};

impl Inner {
    /// Executes a command, one that may wait at its turn; and whether others in line
    /// are first.
    pub(crate) async fn try_until_told(
        self: Arc<Self>,
        request: OwnedKeyCommand,
        mut turn: Option<&mut Turn>,
    ) -> Result<(Reply, bool), StoreError> {
        self.changes
            .follow(&request.plan, request.now, &request.calendars)?;
        let (mut backoff, begun) = (Backoff::default(), Instant::now());
        let _share = self.share(request.root()?).await?;
        loop {
            let trouble = match self.attempt(&request, turn.as_deref_mut()).await {
                Ok(Outcome::Reply(reply)) => {
                    self.prune_in_turn();
                    return Ok((reply?, false));
                }
                Ok(Outcome::Kept(refusal)) => {
                    self.prune_in_turn();
                    let reply = match refusal {
                        Some(reply) => reply,
                        None => self.refusal(&request).await?,
                    };
                    return Ok((reply, true));
                }
                Ok(Outcome::Again) => continue,
                Err(trouble) => trouble,
            };
            self.wait_again(trouble, begun, &mut backoff).await?;
        }
    }

    /// Waits before the next try, if there is to be one after this trouble.
    pub(crate) async fn wait_again(
        &self,
        trouble: Trouble,
        begun: Instant,
        backoff: &mut Backoff,
    ) -> Result<(), StoreError> {
        if matches!(trouble, Trouble::Locked(_)) && !self.may_wait_again(begun) {
            return Err(trouble.told());
        }
        backoff.after(trouble).await
    }

    /// Whether a connection and a lock can be waited for once more before the deadline.
    fn may_wait_again(&self, begun: Instant) -> bool {
        begun.elapsed() + 2 * self.shared.pool.patience() < self.shared.driver.deadline()
    }

    /// One try, on a connection of its own.
    pub(crate) async fn attempt(
        self: &Arc<Self>,
        request: &OwnedKeyCommand,
        mut turn: Option<&mut Turn>,
    ) -> Result<Outcome, Trouble> {
        let revision = self.revision_of(&request.plan).await?;
        let mut attempt = Attempt::new(request, revision, self.known.all(), self.shared.clock);
        let wanted = attempt.begin()?;
        let ahead = request.is_take().then(|| match &turn {
            Some(turn) => turn.ahead(),
            None => Ahead::ALL,
        });
        let mut lent = self.shared.pool.lend().await?;
        let loaded = self.load(&mut lent, request, &wanted, (true, ahead)).await;
        let Loaded {
            found,
            kept_at,
            stands_since,
        } = match loaded {
            Ok(loaded) => loaded,
            Err(trouble) => return Err(self.give_up(lent, trouble).await),
        };
        if let Some(turn) = &mut turn {
            turn.found(stands_since);
        }
        let now = found.now;
        let mut step = attempt.found(found);
        loop {
            let more = match step {
                Step::Done(reply) => {
                    let decided = Decided::of(request, turn, (now, kept_at));
                    return self.answer(lent, decided, reply).await;
                }
                Step::Write(write_set, reply) => {
                    let decided = Decided::of(request, turn, (now, kept_at));
                    return self.write(lent, decided, (write_set, reply)).await;
                }
                Step::Load(wanted) => {
                    let loaded = self.load(&mut lent, request, &wanted, (false, None)).await;
                    loaded.map(|loaded| attempt.found(loaded.found))
                }
                Step::Revisions(numbers) => {
                    let learned = self.learn(&mut lent, &numbers).await;
                    learned.map(|()| attempt.learned(self.known.all()))
                }
            };
            step = match more {
                Ok(step) => step,
                Err(trouble) => return Err(self.give_up(lent, trouble).await),
            };
        }
    }

    pub(crate) async fn load(
        &self,
        lent: &mut Lent,
        request: &OwnedKeyCommand,
        wanted: &LoadRequest,
        how: (bool, Option<Ahead>),
    ) -> Result<Loaded, Trouble> {
        let (root, patience) = (request.root()?, self.shared.pool.patience());
        trips::load(&mut lent.conn, self.place(), root, wanted, (how, patience)).await
    }

    /// Answers what changed nothing but, perhaps, the line.
    async fn answer(
        &self,
        mut lent: Lent,
        mut decided: Decided<'_>,
        reply: Result<Reply, StoreError>,
    ) -> Result<Outcome, Trouble> {
        let moved = match &reply {
            Ok(reply) => {
                decided
                    .move_in_line(&mut lent.conn, self.place(), reply)
                    .await
            }
            Err(_) => Ok(false),
        };
        match moved {
            Ok(true) => self.commit(lent).await?,
            Ok(false) => self.end(lent),
            Err(trouble) => return Err(self.give_up(lent, trouble).await),
        }
        Ok(decided.outcome(Some(reply)))
    }

    /// Writes and commits. An answer that does not come leaves it open whether the
    /// server has done so: this is told, and nothing is tried again.
    async fn write(
        &self,
        mut lent: Lent,
        mut decided: Decided<'_>,
        (write_set, reply): (WriteSet, Option<Result<Reply, StoreError>>),
    ) -> Result<Outcome, Trouble> {
        if let Some(Ok(reply)) = &reply {
            if decided.is_overtaking(reply) {
                return self.keep_back(lent, decided).await;
            }
            let moved = decided.move_in_line(&mut lent.conn, self.place(), reply);
            if let Err(trouble) = moved.await {
                return Err(self.give_up(lent, trouble).await);
            }
        }
        self.swap(lent, write_set).await?;
        Ok(decided.outcome(reply))
    }

    /// Writes and commits what the loop wants.
    pub(crate) async fn swap(&self, mut lent: Lent, write_set: WriteSet) -> Result<(), Trouble> {
        match trips::swap(&mut lent.conn, self.place(), write_set).await {
            Ok(()) => {
                lent.put_back();
                Ok(())
            }
            Err(Trouble::Broken(words)) => Err(StoreError::Unavailable(format!(
                "{words}; the command may have been executed"
            ))
            .into()),
            Err(trouble) => Err(self.give_up(lent, trouble).await),
        }
    }

    /// Takes nothing, since others are first.
    async fn keep_back(
        &self,
        mut lent: Lent,
        mut decided: Decided<'_>,
    ) -> Result<Outcome, Trouble> {
        match decided.stand(&mut lent.conn, self.place(), 0).await {
            Ok(true) => self.commit(lent).await?,
            Ok(false) => self.end(lent),
            Err(trouble) => return Err(self.give_up(lent, trouble).await),
        }
        Ok(Outcome::Kept(None))
    }

    /// Keeps what has changed in line, and nothing else: that may be done twice.
    async fn commit(&self, mut lent: Lent) -> Result<(), Trouble> {
        match lent.conn.query_drop("COMMIT").await {
            Ok(()) => {
                lent.put_back();
                Ok(())
            }
            Err(error) => Err(self.give_up(lent, error.into()).await),
        }
    }

    /// What a take is told that others keep back: what its limits say, or an instant
    /// from now on.
    async fn refusal(self: &Arc<Self>, request: &OwnedKeyCommand) -> Result<Reply, StoreError> {
        let Some((peek, detail)) = request.peek() else {
            return Err(StoreError::Unavailable("only a take waits".to_owned()));
        };
        let mut backoff = Backoff::default();
        loop {
            match self.attempt(&peek, None).await {
                Ok(Outcome::Reply(Ok(reply))) => return Ok(kept_back(reply, request.now, detail)),
                Ok(Outcome::Reply(Err(error))) => return Err(error),
                Ok(Outcome::Kept(_) | Outcome::Again) => {}
                Err(trouble) => backoff.after(trouble).await?,
            }
        }
    }

    /// Nothing was changed: the transaction is ended while the caller has its
    /// answer already.
    pub(crate) fn end(&self, lent: Lent) {
        let deadline = self.shared.driver.deadline();
        tokio::spawn(tokio::time::timeout(deadline, lent.roll_back()));
    }

    /// Ends a try that failed.
    pub(crate) async fn give_up(&self, lent: Lent, trouble: Trouble) -> Trouble {
        self.shared.pool.forget_if_gone(&trouble);
        if !trouble.ends_connections() {
            lent.roll_back().await;
        }
        trouble
    }

    pub(crate) async fn learn(&self, lent: &mut Lent, numbers: &[u32]) -> Result<(), Trouble> {
        let revisions = registry::fetch(&mut lent.conn, self.place(), numbers).await?;
        self.known.learn(revisions);
        Ok(())
    }
}
