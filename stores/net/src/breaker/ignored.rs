//! Errors that a breaker ignores: the store was not asked, or another command of the same step has told
//! what became of it.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;

use tidegate_store::{Answer, StoreFuture};

thread_local! {
    /// Whether what was just answered is ignored if it is an error.
    static IS_IGNORED: Cell<bool> = const { Cell::new(false) };
}

/// What is answered by the poll that this is called in is ignored if it is an error. (Where whoever
/// waits is woken by another task, that is lost: then it counts.)
pub(crate) fn mark() {
    IS_IGNORED.set(true);
}

/// What comes, and whether it is ignored if it is an error.
pub(crate) async fn answer_of(mut later: StoreFuture) -> (Answer, bool) {
    poll_fn(|context| {
        IS_IGNORED.set(false);
        let answer = Pin::new(&mut later).poll(context);
        answer.map(|answer| (answer, IS_IGNORED.take()))
    })
    .await
}
