//! What threads and tasks have in common: how many, within what, how often.

use std::time::Duration;

use tidegate_core::Span;
use tidegate_store::sync::Mutex;

use super::given::IntoPool;
use super::retry::Retry;
use crate::clock::Sleep;
use crate::error::BuildError;
use crate::pool::LimitPool;

/// Begins workers.
///
/// ```
/// use tidegate::Limit;
/// use tidegate::workers::Workers;
///
/// let lengths = Workers::threads(4)
///     .limits([Limit::concurrency("running", 2)])
///     .run(["one", "three", "five"], |worker, word| {
///         let _lease = worker.limits.acquire("words", ()).wait()?;
///         Ok::<usize, tidegate::Error>(word.len())
///     })?;
/// let lengths: Vec<usize> = lengths.into_iter().flatten().collect();
/// assert_eq!(lengths, [3, 5, 4]);
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Workers;

#[derive(Clone, Debug)]
pub(super) struct Crew {
    pub(super) count: usize,
    pub(super) retry: Retry,
    /// Nothing if nothing was given.
    given: Option<Result<LimitPool, BuildError>>,
}

impl Crew {
    pub(super) fn new(count: usize) -> Self {
        Self {
            count,
            retry: Retry::default(),
            given: None,
        }
    }

    pub(super) fn give(&mut self, given: impl IntoPool) {
        self.given = Some(given.into_pool());
    }

    /// The pool that they work within.
    ///
    /// # Errors
    /// [`BuildError`]: what was given makes no sense, or there are no workers.
    pub(super) fn pool(&self) -> Result<LimitPool, BuildError> {
        if self.count == 0 {
            return Err(BuildError::Nothing("worker"));
        }
        self.given.clone().unwrap_or_else(|| ().into_pool())
    }
}

/// Sleeps for `delay` on the pool's clock.
pub(super) fn back_off(pool: &LimitPool, delay: Duration) -> Sleep {
    let clock = pool.clock().clone();
    let until = clock.now() + Span::from(delay);
    Sleep::until(clock, until)
}

/// Results by the order of their items.
pub(super) struct Collected<R>(Mutex<Vec<Option<R>>>);

impl<R> Collected<R> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(super) fn put(&self, index: usize, result: R) {
        let mut results = self.0.lock();
        if results.len() <= index {
            results.resize_with(index + 1, || None);
        }
        results[index] = Some(result);
    }

    pub(super) fn take(&self) -> Vec<R> {
        let results = std::mem::take(&mut *self.0.lock());
        results.into_iter().flatten().collect()
    }
}

/// Items, one at a time, to whoever asks next; each with its number.
pub(super) struct Source<I: Iterator>(Mutex<std::iter::Enumerate<std::iter::Fuse<I>>>);

impl<I: Iterator> Source<I> {
    pub(super) fn new(items: impl IntoIterator<IntoIter = I>) -> Self {
        Self(Mutex::new(items.into_iter().fuse().enumerate()))
    }

    pub(super) fn next(&self) -> Option<(usize, I::Item)> {
        self.0.lock().next()
    }
}
