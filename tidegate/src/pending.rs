//! A verb's answer, awaited or waited for.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tidegate_store::{block_on, block_on_within};

pin_project! {
/// A verb that has not begun yet. It begins when it is awaited, on any async runtime, or
/// waited for on a thread; dropped, it does nothing.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate::{Limit, LimitSet};
/// let set = LimitSet::new([Limit::calls("rps", 5, Duration::from_secs(1))])?;
/// assert!(set.check("alice", ()).wait()?.admitted());
/// # async fn awaited(set: LimitSet) -> Result<(), tidegate::Error> {
/// assert!(set.check("alice", ()).await?.admitted());
/// # Ok(())
/// # }
/// # Ok::<(), tidegate::Error>(())
/// ```
#[must_use = "nothing is done until it is awaited or waited for"]
pub struct Pending<F> {
    #[pin]
    answer: F,
}
}

impl<F: Future> Pending<F> {
    #[inline]
    /// What begins when it is awaited or waited for.
    pub(crate) const fn new(answer: F) -> Self {
        Self { answer }
    }

    /// Begins, and parks the calling thread until the answer is there. It returns at
    /// once where the answer needs no disk, no network and no waiting for others.
    ///
    /// On a thread of an async runtime, await it instead: others wait for that thread.
    // Inlined, so that what is asked is pinned where the caller made it: it has some
    // hundred bytes, and was just written piece by piece.
    #[inline(always)]
    pub fn wait(self) -> F::Output {
        let mut answer = pin!(self.answer);
        // Most need not wait: those are not moved anywhere to be waited for.
        if let Poll::Ready(answer) = now(answer.as_mut()) {
            return answer;
        }
        block_on(answer)
    }

    /// Begins, and answers if that needs no disk, no network and no waiting for others;
    /// else gives up.
    pub fn now_or_never(self) -> Option<F::Output> {
        match now(pin!(self.answer)) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// As [`wait`](Self::wait), for `longest` at most; `None` if the answer has not come
    /// by then: what it took is given back.
    pub fn wait_within(self, longest: Duration) -> Option<F::Output> {
        block_on_within(self.answer, longest)
    }
}

/// What can be answered without waiting.
#[inline]
fn now<F: Future>(answer: Pin<&mut F>) -> Poll<F::Output> {
    answer.poll(&mut Context::from_waker(Waker::noop()))
}

impl<F: Future> Future for Pending<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().answer.poll(context)
    }
}

impl<F> fmt::Debug for Pending<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}
