//! Waiting on a thread, without the interpreter's lock.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// How long the main thread sleeps before it looks for signals. Other threads receive none.
const SIGNALS: Duration = Duration::from_millis(50);

thread_local! {
    /// What Python has raised amid a poll on this thread, and whoever polls is to raise.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whoever polls on this thread raises `error`.
pub(crate) fn raise(error: PyErr) {
    RAISED.set(Some(error));
}

/// # Errors
/// What Python has raised amid a poll on this thread.
pub(crate) fn raised() -> PyResult<()> {
    RAISED.take().map_or(Ok(()), Err)
}

fn has_raised() -> bool {
    RAISED.with_borrow(Option::is_some)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` to its end, unless Ctrl-C comes first. What is ready at once is answered with
/// the lock held.
///
/// # Errors
/// What a signal handler raised, or a balancer in Python that is no `Exception`; the future, or its
/// answer, is then dropped, and what it took given back.
pub(crate) fn wait<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let mut future = pin!(future);
    let answer = first_poll(future.as_mut());
    raised()?;
    // What came meanwhile is not to come between the answer and its caller.
    py.check_signals()?;
    if let Poll::Ready(answer) = answer {
        return Ok(answer);
    }
    let looks_after = is_main_thread(py)?.then_some(SIGNALS);
    loop {
        let answer = py.detach(|| poll_for(future.as_mut(), looks_after));
        raised()?;
        py.check_signals()?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
    }
}

/// Runs `future` to its end, whatever signals come: what it ends is not to be lost. Then says
/// what a signal handler has raised meanwhile.
pub(crate) fn finish<F>(py: Python<'_>, future: F) -> (F::Output, PyResult<()>)
where
    F: Future + Send,
    F::Output: Send,
{
    let mut future = pin!(future);
    if let Poll::Ready(answer) = first_poll(future.as_mut()) {
        return (answer, Ok(()));
    }
    let answer = py.detach(|| {
        loop {
            if let Some(answer) = poll_for(future.as_mut(), None) {
                return answer;
            }
        }
    });
    (answer, py.check_signals())
}

fn first_poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// What `future` comes to, within `longest` if there is one, and unless Python raises something
/// meanwhile.
fn poll_for<F: Future>(mut future: Pin<&mut F>, longest: Option<Duration>) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
            return Some(answer);
        }
        if has_raised() {
            return None;
        }
        match longest {
            Some(longest) => {
                thread::park_timeout(longest);
                return None;
            }
            None => thread::park(),
        }
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let current = CURRENT.import(py, "threading", "current_thread")?.call0()?;
    let main = MAIN.import(py, "threading", "main_thread")?.call0()?;
    Ok(current.is(&main))
}
