//! A thread of a store's own: commands go on there whoever waits for them, and
//! wherever they were made.

use std::future::Future;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tidegate_store::{StoreError, StoreFuture};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::underway::{Finish, Tasks, Underway};

/// Whoever lets go of a store that hangs is not held up for longer.
const LONGEST_FINISH: Duration = Duration::from_secs(1);

/// Drives a store, on a thread of its own.
#[derive(Debug)]
pub struct Driver {
    deadline: Duration,
    handle: Handle,
    underway: Arc<Underway>,
    /// The thread ends, and what is under way on it, when this is dropped: also there where nothing may
    /// block.
    _running: oneshot::Sender<()>,
}

impl Driver {
    /// A thread called `name`, on which no command takes longer than `deadline`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(name: &str, deadline: Duration) -> io::Result<Self> {
        // Not a multi-threaded one with one worker, which looks for other work to steal and parks
        // more often: 50 callers of as many keys of a DynamoDB were answered a third less often.
        let mut runtime = Builder::new_current_thread();
        runtime.enable_all().thread_name(name);
        let (tell, told) = mpsc::sync_channel(1);
        let (running, ended) = oneshot::channel();
        let thread = thread::Builder::new().name(name.to_owned());
        // It is made and dropped there: no caller's runtime lets another be dropped in it.
        thread.spawn(move || {
            let runtime = runtime.build();
            let handle = runtime.as_ref().map(|runtime| runtime.handle().clone());
            let _ = tell.send(handle.map_err(|error| error.kind()));
            if let Ok(runtime) = runtime {
                let _ = runtime.block_on(ended);
                // Addresses may still be looked up on other threads.
                runtime.shutdown_background();
            }
        })?;
        let handle = told.recv().map_err(io::Error::other)?;
        Ok(Self {
            deadline,
            handle: handle?,
            underway: Arc::default(),
            _running: running,
        })
    }

    /// How long a command may take, with everything.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Where what it does for itself is done.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Where what it does for others is done.
    #[must_use]
    pub fn tasks(&self) -> Tasks {
        Tasks::new(self.handle.clone(), Arc::clone(&self.underway))
    }

    /// For those who begin its work: the last of them waits for its end, at most for the
    /// deadline, and no longer than a second.
    #[must_use]
    pub fn finish(&self) -> Finish {
        Finish::new(
            Arc::clone(&self.underway),
            self.deadline.min(LONGEST_FINISH),
        )
    }

    /// Starts `work`. What it comes to can be waited for anywhere, and it goes on
    /// if nobody does.
    pub fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        self.start_within(Duration::ZERO, work)
    }

    /// As [`start`](Self::start), for work that waits for as long as `longer` by
    /// its nature.
    pub fn start_within<T: Send + 'static>(
        &self,
        longer: Duration,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let deadline = self.deadline.saturating_add(longer);
        let task = self.tasks().spawn(within(deadline, work));
        async move { task.await.unwrap_or_else(|_| Err(closed())) }
    }

    /// As [`start`](Self::start); the calling thread waits. For what is done while a
    /// store is opened: decisions are awaited.
    ///
    /// # Errors
    /// Those of the work; [`StoreError::Unavailable`] if it takes too long.
    pub fn block_on<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.block_on_within(Duration::ZERO, work)
    }

    /// As [`block_on`](Self::block_on), for work that waits for as long as `longer` by
    /// its nature.
    ///
    /// # Errors
    /// As [`block_on`](Self::block_on).
    pub fn block_on_within<T: Send + 'static>(
        &self,
        longer: Duration,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        tidegate_store::block_on(self.start_within(longer, work))
    }

    /// As [`start`](Self::start): an answer that comes later.
    pub fn later<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> StoreFuture<T> {
        StoreFuture::new(self.start(work))
    }
}

/// `work`, given up after the deadline.
///
/// # Errors
/// Those of the work; [`StoreError::Unavailable`] if it takes too long.
pub async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let timed = tokio::time::timeout(deadline, work).await;
    timed.unwrap_or_else(|_| Err(too_late(deadline)))
}

/// No answer in time.
#[must_use]
pub fn too_late(deadline: Duration) -> StoreError {
    StoreError::Unavailable(format!(
        "no answer within {} ms; the command may have been executed",
        deadline.as_millis()
    ))
}

/// The store is dropped.
#[must_use]
pub fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}
