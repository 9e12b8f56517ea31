//! A batch of which some is decided here.

use tidegate_store::{
    Answer, Command, Execution, Item, Op, Out, Reply, StoreError, StoreFuture, Table,
};

/// Those of `items` that `at_hand` replies to are decided here; the others by `table`, in one
/// command.
pub(crate) fn execute<'c>(
    table: &dyn Table,
    command: &Command<'c>,
    items: &'c [Item<'c>],
    at_hand: impl Fn(Item<'c>) -> Option<Reply>,
    out: Out<'_>,
) -> Execution {
    let mut answers: Vec<Option<Answer>> =
        items.iter().map(|&item| at_hand(item).map(Ok)).collect();
    let rest: Vec<Item<'_>> = items
        .iter()
        .zip(&answers)
        .filter_map(|(&item, answer)| answer.is_none().then_some(item))
        .collect();
    if rest.is_empty() {
        let answers = answers.into_iter().flatten().collect();
        return out.ready(Ok(Reply::Batch(answers)));
    }
    if rest.len() == items.len() {
        return table.execute(command, out);
    }
    let mut answer = Ok(Reply::Done);
    let about = command.about(Op::Batch(&rest));
    match table.execute(&about, Out::new(&mut answer)).pending() {
        None => out.ready(merged(&mut answers, answer)),
        Some(later) => Execution::from(StoreFuture::new(async move {
            merged(&mut answers, later.await)
        })),
    }
}

/// The answers to all of a batch: those that were at hand, and `rest` in between.
fn merged(answers: &mut Vec<Option<Answer>>, rest: Answer) -> Answer {
    let Reply::Batch(rest) = rest? else {
        return Err(StoreError::Mismatch);
    };
    let mut rest = rest.into_iter();
    let mut merged = Vec::with_capacity(answers.len());
    for answer in answers.drain(..) {
        merged.push(answer.or_else(|| rest.next()).ok_or(StoreError::Mismatch)?);
    }
    Ok(Reply::Batch(merged))
}
