//! A batch: one trip, decided at one instant.

use std::sync::Arc;

use tidegate_net::within;
use tidegate_store::{
    Answer, Command, Ending, Item, Op, OwnedCommand, Reply, StoreError, StoreFuture, Verb,
    response_channel,
};

use crate::inner::Inner;

/// Begins a batch. What it is granted, and nobody takes, is given back.
pub(crate) fn begin(inner: &Arc<Inner>, command: &Command<'_>, items: &[Item<'_>]) -> StoreFuture {
    let prepared = inner.prepared(command, items, (true, None));
    let owned = Arc::new(OwnedCommand::of(command));
    let undelivered = (Arc::clone(inner), Arc::clone(&owned));
    let (responder, answer) = response_channel(move |reply| {
        let (inner, batch) = undelivered;
        give_back(&inner, &batch, Some(&reply));
    });
    let inner = Arc::clone(inner);
    let tasks = inner.link.driver().tasks();
    tasks.spawn(async move {
        let answer = within(inner.link.deadline(), inner.answer(prepared)).await;
        if matches!(&answer, Err(StoreError::Unavailable(_))) {
            // It may have been granted, and nobody is told.
            give_back(&inner, &owned, None);
        }
        drop(responder.answer(to_each(answer, &owned)));
    });
    answer
}

/// What is wrong with all is told to each.
fn to_each(answer: Answer, batch: &OwnedCommand) -> Answer {
    let Err(error) = answer else { return answer };
    let count = batch.lend(|command| match command.op {
        Op::Batch(items) => items.len(),
        _ => 0,
    });
    Ok(Reply::Batch(vec![Err(error); count]))
}

/// Gives back the leases that `reply` tells of, or, where there is none, all that may have been
/// granted; but for those that are asked for again by an idempotency key.
fn give_back(inner: &Arc<Inner>, batch: &OwnedCommand, reply: Option<&Reply>) {
    let tasks = inner.link.driver().tasks();
    for prepared in cancels(inner, batch, reply) {
        let inner = Arc::clone(inner);
        // What fails is given back at its expiry.
        tasks.spawn(async move {
            let _ = within(inner.link.deadline(), inner.answer(prepared)).await;
        });
    }
}

fn cancels(
    inner: &Inner,
    batch: &OwnedCommand,
    reply: Option<&Reply>,
) -> Vec<crate::inner::Prepared> {
    let answers = match reply {
        Some(Reply::Batch(answers)) => Some(answers),
        _ => None,
    };
    batch.lend(|command| {
        let Op::Batch(items) = command.op else {
            return Vec::new();
        };
        let granted = |(at, (path, verb)): (usize, &Item<'_>)| {
            let terms = verb.terms().filter(|terms| terms.idempotency.is_none())?;
            let id = match answers {
                Some(answers) => answers.get(at)?.as_ref().ok()?.new_lease()?,
                None => terms.id,
            };
            let cancel = Verb::End {
                id,
                ending: Ending::Cancel,
                remember: false,
            };
            let plan = inner.changes.newest_plan();
            let plan = plan.as_ref().unwrap_or(command.plan);
            let end = Command {
                plan,
                calendars: &[],
                ..command.about(Op::One(*path, cancel))
            };
            Some(inner.prepared(&end, &[(*path, cancel)], (false, None)))
        };
        items.iter().enumerate().filter_map(granted).collect()
    })
}
