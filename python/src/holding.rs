//! How what a `with` block holds is ended: once, and so that its slots surely come back.
//!
//! The body's own exception comes first: an error of the end itself is dropped then. Only
//! Ctrl-C passes, with the body's exception as its `__context__`.

use std::future::{Future, ready};

use pyo3::PyClass;
use pyo3::exceptions::PyGeneratorExit;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::PyType;

use crate::awaiting::{Answer, Awaitable};
use crate::blocking;

/// How it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    /// The body is a generator's, and whoever went through it wants no more of it (a `break`,
    /// `close()`): as done as it is to be.
    Closed,
    Failed,
    Cancelled,
}

impl Ending {
    /// That of a block, by the kind of its exception.
    fn of(kind: &Bound<'_, PyAny>) -> Self {
        let is_closed = |kind: &Bound<'_, PyType>| kind.is_subclass_of::<PyGeneratorExit>();
        match kind.cast::<PyType>() {
            Ok(kind) if is_closed(kind).unwrap_or(false) => Self::Closed,
            Ok(_) => Self::Failed,
            Err(_) => Self::Done,
        }
    }
}

/// What holds something until it ends.
pub(crate) trait Holding: PyClass<Frozen = True> + Send + Sync {
    /// What came of the end.
    type Ended: Send + 'static;

    /// Ends it, in an event loop. `None`: it has ended, or a parent process holds it.
    fn end(&self, how: Ending) -> impl Future<Output = Option<Self::Ended>> + Send;

    /// The same on a thread, whose event loop does not go on meanwhile: it waits for nothing that is
    /// awaited there.
    fn end_here(&self, how: Ending) -> impl Future<Output = Option<Self::Ended>> + Send {
        self.end(how)
    }

    /// What came of it, as Python is told.
    fn told(&self, py: Python<'_>, ended: Self::Ended) -> PyResult<()>;
}

fn told<H: Holding>(
    py: Python<'_>,
    held: &H,
    how: Ending,
    ended: Option<H::Ended>,
) -> PyResult<()> {
    let told = ended.map_or(Ok(()), |ended| held.told(py, ended));
    match how {
        Ending::Closed | Ending::Failed => Ok(()),
        Ending::Done | Ending::Cancelled => told,
    }
}

/// Ends it on this thread.
pub(crate) fn end<H: Holding>(py: Python<'_>, held: &H, how: Ending) -> PyResult<()> {
    let (ended, interrupted) = blocking::finish(py, held.end_here(how));
    let told = told(py, held, how, ended);
    interrupted.and(told)
}

/// Ends it in an event loop.
pub(crate) fn end_later<H: Holding>(held: Py<H>, how: Ending) -> Awaitable {
    Awaitable::new(async move {
        let ended = held.get().end(how).await;
        let answer: Answer = Box::new(move |py| {
            told(py, held.get(), how, ended)?;
            Ok(py.None())
        });
        answer
    })
}

/// Leaves a `with` block.
pub(crate) fn exit<H: Holding>(held: &H, kind: &Bound<'_, PyAny>) -> PyResult<()> {
    end(kind.py(), held, Ending::of(kind))
}

/// Leaves an `async with` block.
pub(crate) fn exit_later<H: Holding>(held: Py<H>, kind: &Bound<'_, PyAny>) -> Awaitable {
    end_later(held, Ending::of(kind))
}

/// Enters an `async with` block.
pub(crate) fn enter_later<H: Holding>(held: Py<H>) -> Awaitable {
    let answer: Answer = Box::new(move |_| Ok(held.into_any()));
    Awaitable::new(ready(answer))
}
