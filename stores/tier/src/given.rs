//! Verbs of leases that this node gave.

use std::sync::Arc;

use tidegate_store::core::{Amount, Timestamp};
use tidegate_store::sync::MutexGuard;
use tidegate_store::{
    Answer, Command, Detail, Ending, Execution, KeyPath, Op, Out, OwnedPath, PlanLimit, Reply,
    StoreError, Verb, response_channel,
};

use crate::key::Key;
use crate::leases::{Adjusted, Over, Renewed, is_given, is_in_doubt};
use crate::node::{Node, SharedKey};
use crate::slot_lease::Growth;
use crate::task;

/// Whether a verb is about a lease that a node gave.
pub(crate) fn is_about_given(verb: &Verb<'_>) -> bool {
    let is_take = matches!(verb, Verb::Take { .. });
    !is_take && verb.lease().is_some_and(is_given)
}

impl Node {
    /// Executes a verb [about a lease that a node gave](is_about_given). One that another node
    /// gave is not known here.
    pub(crate) fn execute_given(
        &self,
        command: &Command<'_>,
        (path, verb): (KeyPath<'_>, Verb<'_>),
        out: Out<'_>,
    ) -> Execution {
        let Some(shared) = self.kept(&path) else {
            return out.ready(Err(StoreError::UnknownLease));
        };
        let mut key = shared.lock();
        key.expire(command.now);
        key.calendars.note(command);
        let given = (&shared, key);
        match verb {
            Verb::End {
                id,
                ending,
                remember,
            } => self.end_given(command, given, (id, ending, remember), out),
            Verb::Renew { id, until } => self.renew_given(command, given, (id, until), out),
            Verb::Adjust {
                id,
                to,
                overdraw,
                detail,
            } => self.adjust_given(command, given, (id, to, overdraw, detail), out),
            _ => out.ready(Err(StoreError::Mismatch)),
        }
    }

    fn end_given(
        &self,
        command: &Command<'_>,
        (shared, mut key): (&SharedKey, MutexGuard<'_, Key>),
        (id, ending, remember): (u128, Ending<'_>, bool),
        out: Out<'_>,
    ) -> Execution {
        let now = command.now;
        let over = match key.leases.end(id, (command.plan, ending, remember), now) {
            Ok(over) => over,
            Err(error) => return out.ready(Err(error)),
        };
        if let Some(back) = &over.back {
            key.grants.refund(back.grant, &back.amounts);
        }
        // Others have waited for longer than whoever asks this node next.
        let closing = match now < key.strict_until || !key.queued.is_none() {
            true => key.grants.take_slots(),
            false => Vec::new(),
        };
        let closing = key.close(closing);
        drop(key);
        self.end_those(closing);
        self.settle_up(shared);
        match over.debit.is_empty() {
            true => out.ready(Ok(Reply::Settled(over.settlement))),
            false => self.debit(command, (shared, id, over, remember), out),
        }
    }

    /// A lease had expired, and the store's, too: what it used beyond what it took is debt. Where
    /// the store says that it has debited nothing, the end may be asked for again; what it does not
    /// answer to may have been debited, and is not a second time.
    fn debit(
        &self,
        command: &Command<'_>,
        (shared, id, over, remember): (&SharedKey, u128, Over, bool),
        out: Out<'_>,
    ) -> Execution {
        let (Op::One(path, _), Some(node)) = (command.op, self.this.upgrade()) else {
            return out.ready(Err(StoreError::Mismatch));
        };
        let of = |limit: &PlanLimit| {
            let mut debit = over.debit.iter();
            let found = debit.find(|(uid, _)| *uid == limit.uid);
            found.map_or(0, |(_, more)| *more)
        };
        let amounts: Vec<Amount> = command.plan.limits().iter().map(of).collect();
        let command = command.about(Op::One(path, Verb::Debit { amounts: &amounts }));
        let mut answer = Ok(Reply::Done);
        let execution = self.table.execute(&command, Out::new(&mut answer));
        let shared = Arc::clone(shared);
        let settled = move |answer: Answer, was_sent, now| {
            let (mut key, settlement) = (shared.lock(), over.settlement);
            match &answer {
                Err(error) if !is_in_doubt(error, was_sent) => key.leases.undo_end(id),
                _ => key
                    .leases
                    .note_end(id, remember.then_some(&settlement), now),
            }
            drop(key);
            answer.map(|_| Reply::Settled(settlement))
        };
        let Some(debited) = execution.pending() else {
            return out.ready(settled(answer, node.was_sent_at_once(), command.now));
        };
        // Whoever asked may go away meanwhile.
        let (responder, later) = response_channel(drop);
        let sent = node.under_way.begin();
        task::run(&self.timer, async move {
            let answer = debited.await;
            drop(responder.answer(settled(answer, true, node.timer.now())));
            drop(sent);
        });
        later.into()
    }

    fn renew_given(
        &self,
        command: &Command<'_>,
        (shared, mut key): (&SharedKey, MutexGuard<'_, Key>),
        (id, until): (u128, Timestamp),
        out: Out<'_>,
    ) -> Execution {
        let mut told = None;
        let responder = || {
            let (responder, later) = response_channel(drop);
            told = Some(later);
            responder
        };
        let renewed = key.leases.renew(id, (command.now, until), responder);
        drop(key);
        match (renewed, told) {
            (Ok(Renewed::Asks), Some(later)) => {
                self.settle_up(shared);
                later.into()
            }
            (Ok(_), _) => out.ready(Ok(Reply::Done)),
            (Err(error), _) => out.ready(Err(error)),
        }
    }

    fn adjust_given(
        &self,
        command: &Command<'_>,
        (shared, mut key): (&SharedKey, MutexGuard<'_, Key>),
        (id, to, overdraw, detail): (u128, &[Option<Amount>], bool, Detail),
        out: Out<'_>,
    ) -> Execution {
        let Key { grants, leases, .. } = &mut *key;
        let of = (id, &**command.plan, to);
        match leases.adjust(grants, of, (overdraw, detail), command.now) {
            Err(error) => out.ready(Err(error)),
            Ok(Adjusted::Done(decision, back)) => {
                if let Some(back) = back {
                    grants.refund(back.grant, &back.amounts);
                }
                drop(key);
                self.settle_up(shared);
                out.ready(Ok(Reply::Decision(decision)))
            }
            Ok(Adjusted::Ask(of, more)) => {
                let (responder, later) = response_channel(drop);
                let growth = Growth {
                    id,
                    more,
                    overdraw,
                    responder,
                };
                let closing = grants.take_one(of);
                // It is held by this lease at least: the growth goes with what it has.
                let closing = key.close(closing);
                let wake = key.leases.grow(of, growth);
                drop(key);
                drop(wake);
                self.end_those(closing);
                self.settle_up(shared);
                later.into()
            }
        }
    }

    /// Ends a lease whose caller did not wait for it.
    pub(crate) fn cancel_given(&self, path: &OwnedPath, id: u128) {
        let Some(shared) = self.kept(&path.lend()) else {
            return;
        };
        let plan = Arc::clone(&self.newest.lock());
        let mut answer = Ok(Reply::Done);
        let verb = Verb::End {
            id,
            ending: Ending::Cancel,
            remember: false,
        };
        let command = Command {
            plan: &plan,
            now: self.timer.now(),
            calendars: &[],
            op: Op::One(path.lend(), verb),
            patience: None,
        };
        let mut key = shared.lock();
        key.expire(command.now);
        let of = (id, Ending::Cancel, false);
        drop(self.end_given(&command, (&shared, key), of, Out::new(&mut answer)));
    }
}
