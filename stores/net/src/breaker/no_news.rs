//! Answers that are no news of the store: it was not asked, or another command of the same step has
//! told what became of it.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;

use tidegate_store::{Answer, StoreFuture};

thread_local! {
    /// Whether what was just answered is no news.
    static NO_NEWS: Cell<bool> = const { Cell::new(false) };
}

/// What is answered by the poll that this is called in is no news.
pub(crate) fn note() {
    NO_NEWS.set(true);
}

/// What comes, and whether it is no news.
pub(crate) async fn told(mut later: StoreFuture) -> (Answer, bool) {
    poll_fn(|context| {
        NO_NEWS.set(false);
        let answer = Pin::new(&mut later).poll(context);
        answer.map(|answer| (answer, NO_NEWS.take()))
    })
    .await
}
