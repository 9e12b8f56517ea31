//! The Python package `tidegate`, below its Python files.
//!
//! | room | holds |
//! |---|---|
//! | `amount` | numbers of Python as amounts of a limit |
//! | `limit` | a limit as Python describes it |
//! | `request` | what an acquisition asks for |
//! | `set` | a limit set: its verbs, on a thread and awaited |
//! | `pool` | the same for a pool of sets |
//! | `lock` | semaphores and mutexes over any store |
//! | `acquisition` | what was granted or refused, until it ends |
//! | `store` | stores by their URL, one for each process |
//! | `blocking` | waiting on a thread, without the interpreter's lock, until Ctrl-C |
//! | `awaiting` | waiting in an event loop |
//! | `fork` | what a forked child does afresh |
//! | `error` | exceptions |
//!
//! Deliberately absent: any decision. What is decided, the library decides.

mod acquisition;
mod amount;
mod awaiting;
mod blocking;
mod error;
mod fork;
mod limit;
mod lock;
mod pool;
mod request;
mod set;
mod store;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::acquisition::Acquisition;
    #[pymodule_export]
    use crate::awaiting::{Awaitable, Wakeups};
    #[pymodule_export]
    use crate::fork::_after_fork;
    #[pymodule_export]
    use crate::lock::{Permit, Slots};
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::set::Set;
}
