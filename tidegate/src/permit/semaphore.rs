//! Permits, given in order of arrival.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicUsize, Ordering};

use crate::pending::Pending;

/// Somebody waits: permits change hands under the queue's lock only.
const QUEUED: usize = 1;
/// Nobody is granted anything any more.
const CLOSED: usize = 2;
/// One permit in the word; the bits below it are [`QUEUED`] and [`CLOSED`].
const ONE: usize = 4;

/// A number of permits, for threads and tasks alike. First come, first served,
/// large requests included; nobody overtakes a request that waits.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::Semaphore;
///
/// let semaphore = Arc::new(Semaphore::new(2));
/// let first = semaphore.acquire().wait()?;                       // or .await
/// let second = Arc::clone(&semaphore).try_acquire_owned()?;      // moves into a task
/// assert!(semaphore.try_acquire().is_err());
/// drop((first, second));
/// assert_eq!(semaphore.available_permits(), 2);
/// # Ok::<(), tidegate::AcquireError>(())
/// ```
#[derive(Debug)]
pub struct Semaphore {
    /// Free permits, times [`ONE`], and the bits.
    word: AtomicUsize,
    /// How many there are.
    permits: AtomicUsize,
    queue: Mutex<VecDeque<Arc<Waiter>>>,
}

#[derive(Debug)]
struct Waiter {
    permits: usize,
    turn: Mutex<Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    state: State,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Waits,
    Granted,
    Closed,
}

/// Permits held; dropping it gives them back. Borrowed from a semaphore, or (if not said)
/// owned, with a share of it.
#[derive(Debug)]
#[must_use = "permits are given back when this is dropped"]
pub struct Permit<S: Deref<Target = Semaphore> = Arc<Semaphore>> {
    semaphore: S,
    permits: usize,
}

/// Why there is no permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The semaphore was [closed](Semaphore::close).
    #[error("the semaphore is closed")]
    Closed,
    /// *Not now*: too few are free, or others wait for them. Only who does not wait is
    /// told so.
    #[error("no permit is free now")]
    NoPermits,
    /// *Not ever*: more permits than the semaphore has. (Unless some are
    /// [added](Semaphore::add_permits).)
    #[error("the semaphore has {permits} permits and never grants {requested} at once")]
    TooMany {
        /// What was requested.
        requested: usize,
        /// What there is.
        permits: usize,
    },
}

impl Semaphore {
    /// The most permits there can be.
    pub const MAX_PERMITS: usize = usize::MAX / (2 * ONE);

