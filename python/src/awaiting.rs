//! Waiting in an event loop, without a thread of its own.
//!
//! An [`Awaitable`] polls its future in the task that awaits it. If the answer is not there
//! yet, the task waits for a future of its loop. Who wakes it may be any thread, and may not
//! wait for the interpreter's lock (whoever has that may wait for *it*): it notes the task's
//! token and writes to a descriptor that the loop watches. So any number of wake-ups cost
//! one turn of the loop.

use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::blocking;

/// What a future comes to: made into Python's words by who awaits it.
pub(crate) type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The tasks of one event loop that are to go on.
#[derive(Debug)]
struct Woken {
    tokens: Mutex<Vec<u64>>,
    write: UnixStream,
}

impl Woken {
    fn note(&self, token: u64) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.push(token);
        if tokens.len() == 1 {
            // If it is full, the loop is to wake up anyway.
            let _ = (&self.write).write(&[1]);
        }
    }
}

struct WakeTask {
    woken: Arc<Woken>,
    token: u64,
}

impl Wake for WakeTask {
    fn wake(self: Arc<Self>) {
        self.woken.note(self.token);
    }
}

/// What one event loop watches: a descriptor, and the tasks that are to go on.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Wakeups {
    woken: Arc<Woken>,
    read: UnixStream,
}

#[pymethods]
impl Wakeups {
    #[new]
    fn new() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        let tokens = Mutex::default();
        let woken = Arc::new(Woken { tokens, write });
        Ok(Self { woken, read })
    }

    /// The descriptor to watch.
    fn fileno(&self) -> i32 {
        self.read.as_raw_fd()
    }

    /// The tokens of those that are to go on.
    fn take(&self) -> Vec<u64> {
        let mut bytes = [0; 64];
        while matches!((&self.read).read(&mut bytes), Ok(64)) {}
        let mut tokens = self.woken.tokens.lock();
        std::mem::take(
            tokens
                .as_mut()
                .map_or_else(|poisoned| &mut **poisoned.get_mut(), |all| &mut **all),
        )
    }
}

/// A task's wait in its loop.
struct InLoop {
    event_loop: Py<PyAny>,
    waiting: Py<PyDict>,
    token: u64,
    waker: Waker,
    /// What the task waits for, until it is done.
    asleep: Option<Py<PyAny>>,
}

impl InLoop {
    fn new(py: Python<'_>) -> PyResult<Self> {
        static LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let here = LOOP.import(py, "tidegate._loop", "here")?.call0()?;
        let (event_loop, wakeups, waiting): (Py<PyAny>, Bound<'_, Wakeups>, Py<PyDict>) =
            here.extract()?;
        let token = NEXT.fetch_add(1, Ordering::Relaxed);
        let woken = Arc::clone(&wakeups.get().woken);
        Ok(Self {
            event_loop,
            waiting,
            token,
            waker: Waker::from(Arc::new(WakeTask { woken, token })),
            asleep: None,
        })
    }

    /// A future of the loop that is done when the task is woken.
    fn sleep<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let future = self.event_loop.bind(py).call_method0("create_future")?;
        self.waiting.bind(py).set_item(self.token, &future)?;
        // What `await future` would set before it yields the future to its task.
        future.setattr("_asyncio_future_blocking", true)?;
        self.asleep = Some(future.clone().unbind());
        Ok(future)
    }

    /// Whether the task that waits was not woken yet: then another one asks.
    fn is_asleep(&self, py: Python<'_>) -> PyResult<bool> {
        match &self.asleep {
            Some(future) => Ok(!future.call_method0(py, "done")?.extract::<bool>(py)?),
            None => Ok(false),
        }
    }

    fn leave(&self, py: Python<'_>) {
        let _ = self.waiting.bind(py).del_item(self.token);
    }
}

#[derive(Default)]
struct State {
    future: Option<Pending>,
    in_loop: Option<InLoop>,
}

/// A verb that is awaited, once.
///
/// Its state is taken out while it is polled: no lock is held while Python runs.
#[pyclass(frozen, module = "tidegate._core")]
pub(crate) struct Awaitable(Mutex<Option<State>>);

impl Awaitable {
    pub(crate) fn new(future: impl Future<Output = Answer> + Send + 'static) -> Self {
        let future: Option<Pending> = Some(Box::pin(future));
        Self(Mutex::new(Some(State {
            future,
            in_loop: None,
        })))
    }

    fn take(&self) -> Option<State> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.take()
    }

    fn put_back(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    /// Nobody waits any more: what was taken is given back.
    fn drop_future(&self, py: Python<'_>) {
        let Some(state) = self.take() else {
            return;
        };
        self.put_back(State::default());
        if let Some(in_loop) = &state.in_loop {
            in_loop.leave(py);
        }
        let future = state.future;
        py.detach(|| drop(future));
    }
}

/// One poll: the answer, or what the task waits for.
fn step<'py>(py: Python<'py>, state: &mut State) -> PyResult<Result<Answer, Bound<'py, PyAny>>> {
    let State { future, in_loop } = state;
    let Some(pending) = future else {
        return Err(PyRuntimeError::new_err("it was awaited already"));
    };
    if in_loop.is_none() {
        let mut context = Context::from_waker(Waker::noop());
        let polled = pending.as_mut().poll(&mut context);
        if let Err(error) = blocking::raised() {
            *future = None;
            return Err(error);
        }
        if let Poll::Ready(answer) = polled {
            *future = None;
            return Ok(Ok(answer));
        }
        *in_loop = Some(InLoop::new(py)?);
    }
    let waits = in_loop.as_mut().expect("it was put there");
    if waits.is_asleep(py)? {
        return Err(PyRuntimeError::new_err("another task awaits it already"));
    }
    let polled = pending
        .as_mut()
        .poll(&mut Context::from_waker(&waits.waker));
    if let Err(error) = blocking::raised() {
        waits.leave(py);
        *state = State::default();
        return Err(error);
    }
    match polled {
        Poll::Pending => Ok(Err(waits.sleep(py)?)),
        Poll::Ready(answer) => {
            waits.leave(py);
            *state = State::default();
            Ok(Ok(answer))
        }
    }
}

#[pymethods]
impl Awaitable {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(mut state) = self.take() else {
            return Err(PyRuntimeError::new_err("another thread awaits it already"));
        };
        let stepped = step(py, &mut state);
        self.put_back(state);
        match stepped? {
            Ok(answer) => Err(PyStopIteration::new_err((answer(py)?,))),
            Err(waits_for) => Ok(waits_for),
        }
    }

    fn send<'py>(&self, py: Python<'py>, _value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.__next__(py)
    }

    /// Its task was cancelled.
    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        &self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = traceback;
        self.drop_future(py);
        let raised = match value {
            Some(value) if !value.is_none() => value,
            _ if kind.is_callable() => kind.call0()?,
            _ => kind,
        };
        Err(PyErr::from_value(raised))
    }

    fn close(&self, py: Python<'_>) {
        self.drop_future(py);
    }

    /// A loop that was closed is collected with the tasks that waited in it.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(state) = self.0.try_lock()
            && let Some(in_loop) = state.as_ref().and_then(|state| state.in_loop.as_ref())
        {
            visit.call(&in_loop.event_loop)?;
            visit.call(&in_loop.waiting)?;
            visit.call(&in_loop.asleep)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        drop(self.take());
    }
}
