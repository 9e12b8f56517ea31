//! Work that goes on when nobody waits for it any more, and who waits for its end:
//! a lease that was let go of is given back, also if the program ends right after.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{EnterGuard, Handle};
use tokio::task::JoinHandle;

/// How many works are under way.
#[derive(Debug, Default)]
pub(crate) struct Underway {
    count: AtomicUsize,
    service: Mutex<()>,
    none: Condvar,
}

impl Underway {
    fn begin(self: &Arc<Self>) -> Begun {
        self.count.fetch_add(1, Ordering::Relaxed);
        Begun(Arc::clone(self))
    }

    /// Waits until there is none, or for as long as `most`.
    fn wait(&self, most: Duration) {
        let mut service = self.service.lock();
        let is_any = |(): &mut ()| self.count.load(Ordering::Acquire) > 0;
        self.none.wait_while_for(&mut service, is_any, most);
    }
}

/// One of them, until it is dropped.
struct Begun(Arc<Underway>);

impl Drop for Begun {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::Release) == 1 {
            // Whoever looks at the count and then waits does both in here.
            drop(self.0.service.lock());
            self.0.none.notify_all();
        }
    }
}

/// Where work of a store is done that may go on when nobody waits for it.
#[derive(Debug, Clone)]
pub struct Tasks {
    handle: Handle,
    underway: Arc<Underway>,
}

impl Tasks {
    pub(crate) const fn new(handle: Handle, underway: Arc<Underway>) -> Self {
        Self { handle, underway }
    }

    /// Starts `work`.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.spawn_boxed(Box::pin(work))
    }

    /// In a box: what a task is takes kilobytes of code, for each kind of future.
    fn spawn_boxed<T: Send + 'static>(
        &self,
        work: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> JoinHandle<T> {
        let begun = self.underway.begin();
        self.handle.spawn(async move {
            let _ends = begun;
            work.await
        })
    }

    /// Until the answer is dropped, the calling thread is in the store's runtime.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }
}

/// Each who may begin work of a store has a clone. When the last of them is dropped,
/// that waits for what is under way, for a while.
#[derive(Debug, Clone)]
pub struct Finish(#[expect(dead_code, reason = "it is there to be dropped")] Arc<Last>);

impl Finish {
    pub(crate) fn new(underway: Arc<Underway>, most: Duration) -> Self {
        Self(Arc::new(Last { underway, most }))
    }
}

#[derive(Debug)]
struct Last {
    underway: Arc<Underway>,
    most: Duration,
}

impl Drop for Last {
    fn drop(&mut self) {
        self.underway.wait(self.most);
    }
}