    /// A semaphore of `permits` (at most [`MAX_PERMITS`](Self::MAX_PERMITS)).
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        let permits = if permits > Self::MAX_PERMITS {
            Self::MAX_PERMITS
        } else {
            permits
        };
        Self {
            word: AtomicUsize::new(permits * ONE),
            permits: AtomicUsize::new(permits),
            queue: Mutex::new(VecDeque::new()),
        }
    }

    /// How many permits are free now.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.word.load(Ordering::Relaxed) / ONE
    }

    /// So many permits more (up to [`MAX_PERMITS`](Self::MAX_PERMITS) in all), for whoever
    /// is first in the queue.
    pub fn add_permits(&self, permits: usize) {
        let more = |all: usize| Some(all.saturating_add(permits).min(Self::MAX_PERMITS));
        let before = self
            .permits
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        let before = before.unwrap_or(Self::MAX_PERMITS);
        self.release(permits.min(Self::MAX_PERMITS - before));
    }

    /// Grants nothing any more: whoever waits, and whoever comes, is told
    /// [`AcquireError::Closed`]. Permits that are held stay held.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
        let mut woken = Vec::new();
        for waiter in queue.drain(..) {
            let mut turn = waiter.turn.lock();
            turn.state = State::Closed;
            woken.extend(turn.waker.take());
        }
        self.word.fetch_and(!QUEUED, Ordering::AcqRel);
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Whether it was [closed](Self::close).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// One permit, if one is free and nobody waits.
    ///
    /// # Errors
    /// [`AcquireError::NoPermits`], [`AcquireError::Closed`].
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, AcquireError> {
        self.try_acquire_many(1)
    }

    /// `permits` at once, if they are free and nobody waits.
    ///
    /// # Errors
    /// [`AcquireError`].
    #[inline]
    pub fn try_acquire_many(&self, permits: usize) -> Result<Permit<&Self>, AcquireError> {
        Permit::take(self, permits)
    }

    /// As [`try_acquire`](Self::try_acquire), and the permit moves into other tasks.
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<Permit, AcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// As [`try_acquire_many`](Self::try_acquire_many), owned.
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire_many_owned(self: Arc<Self>, permits: usize) -> Result<Permit, AcquireError> {
        Permit::take(self, permits)
    }

    /// One permit, awaited or waited for. Given up before its end, it gives back its place
    /// and what it was given.
    ///
    /// # Errors
    /// [`AcquireError::Closed`]; [`AcquireError::TooMany`] of a semaphore without permits.
    pub fn acquire(
        &self,
    ) -> Pending<impl Future<Output = Result<Permit<&Self>, AcquireError>> + Send> {
        self.acquire_many(1)
    }

    /// `permits` at once, awaited or waited for.
    ///
    /// # Errors
    /// [`AcquireError::Closed`]; [`AcquireError::TooMany`]: it would wait for ever, and
    /// everyone behind it.
    pub fn acquire_many(
        &self,
        permits: usize,
    ) -> Pending<impl Future<Output = Result<Permit<&Self>, AcquireError>> + Send> {
        Pending::new(Permit::wait(self, permits))
    }

    /// As [`acquire`](Self::acquire), and the permit moves into other tasks.
    ///
    /// # Errors
    /// As there.
    pub fn acquire_owned(
        self: Arc<Self>,
    ) -> Pending<impl Future<Output = Result<Permit, AcquireError>> + Send> {
        self.acquire_many_owned(1)
    }

    /// As [`acquire_many`](Self::acquire_many), owned.
    ///
    /// # Errors
    /// As there.
    pub fn acquire_many_owned(
        self: Arc<Self>,
        permits: usize,
    ) -> Pending<impl Future<Output = Result<Permit, AcquireError>> + Send> {
        Pending::new(Permit::wait(self, permits))
    }

    async fn take_or_wait(&self, permits: usize) -> Result<(), AcquireError> {
        match self.take(permits) {
            Err(AcquireError::NoPermits) => Waiting::join(self, permits).await,
            answer => answer,
        }
    }

    /// Takes `permits`, if they are free and nobody waits.
    #[inline]
    fn take(&self, permits: usize) -> Result<(), AcquireError> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & (QUEUED | CLOSED) != 0 || word / ONE < permits {
                return Err(self.why_not(permits));
            }
            let taken = word - permits * ONE;
            // Acquire: what earlier holders did is seen by this one.
            match self.swap(word, taken, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(current) => word = current,
            }
        }
    }

    #[cold]
    fn why_not(&self, requested: usize) -> AcquireError {
        let permits = self.permits.load(Ordering::Acquire);
        match self.is_closed() {
            true => AcquireError::Closed,
            false if requested > permits => AcquireError::TooMany { requested, permits },
            false => AcquireError::NoPermits,
        }
    }

    #[inline]
    fn swap(&self, from: usize, to: usize, order: Ordering) -> Result<usize, usize> {
        self.word
            .compare_exchange_weak(from, to, order, Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn release(&self, permits: usize) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & QUEUED == 0 {
            // Release: what this holder did is seen by the next.
            match self.swap(word, word + permits * ONE, Ordering::Release) {
                Ok(_) => return,
                Err(current) => word = current,
            }
        }
        self.release_queued(permits);
    }

    #[cold]
    fn release_queued(&self, permits: usize) {
        let mut queue = self.queue.lock();
        self.word.fetch_add(permits * ONE, Ordering::AcqRel);
        let woken = self.serve(&mut queue);
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Gives free permits to whoever is first; opens the fast path again when
    /// the queue is empty. The queue's lock is held.
    fn serve(&self, queue: &mut VecDeque<Arc<Waiter>>) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(first) = queue.front() {
            if self.available_permits() < first.permits {
                return woken;
            }
            self.word.fetch_sub(first.permits * ONE, Ordering::AcqRel);
            if let Some(first) = queue.pop_front() {
                let mut turn = first.turn.lock();
                turn.state = State::Granted;
                woken.extend(turn.waker.take());
            }
        }
        self.word.fetch_and(!QUEUED, Ordering::AcqRel);
        woken
    }
}

impl<S: Deref<Target = Semaphore>> Permit<S> {
    #[inline]
    fn take(semaphore: S, permits: usize) -> Result<Self, AcquireError> {
        semaphore.take(permits)?;
        Ok(Self { semaphore, permits })
    }

    async fn wait(semaphore: S, permits: usize) -> Result<Self, AcquireError> {
        semaphore.take_or_wait(permits).await?;
        Ok(Self { semaphore, permits })
    }

    /// They are given back by other means.
    pub(super) fn keep(mut self) {
        self.permits = 0;
    }
}

impl<S: Deref<Target = Semaphore>> Drop for Permit<S> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.release(self.permits);
    }
}

/// One who waits for permits.
struct Waiting<'s> {
    semaphore: &'s Semaphore,
    waiter: Arc<Waiter>,
    taken: bool,
}

impl<'s> Waiting<'s> {
    fn join(semaphore: &'s Semaphore, permits: usize) -> Self {
        let waiter = Arc::new(Waiter {
            permits,
            turn: Mutex::default(),
        });
        let mut queue = semaphore.queue.lock();
        let mut woken = Vec::new();
        if semaphore.is_closed() {
            waiter.turn.lock().state = State::Closed;
        } else {
            semaphore.word.fetch_or(QUEUED, Ordering::AcqRel);
            queue.push_back(Arc::clone(&waiter));
            woken = semaphore.serve(&mut queue);
        }
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
        Self {
            semaphore,
            waiter,
            taken: false,
        }
    }
}

impl Future for Waiting<'_> {
    type Output = Result<(), AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut turn = self.waiter.turn.lock();
        let state = turn.state;
        if state == State::Waits {
            turn.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(turn);
        if state == State::Closed {
            return Poll::Ready(Err(AcquireError::Closed));
        }
        self.taken = true;
        Poll::Ready(Ok(()))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut queue = self.semaphore.queue.lock();
        queue.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        let state = self.waiter.turn.lock().state;
        let woken = self.semaphore.serve(&mut queue);
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
        if state == State::Granted {
            self.semaphore.release(self.waiter.permits);
        }
    }
}
