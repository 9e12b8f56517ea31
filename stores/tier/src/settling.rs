//! What the store is told of the leases that hold slots for this node's callers.

use std::sync::Arc;

use tidegate_store::core::{Bounds, Timestamp};
use tidegate_store::{Answer, Command, Detail, Op, Out, OwnedPath, Plan, Reply, StoreFuture, Verb};

use crate::grants::Amounts;
use crate::leases::{Cause, Step};
use crate::node::{Node, SharedKey};
use crate::task;

/// What the store was told, about a lease of it.
enum Told {
    Until(u128, Timestamp),
    Amounts(u128, Amounts, Cause),
}

impl Node {
    /// Tells the store what it does not know yet of the leases that hold this key's slots.
    pub(crate) fn settle_up(&self, shared: &SharedKey) {
        let Some(this) = self.this.upgrade() else {
            return;
        };
        loop {
            let plan = Arc::clone(&self.newest.lock());
            let mut key = shared.lock();
            let (path, said) = (key.path.clone(), key.calendars.clone());
            let asked = self.timer.now();
            let Some(step) = key.leases.step((&path, &said), asked) else {
                return;
            };
            let calendars = said.in_order_of(&plan);
            let with = (&plan, &*calendars);
            let (told, later, answer) = match step {
                Step::End(one) => {
                    drop(key);
                    self.end(one);
                    continue;
                }
                Step::Renew(id, until) => {
                    drop(key);
                    let (later, answer) = self.tell(&path, with, Verb::Renew { id, until });
                    (Told::Until(id, until), later, answer)
                }
                Step::Adjust(id, to, cause) => {
                    let lease = key.leases.slot_lease(id);
                    let ordered = lease.map(|lease| lease.in_order_of(&plan, &to));
                    drop(key);
                    let verb = Verb::Adjust {
                        id,
                        to: &ordered.unwrap_or_default(),
                        overdraw: cause != Cause::Growth(false),
                        detail: Detail::Always,
                    };
                    let (later, answer) = self.tell(&path, with, verb);
                    (Told::Amounts(id, to, cause), later, answer)
                }
            };
            let Some(later) = later else {
                self.told(shared, told, answer, (asked, self.was_sent_at_once()));
                continue;
            };
            let (node, shared) = (Arc::clone(&this), Arc::clone(shared));
            let sent = node.under_way.begin();
            task::run(&self.timer, async move {
                let answer = later.await;
                node.told(&shared, told, answer, (asked, true));
                node.settle_up(&shared);
                drop(sent);
            });
        }
    }

    fn tell(
        &self,
        path: &OwnedPath,
        (plan, calendars): (&Arc<Plan>, &[Option<Bounds>]),
        verb: Verb<'_>,
    ) -> (Option<StoreFuture>, Answer) {
        let mut answer = Ok(Reply::Done);
        let command = Command {
            plan,
            now: self.timer.now(),
            calendars,
            op: Op::One(path.lend(), verb),
            patience: None,
        };
        let execution = self.table.execute(&command, Out::new(&mut answer));
        (execution.pending(), answer)
    }

    /// The store has answered to that, which it was told at `asked`.
    fn told(
        &self,
        shared: &SharedKey,
        told: Told,
        answer: Answer,
        (asked, was_sent): (Timestamp, bool),
    ) {
        let (now, mut wakes) = (self.timer.now(), Vec::new());
        if answer.is_err() {
            self.arm();
        }
        let mut key = shared.lock();
        key.expire(now);
        let lost = match told {
            Told::Until(id, until) => {
                let clocks = (asked, now, self.has_own_clock);
                let renewed = (id, until);
                let is_lost = key
                    .leases
                    .renewed(renewed, &answer, clocks, was_sent, &mut wakes);
                is_lost.then_some(id)
            }
            Told::Amounts(id, to, cause) => {
                let is_lost =
                    key.leases
                        .adjusted((id, to, cause), answer, (now, was_sent), &mut wakes);
                is_lost.then_some(id)
            }
        };
        if let Some(id) = lost {
            // The store has ended it: nothing of it is to be ended any more.
            drop(key.grants.take_one(id));
        }
        drop(key);
        drop(wakes);
    }
}
