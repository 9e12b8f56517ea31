//! The thread that drives a store, and the deadline of everything it does.

use std::future::Future;
use std::time::Duration;

use tidegate_contract::StoreError;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{MysqlError, too_late};

/// A thread of the store's own.
pub(crate) struct Link {
    deadline: Duration,
    /// Only `None` while it is dropped.
    runtime: Option<Runtime>,
}

impl Link {
    pub(crate) fn new(deadline: Duration) -> Result<Self, MysqlError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tidegate-mysql")
            .enable_all()
            .build()
            .map_err(|error| MysqlError::Server(format!("no thread for the store: {error}")))?;
        Ok(Self {
            deadline,
            runtime: Some(runtime),
        })
    }

    /// Starts `work` on the store's own thread. What it comes to can be waited
    /// for anywhere, and it goes on if nobody does.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        self.start_within(self.deadline, work)
    }

    /// As [`start`](Self::start), by another deadline.
    pub(crate) fn start_within<T: Send + 'static>(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let task = self.handle().map(|handle| {
            handle.spawn(async move {
                let timed = tokio::time::timeout(deadline, work).await;
                timed.unwrap_or_else(|_| Err(too_late(deadline)))
            })
        });
        async move {
            match task {
                Some(task) => task.await.unwrap_or_else(|_| Err(closed())),
                None => Err(closed()),
            }
        }
    }

    /// As [`start`](Self::start); the calling thread waits.
    pub(crate) fn block_on<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let started = self.start(work);
        if let Some(handle) = self.handle() {
            handle.spawn(async move { tell.send(started.await) });
        }
        told.recv().unwrap_or_else(|_| Err(closed()))
    }

    /// How long anything may take.
    pub(crate) const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Where its work is done.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.runtime
            .as_ref()
            .map(|runtime| runtime.handle().clone())
    }
}

impl Drop for Link {
    /// In the background: the last table may be dropped where nothing may block.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}
