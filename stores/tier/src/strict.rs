//! Requests that waited for a grant, and are the store's after all.

use std::sync::Arc;

use tidegate_store::{Command, Op, Out, OwnedPath, Reply, Table, Timer, Verb, Wake};

use crate::key::Waiter;
use crate::task;
use crate::under_way::UnderWay;

/// Has the store decide the request that waits, about `path`.
pub(crate) fn decide(
    table: &dyn Table,
    (timer, under_way): (&Arc<dyn Timer>, &UnderWay),
    path: &OwnedPath,
    waiter: Waiter,
) -> Option<Wake> {
    let mut answer = Ok(Reply::Done);
    let verb = Verb::Take {
        amounts: &waiter.amounts,
        lease: None,
        detail: waiter.detail,
    };
    let command = Command {
        plan: &waiter.plan,
        now: timer.now(),
        calendars: &waiter.calendars,
        op: Op::One(path.lend(), verb),
        patience: None,
    };
    let execution = table.execute(&command, Out::new(&mut answer));
    let responder = waiter.responder;
    let Some(later) = execution.pending() else {
        return Some(responder.answer(answer));
    };
    let sent = under_way.begin();
    task::run(timer, async move {
        drop(responder.answer(later.await));
        drop(sent);
    });
    None
}
