//! Workers that are threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tidegate_store::sync::Mutex;

use super::crew::{Collected, Crew, Source, Workers, back_off};
use super::given::IntoPool;
use super::job::{self, JobError, Next};
use super::retry::Retry;
use super::worker::Worker;
use crate::error::Error;
use crate::pool::LimitPool;

/// Workers that are threads; [`Workers::threads`](super::Workers::threads)
/// begins them.
#[derive(Clone, Debug)]
#[must_use = "they work when they are run"]
pub struct Threads(Crew);

impl Workers {
    /// `count` threads (at least 1), which live as long as a run.
    pub fn threads(count: usize) -> Threads {
        Threads(Crew::new(count))
    }
}

impl Threads {
    /// Works within these limits; within none if not said. What is wrong with
    /// them is said when they are run.
    pub fn limits(mut self, given: impl IntoPool) -> Self {
        self.0.give(given);
        self
    }

    /// Runs a job that fails again; never if not said.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Does `job` for every item, and answers when all are done, in the order
    /// of the items. A job that panics is an error of its own.
    ///
    /// An item is taken from the iterator when a worker is free: to bound what
    /// lies ready, give it the receiver of a `sync_channel`. A panic of the
    /// iterator itself is passed on.
    ///
    /// # Errors
    /// What was given makes no sense; no workers; [`Error::NoWorker`]. Then no
    /// item was taken.
    pub fn run<I, S, T, E>(
        &self,
        items: S,
        job: impl Fn(&Worker, &I) -> Result<T, E> + Sync,
    ) -> Result<Vec<Result<T, JobError<E>>>, Error>
    where
        S: IntoIterator<Item = I, IntoIter: Send>,
        T: Send,
        E: Send,
    {
        let collected = Collected::new();
        self.run_each(items, job, |index, result| collected.put(index, result))?;
        Ok(collected.take())
    }

    /// As [`run`](Self::run), but hands each result over as soon as it is
    /// there, with the number of its item, from 0: one at a time, on the
    /// worker's thread.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_each<I, S, T, E>(
        &self,
        items: S,
        job: impl Fn(&Worker, &I) -> Result<T, E> + Sync,
        sink: impl FnMut(usize, Result<T, JobError<E>>) + Send,
    ) -> Result<(), Error>
    where
        S: IntoIterator<Item = I, IntoIter: Send>,
    {
        let pool = self.0.pool()?;
        let (source, sink) = (Source::new(items), Mutex::new(sink));
        let work = |number: usize| {
            let pool = pool.with_offset(number as u64);
            while let Some((index, item)) = source.next() {
                let result = self.finish(&pool, (number, index), |worker| job(worker, &item));
                sink.lock()(index, result);
            }
        };
        start(self.0.count, &work)
    }

    /// Attempts a job until it is done.
    fn finish<T, E>(
        &self,
        pool: &LimitPool,
        (number, index): (usize, usize),
        job: impl Fn(&Worker) -> Result<T, E>,
    ) -> Result<T, JobError<E>> {
        let mut attempt = 0;
        loop {
            let worker = Worker::new(pool, number, attempt);
            let attempted = catch_unwind(AssertUnwindSafe(|| job(&worker)));
            let fate = job::fate(&attempted);
            let next = job::next(attempted, self.0.retry.delay(index, attempt));
            Worker::over(&worker.limits, fate);
            match next {
                Next::Done(result) => return result,
                Next::Again(delay) => tidegate_store::block_on(back_off(pool, delay)),
            }
            attempt += 1;
        }
    }
}

/// Runs `work` on `count` threads, or as many as there can be, to its end.
fn start(count: usize, work: &(impl Fn(usize) + Sync)) -> Result<(), Error> {
    thread::scope(|scope| {
        for number in 0..count {
            let named = thread::Builder::new().name(format!("tidegate-worker-{number}"));
            match named.spawn_scoped(scope, move || work(number)) {
                Err(error) if number == 0 => return Err(Error::NoWorker(error.to_string())),
                Err(_) => break,
                Ok(_) => {}
            }
        }
        Ok(())
    })
}
