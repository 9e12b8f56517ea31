//! What became of several commands in one step of a store is told to each of them, and is one outage
//! if it is one.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;

use tidegate_store::{Answer, StoreFuture};

thread_local! {
    /// Whether what was just answered was told to another before.
    static WAS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// What is answered by the poll that this is called in was told to another before: in the same
/// step.
pub(crate) fn note() {
    WAS_TOLD.set(true);
}

/// What comes, and whether it was told to another before.
pub(crate) async fn told(mut later: StoreFuture) -> (Answer, bool) {
    poll_fn(|context| {
        WAS_TOLD.set(false);
        let answer = Pin::new(&mut later).poll(context);
        answer.map(|answer| (answer, WAS_TOLD.take()))
    })
    .await
}
