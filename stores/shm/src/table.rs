//! One set's table: a command's way.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tidegate_net::Finish;
use tidegate_net::waiting::{Waiting, stay};
use tidegate_store::core::Verdict;
use tidegate_store::{
    Answer, Command, Count, Execution, KeyCommand, KeyPath, Op, Out, Patience, Reply, StoreError,
    StoreFuture, Table, Verb,
};

use crate::clock;
use crate::debts::{Unpaid, shard_of};
use crate::decide::Inner;
use crate::owed::Owed;
use crate::shared::Shared;
use crate::waiting::QueuedTake;

/// Whoever has the store or one of its tables. With the last of them it ends: what is under
/// way is waited for, for a while.
#[derive(Debug)]
pub(crate) struct Users {
    pub(crate) shared: Arc<Shared>,
    finish: Mutex<Option<Finish>>,
}

impl Users {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            finish: Mutex::new(None),
        }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        drop(self.finish.lock().take());
        self.shared.waiters.close();
        self.shared.following.end();
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ShmTable {
    users: Arc<Users>,
    inner: Arc<Inner>,
}

impl ShmTable {
    pub(crate) const fn new(users: Arc<Users>, inner: Arc<Inner>) -> Self {
        Self { users, inner }
    }

    /// A take that may wait: it is asked at once, and has its place when this returns.
    fn take_in_turn(
        &self,
        command: &Command<'_>,
        patience: &Patience,
        out: Out<'_>,
    ) -> Result<Execution, StoreError> {
        let Op::One(path, verb) = command.op else {
            return Err(StoreError::Mismatch);
        };
        // Another table may be asked for the same, or something hold it: then it is asked in
        // its turn, and nothing else says that it may be.
        let is_asked = patience.race.is_none() && patience.hold.is_none();
        let take = command.one(path, verb);
        if is_asked
            && let Ok(told) = self.inner.decide(&take, None)
            && !is_refusal(&told.reply)
        {
            return Ok(out.ready(Ok(told.reply)));
        }
        let waiters = self.inner.shared.waiters.get()?;
        let waiting = Waiting::of(command).ok_or(StoreError::Mismatch)?;
        let finish = || waiters.finish();
        self.users.finish.lock().get_or_insert_with(finish);
        let line = QueuedTake::new(&self.inner, &waiting, waiters.join());
        if is_asked
            && let Ok(told) = self.inner.decide(&take, Some(line.turn()))
            && !is_refusal(&told.reply)
        {
            return Ok(out.ready(Ok(told.reply)));
        }
        Ok(stay(&waiters.driver().tasks(), waiting, line).into())
    }

    /// A command on a root that is at hand, answered at once.
    fn at_hand(
        &self,
        command: &KeyCommand<'_>,
        patience: Option<&Patience>,
        out: Out<'_>,
    ) -> Result<Option<Execution>, StoreError> {
        let is_free = |patience: &Patience| patience.race.is_none() && patience.hold.is_none();
        if !patience.is_none_or(is_free) {
            return Ok(None);
        }
        let (mut decided, may_wait) = (Ok(false), patience.is_some());
        let execution = out.write(|answer| {
            decided = self.inner.decide_at_hand(command, may_wait, answer);
        });
        Ok(decided?.then_some(execution))
    }

    /// Pays what this process owes where a command leads.
    fn pay(&self, command: &Command<'_>) -> Result<(), StoreError> {
        match command.op {
            Op::One(path, _) => self.pay_at(shard_of(&self.inner, path.root())),
            // Each of its items by itself.
            Op::Batch(_) => Ok(()),
            Op::Adopt | Op::ListKeys(_) | Op::ListLeases(_) | Op::ListUsage(..) | Op::Count => {
                Ok(())
            }
        }
    }

    /// Pays what this process owes on a shard.
    fn pay_at(&self, shard: usize) -> Result<(), StoreError> {
        let owed = &self.inner.shared.owed;
        match owed.is_any() {
            true => owed.pay_on(shard),
            false => Ok(()),
        }
    }

