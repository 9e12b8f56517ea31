//! One thread drives connections and heartbeats; it is started when the first verb of a process
//! is said.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::awaiting::{Answer as Told, Awaitable};
use crate::blocking;
use crate::error::exception;
use crate::fork;

/// What drives connections, and the fork that it is of. That of a parent is left where it is:
/// its thread is not in the child.
static RUNTIME: Mutex<Option<(u64, &'static Runtime)>> = Mutex::new(None);

pub(super) fn runtime(py: Python<'_>) -> PyResult<&'static Runtime> {
    let mut known = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((generation, runtime)) = *known
        && generation == fork::generation()
    {
        return Ok(runtime);
    }
    let mut builder = Builder::new_multi_thread();
    let made = builder
        .worker_threads(1)
        .thread_name("tidegate-client")
        .enable_all()
        .build();
    let made = made.map_err(|error| exception(py, "ServerUnavailable", (error.to_string(),)))?;
    let runtime: &'static Runtime = Box::leak(Box::new(made));
    *known = Some((fork::generation(), runtime));
    Ok(runtime)
}

/// Work on that thread; dropped, it is dropped, too, unless it is kept: then it goes on.
struct Driven<T> {
    task: JoinHandle<T>,
    is_kept: bool,
}

impl<T> Future for Driven<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let ended = Pin::new(&mut self.task).poll(context);
        ended.map(|ended| ended.expect("it neither panics nor is it aborted while it is awaited"))
    }
}

impl<T> Drop for Driven<T> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.task.abort();
        }
    }
}

/// Says a verb: awaited, or waited for here.
pub(super) fn run<T: Send + 'static>(
    py: Python<'_>,
    is_awaited: bool,
    verb: impl Future<Output = T> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let runtime = runtime(py)?;
    let begin = move || Driven {
        task: runtime.spawn(verb),
        is_kept: false,
    };
    follow(py, is_awaited, begin, answer)
}

/// As [`run`]; once it is said it goes on, whoever gives up waiting for it.
pub(super) fn carry_out<T: Send + 'static>(
    py: Python<'_>,
    is_awaited: bool,
    verb: impl Future<Output = T> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let task = runtime(py)?.spawn(verb);
    let begun = Driven {
        task,
        is_kept: true,
    };
    follow(py, is_awaited, move || begun, answer)
}

fn follow<T: Send + 'static>(
    py: Python<'_>,
    is_awaited: bool,
    begin: impl FnOnce() -> Driven<T> + Send + 'static,
    answer: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    if !is_awaited {
        let done = blocking::wait(py, begin())?;
        return answer(py, done);
    }
    let awaitable = Awaitable::new(async move {
        let done = begin().await;
        let told: Told = Box::new(move |py| answer(py, done));
        told
    });
    Ok(Py::new(py, awaitable)?.into_any())
}
