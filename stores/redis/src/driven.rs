//! Work that is driven by whoever waits for it: a call and its answer need no
//! task of their own.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate_net::Tasks;
use tidegate_store::StoreError;

type Work<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// See the [module](self). Polled anywhere, it runs within the store's runtime;
/// dropped before its end, that goes on with it.
pub(crate) struct Driven<T: Send + 'static> {
    /// Until it has ended.
    work: Option<Work<T>>,
    /// What it has come to, until that is told.
    outcome: Option<Result<T, StoreError>>,
    tasks: Tasks,
}

impl<T: Send + 'static> Driven<T> {
    /// The work is under way when this returns.
    pub(crate) fn start(
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
        tasks: Tasks,
    ) -> Self {
        let mut driven = Self {
            work: Some(Box::pin(work)),
            outcome: None,
            tasks,
        };
        driven.step(&mut Context::from_waker(Waker::noop()));
        driven
    }

    fn step(&mut self, context: &mut Context<'_>) {
        let Some(work) = &mut self.work else { return };
        let _entered = self.tasks.enter();
        if let Poll::Ready(outcome) = work.as_mut().poll(context) {
            self.outcome = Some(outcome);
            self.work = None;
        }
    }
}

impl<T: Send + Unpin + 'static> Future for Driven<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.step(context);
        match self.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

impl<T: Send + 'static> Drop for Driven<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.tasks.spawn(async move { drop(work.await) });
        }
    }
}
