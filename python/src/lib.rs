//! The Python package `tidegate`, below its Python files.
//!
//! | room | holds |
//! |---|---|
//! | `amount` | numbers of Python as amounts of a limit |
//! | `limit` | a limit as Python describes it |
//! | `request` | what an acquisition asks for |
//! | `plan` | what verbs lead to, and how it is opened |
//! | `limiter` | what a set and a pool have in common |
//! | `verbs` | their verbs, on a thread and awaited |
//! | `set`, `pool` | how each is opened |
//! | `client` | the client of a server, and its leases |
//! | `llm` | calls of providers of language models: what to take for one, what it has used |
//! | `acquisition` | what was granted or refused, until it ends |
//! | `lock` | semaphores and mutexes over any store |
//! | `holding` | how what a `with` block holds is ended |
//! | `clock` | time that a test moves |
//! | `stats` | what was counted |
//! | `store` | stores by their URL |
//! | `patient` | a store in shared memory, whose locks no thread of Python waits for |
//! | `named` | what is opened once in a process, by its name |
//! | `kept` | an object of Python's that the collector is to see |
//! | `blocking` | waiting on a thread, without the interpreter's lock |
//! | `awaiting` | waiting in an event loop |
//! | `fork` | what a forked child does afresh |
//! | `error` | exceptions |
//!
//! Deliberately absent: any decision. What is decided, the library decides.

mod acquisition;
mod amount;
mod awaiting;
mod blocking;
mod client;
mod clock;
mod error;
mod fork;
mod holding;
mod kept;
mod limit;
mod limiter;
mod llm;
mod lock;
mod named;
#[cfg(target_os = "linux")]
mod patient;
mod plan;
mod pool;
mod request;
mod set;
mod stats;
mod store;
mod untaken;
mod verbs;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::acquisition::Acquisition;
    #[pymodule_export]
    use crate::awaiting::{Awaitable, Wakeups};
    #[pymodule_export]
    use crate::client::{Answer, Server, ServerGrant, ServerLease, ServerSpender, Spent};
    #[pymodule_export]
    use crate::clock::ManualClock;
    #[pymodule_export]
    use crate::fork::_after_fork;
    #[pymodule_export]
    use crate::limiter::Limiter;
    #[pymodule_export]
    use crate::llm::{_exhausted_for, LlmCall, LlmMeter};
    #[pymodule_export]
    use crate::lock::{Permit, Slots};
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::set::Set;
}
