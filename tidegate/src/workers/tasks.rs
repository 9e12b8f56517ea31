//! Workers that are tokio tasks. Only the spawning is tokio's.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_store::sync::Mutex;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};

use super::crew::{Collected, Crew, Source, Workers, back_off};
use super::given::IntoPool;
use super::job::{self, JobError, Next};
use super::retry::Retry;
use super::worker::Worker;
use crate::error::Error;
use crate::pool::LimitPool;

/// Workers that are tokio tasks; [`Workers::tasks`](super::Workers::tasks)
/// begins them.
#[derive(Clone, Debug)]
#[must_use = "they work when they are run"]
pub struct Tasks(Crew);

impl Workers {
    /// `count` tasks (at least 1) on the tokio runtime in which they are run.
    pub fn tasks(count: usize) -> Tasks {
        Tasks(Crew::new(count))
    }
}

impl Tasks {
    /// As [`Threads::limits`](super::Threads::limits).
    pub fn limits(mut self, given: impl IntoPool) -> Self {
        self.0.give(given);
        self
    }

    /// As [`Threads::retry`](super::Threads::retry).
    pub fn retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Does `job` for every item, and answers when all are done, in the order
    /// of the items. A job that panics is an error of its own.
    ///
    /// An item is taken from the iterator when a worker is free; the iterator
    /// must not block. Dropping the future ends the tasks, and gives back what
    /// their jobs held.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async {
    /// use tidegate::Limit;
    /// use tidegate::workers::Workers;
    ///
    /// let squares = Workers::tasks(4)
    ///     .limits([Limit::concurrency("running", 2)])
    ///     .run(1..=3, |worker, number: u32| async move {
    ///         let _lease = worker.limits.acquire("squares", ()).await?;
    ///         Ok::<u32, tidegate::Error>(number * number)
    ///     })
    ///     .await?;
    /// let squares: Vec<u32> = squares.into_iter().flatten().collect();
    /// assert_eq!(squares, [1, 4, 9]);
    /// # Ok::<(), tidegate::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// What was given makes no sense; no workers; [`Error::NoWorker`] outside a
    /// tokio runtime: then no item was taken. [`Error::RuntimeEnded`] if the runtime
    /// stops.
    pub async fn run<I, S, T, E, F>(
        &self,
        items: S,
        job: impl Fn(Worker, I) -> F + Send + Sync + 'static,
    ) -> Result<Vec<Result<T, JobError<E>>>, Error>
    where
        I: Clone + Send + 'static,
        S: IntoIterator<Item = I, IntoIter: Send + 'static>,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let collected = Arc::new(Collected::new());
        let sink = Arc::clone(&collected);
        self.run_each(items, job, move |index, result| sink.put(index, result))
            .await?;
        Ok(collected.take())
    }

    /// As [`run`](Self::run), but hands each result over as soon as it is
    /// there, with the number of its item, from 0: one at a time, in the
    /// worker's task, which it must not block.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_each<I, S, T, E, F>(
        &self,
        items: S,
        job: impl Fn(Worker, I) -> F + Send + Sync + 'static,
        sink: impl FnMut(usize, Result<T, JobError<E>>) + Send + 'static,
    ) -> Result<(), Error>
    where
        I: Clone + Send + 'static,
        S: IntoIterator<Item = I, IntoIter: Send + 'static>,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let pool = self.0.pool()?;
        let runtime = Handle::try_current().map_err(|e| Error::NoWorker(e.to_string()))?;
        let shared = Arc::new((Source::new(items), job, Mutex::new(sink)));
        let mut tasks = JoinSet::new();
        for number in 0..self.0.count {
            let (shared, retry) = (Arc::clone(&shared), self.0.retry);
            let pool = pool.with_offset(number as u64);
            let work = async move {
                let (source, job, sink) = &*shared;
                while let Some((index, item)) = source.next() {
                    let result = finish(&pool, retry, (number, index), (job, item)).await;
                    sink.lock()(index, result);
                }
            };
            tasks.spawn_on(work, &runtime);
        }
        while let Some(ended) = tasks.join_next().await {
            ended.or_else(stopped)?;
        }
        Ok(())
    }
}

/// Attempts a job until it is done.
async fn finish<I: Clone, T, E, F: Future<Output = Result<T, E>>>(
    pool: &LimitPool,
    retry: Retry,
    (number, index): (usize, usize),
    (job, item): (&impl Fn(Worker, I) -> F, I),
) -> Result<T, JobError<E>> {
    let mut attempt = 0;
    loop {
        let worker = Worker::new(pool, number, attempt);
        let limits = worker.limits.clone();
        let item = item.clone();
        // The call too may panic, before there is a future.
        let attempted = Caught(Box::pin(async move { job(worker, item).await })).await;
        let fate = job::fate(&attempted);
        let next = job::next(attempted, retry.delay(index, attempt));
        Worker::over(&limits, fate);
        match next {
            Next::Done(result) => return result,
            Next::Again(delay) => back_off(pool, delay).await,
        }
        attempt += 1;
    }
}

/// A panic of the iterator or the sink is the caller's own.
fn stopped(error: JoinError) -> Result<(), Error> {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Err(Error::RuntimeEnded),
    }
}

/// A future whose panic is a value. It is not polled again after one.
struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = || self.0.as_mut().poll(context);
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
