//! Waiting on a thread: the interpreter's lock is released, and Ctrl-C interrupts.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// How long the main thread sleeps before it looks for signals. Other threads receive none.
const SIGNALS: Duration = Duration::from_millis(50);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` to its end. What is ready at once is answered with the lock held.
///
/// # Errors
/// What a signal handler raised; the future is then dropped, and what it took given back.
pub(crate) fn wait<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let mut future = pin!(future);
    if let Poll::Ready(answer) = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        return Ok(answer);
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let is_main = is_main_thread(py)?;
    loop {
        let polled = py.detach(|| {
            let mut context = Context::from_waker(&waker);
            loop {
                if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
                    return Some(answer);
                }
                if is_main {
                    thread::park_timeout(SIGNALS);
                    return None;
                }
                thread::park();
            }
        });
        if let Some(answer) = polled {
            return Ok(answer);
        }
        py.check_signals()?;
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let current = CURRENT.import(py, "threading", "current_thread")?.call0()?;
    let main = MAIN.import(py, "threading", "main_thread")?.call0()?;
    Ok(current.is(&main))
}
