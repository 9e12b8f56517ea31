//! Exceptions: those of `tidegate/errors.py`, and which of them an error of the library is.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use tidegate::{Error, ErrorKind};

/// An exception of the package, by its name.
pub(crate) fn exception<A>(py: Python<'_>, name: &str, arguments: A) -> PyErr
where
    A: for<'py> pyo3::call::PyCallArgs<'py>,
{
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("tidegate.errors").map(Bound::unbind));
    let made = module.and_then(|module| module.bind(py).getattr(name)?.call1(arguments));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The request makes no sense.
pub(crate) fn invalid(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, "InvalidRequest", (message.into(),))
}

/// What an error of the library is in Python: an exception for each `ErrorKind`, but that what
/// keeps a request from being served is told apart.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let words = error.to_string();
    let name = match error.kind() {
        ErrorKind::Never => match error {
            // Only semaphores say it: their slots are whole.
            Error::NeverFits {
                limit, capacity, ..
            } => return exception(py, "ImpossibleRequest", (words, limit, *capacity)),
            _ => "ImpossibleRequest",
        },
        ErrorKind::NotFound | ErrorKind::Ended => "LeaseEnded",
        ErrorKind::Busy => match error {
            Error::QueueFull(_) | Error::RootQueueFull(_) => "QueueFull",
            Error::WaitedTooLong(_) => "AcquireTimeout",
            _ => "StoreUnavailable",
        },
        ErrorKind::Full => "CapacityFull",
        ErrorKind::Unavailable => "StoreUnavailable",
        _ => "InvalidRequest",
    };
    exception(py, name, (words,))
}