    /// Each of a batch by itself. For a lock that another process holds it waits once, however many
    /// have their keys there.
    fn batch(&self, items: &[(KeyPath<'_>, Verb<'_>)], command: &Command<'_>) -> Vec<Answer> {
        let mut busy: HashMap<usize, StoreError> = HashMap::new();
        let answers = items.iter().map(|(path, verb)| {
            let shard = shard_of(&self.inner, path.root());
            if let Some(error) = busy.get(&shard) {
                return Err(error.clone());
            }
            let paid = self.pay_at(shard);
            let told = paid.and_then(|()| self.inner.execute(&command.one(*path, *verb)));
            if let Err(error @ StoreError::Busy(_)) = &told {
                busy.insert(shard, error.clone());
            }
            told
        });
        answers.collect()
    }

    /// What a command comes to that has failed. A lease that nobody would end again is not lost.
    #[cold]
    fn unexecuted(&self, command: &Command<'_>, error: StoreError, out: Out<'_>) -> Execution {
        let lease = match (command.op, &error) {
            (Op::One(path, verb), StoreError::Busy(_)) => {
                Unpaid::of(&self.inner, &command.one(path, verb))
            }
            _ => None,
        };
        match lease {
            Some(lease) => StoreFuture::new(Unended {
                answer: Some(error),
                lease: Some(lease),
                owed: Arc::clone(&self.inner.shared.owed),
            })
            .into(),
            None => out.ready(Err(error)),
        }
    }

    fn adopt(&self, command: &Command<'_>) -> Answer {
        let revisions = &self.inner.revisions;
        // An error says that a newer plan is here already.
        let followed = revisions.follow(command.plan, command.now, command.calendars);
        if followed.is_ok() {
            self.inner.revision()?;
            self.inner.shared.waiters.wake_all();
        }
        Ok(Reply::Done)
    }
}

/// The answer to an end whose lock was not given in time: nothing was done. Dropped before
/// anybody has asked for it, nobody ends the lease again, and the process owes it.
struct Unended {
    answer: Option<StoreError>,
    lease: Option<Unpaid>,
    owed: Arc<Owed>,
}

impl Future for Unended {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Answer> {
        self.lease = None;
        match self.answer.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    }
}

impl Drop for Unended {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.owed.add(Arc::new(lease));
        }
    }
}

fn is_refusal(reply: &Reply) -> bool {
    match reply {
        Reply::Decision(decision) => matches!(decision.verdict, Verdict::NotUntil(_)),
        _ => false,
    }
}

impl Table for ShmTable {
    fn execute(&self, command: &Command<'_>, mut out: Out<'_>) -> Execution {
        self.inner.shared.following.listen_again();
        if let Err(error) = self.pay(command) {
            return self.unexecuted(command, error, out);
        }
        if let Op::One(path, verb) = command.op {
            match self.at_hand(&command.one(path, verb), command.patience, out.lend()) {
                Ok(Some(execution)) => return execution,
                Ok(None) => {}
                Err(error) => return self.unexecuted(command, error, out),
            }
        }
        match command.op {
            Op::One(path, verb) => match (command.patience, verb.terms()) {
                (Some(patience), Some(_)) => {
                    match self.take_in_turn(command, patience, out.lend()) {
                        Ok(execution) => execution,
                        Err(error) => out.ready(Err(error)),
                    }
                }
                _ => match self.inner.execute(&command.one(path, verb)) {
                    Err(error) => self.unexecuted(command, error, out),
                    told => out.ready(told),
                },
            },
            Op::Batch(items) => {
                let answers = clock::in_batch(|| self.batch(items, command));
                out.ready(Ok(Reply::Batch(answers)))
            }
            Op::Adopt => out.ready(self.adopt(command)),
            Op::ListKeys(listing) => out.ready(self.inner.keys(&listing).map(Reply::Keys)),
            Op::ListLeases(listing) => out.ready(self.inner.leases(&listing).map(Reply::Leases)),
            Op::ListUsage(listing, hours) => {
                out.ready(self.inner.usage(&listing, hours).map(Reply::Usage))
            }
            Op::Count => out.ready(self.inner.count().map(|keys| {
                Reply::Count(Count {
                    keys,
                    leases: None,
                    remembered: None,
                })
            })),
        }
    }
}
