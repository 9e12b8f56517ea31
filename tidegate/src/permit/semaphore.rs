//! Permits, given in order of arrival.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicUsize, Ordering};

use tidegate_store::{block_on, block_on_within};

/// Somebody waits: permits change hands under the queue's lock only.
const QUEUED: usize = 1;
/// One permit in the word; the bit below it is [`QUEUED`].
const ONE: usize = 2;

/// A number of permits, for threads and tasks alike. First come, first served,
/// large asks included; nobody overtakes who waits.
///
/// ```
/// let semaphore = tidegate::Semaphore::new(2);
/// let first = semaphore.acquire();
/// let second = semaphore.try_acquire();
/// assert!(second.is_some() && semaphore.try_acquire().is_none());
/// drop(first);
/// assert_eq!(semaphore.available(), 1);
/// ```
#[derive(Debug)]
pub struct Semaphore {
    /// Free permits, times [`ONE`], and the bit [`QUEUED`].
    word: AtomicUsize,
    permits: usize,
    queue: Mutex<VecDeque<Arc<Waiter>>>,
}

#[derive(Debug)]
struct Waiter {
    permits: usize,
    turn: Mutex<Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    come: bool,
    waker: Option<Waker>,
}

/// Permits held; dropping it gives them back.
#[derive(Debug)]
#[must_use = "permits are given back when this is dropped"]
pub struct Permit<'s> {
    semaphore: &'s Semaphore,
    permits: usize,
}

/// *Not ever*: more permits than the semaphore has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the semaphore has {permits} permits and never grants {asked} at once")]
pub struct TooManyPermits {
    /// What was asked for.
    pub asked: usize,
    /// What there is.
    pub permits: usize,
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
            permits,
            queue: Mutex::new(VecDeque::new()),
        }
    }

    /// How many permits are free now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.word.load(Ordering::Relaxed) / ONE
    }

    /// One permit, if one is free and nobody waits.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// `permits` at once, if they are free and nobody waits.
    #[inline]
    pub fn try_acquire_many(&self, permits: usize) -> Option<Permit<'_>> {
        let wanted = permits.checked_mul(ONE)?;
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & QUEUED != 0 || word < wanted {
                return None;
            }
            let taken = word - wanted;
            // Acquire: what earlier holders did is seen by this one.
            match self.swap(word, taken, Ordering::Acquire) {
                Ok(_) => return Some(self.permit(permits)),
                Err(current) => word = current,
            }
        }
    }

    /// One permit; the thread waits for it (for ever, if there is none at all).
    pub fn acquire(&self) -> Permit<'_> {
        block_on(self.acquire_async())
    }

    /// One permit, if the thread need not wait longer than this for it.
    pub fn acquire_within(&self, longest_wait: Duration) -> Option<Permit<'_>> {
        block_on_within(self.acquire_async(), longest_wait)
    }

    /// `permits` at once; the thread waits for them.
    ///
    /// # Errors
    /// More than there are.
    pub fn acquire_many(&self, permits: usize) -> Result<Permit<'_>, TooManyPermits> {
        block_on(self.acquire_many_async(permits))
    }

    /// One permit; the task waits for it. Dropping the future gives back its
    /// place and what it was given.
    pub async fn acquire_async(&self) -> Permit<'_> {
        self.take_or_wait(1).await
    }

    /// `permits` at once; the task waits for them.
    ///
    /// # Errors
    /// More than there are: it would wait for ever, and everyone behind it.
    pub async fn acquire_many_async(&self, permits: usize) -> Result<Permit<'_>, TooManyPermits> {
        if permits > self.permits {
            return Err(TooManyPermits {
                asked: permits,
                permits: self.permits,
            });
        }
        Ok(self.take_or_wait(permits).await)
    }

    async fn take_or_wait(&self, permits: usize) -> Permit<'_> {
        match self.try_acquire_many(permits) {
            Some(permit) => permit,
            None => Waiting::join(self, permits).await,
        }
    }

    const fn permit(&self, permits: usize) -> Permit<'_> {
        Permit {
            semaphore: self,
            permits,
        }
    }

    #[inline]
    fn swap(&self, from: usize, to: usize, order: Ordering) -> Result<usize, usize> {
        self.word
            .compare_exchange_weak(from, to, order, Ordering::Relaxed)
    }

    #[inline]
    fn release(&self, permits: usize) {
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
            if self.available() < first.permits {
                return woken;
            }
            self.word.fetch_sub(first.permits * ONE, Ordering::AcqRel);
            if let Some(first) = queue.pop_front() {
                let mut turn = first.turn.lock();
                turn.come = true;
                woken.extend(turn.waker.take());
            }
        }
        self.word.fetch_and(!QUEUED, Ordering::AcqRel);
        woken
    }
}

impl Drop for Permit<'_> {
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
        semaphore.word.fetch_or(QUEUED, Ordering::AcqRel);
        queue.push_back(Arc::clone(&waiter));
        let woken = semaphore.serve(&mut queue);
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
        Self {
            semaphore,
            waiter,
            taken: false,
        }
    }
}

impl<'s> Future for Waiting<'s> {
    type Output = Permit<'s>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut turn = self.waiter.turn.lock();
        if !turn.come {
            turn.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(turn);
        self.taken = true;
        Poll::Ready(self.semaphore.permit(self.waiter.permits))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut queue = self.semaphore.queue.lock();
        queue.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        let come = self.waiter.turn.lock().come;
        let woken = self.semaphore.serve(&mut queue);
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
        if come {
            self.semaphore.release(self.waiter.permits);
        }
    }
}
