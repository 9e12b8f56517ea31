//! A process is killed at random moments under load, and its file opened again.
//!
//! | room | holds |
//! |---|---|
//! | `child` | the process that is killed: takes and settles leases, and says what it was told |
//! | `received` | what it said, by its end |
//! | `kills` | the tests: what was acknowledged is there, nothing is lost or doubled |
//! | `full` | a disk that is full, for a process that goes on |
//!
//! 20 kills of each kind; `TIDEGATE_KILLS=200 cargo test -p tidegate-file --test
//! crash` for more.
#![cfg(unix)]
#![expect(
    clippy::disallowed_methods,
    reason = "a kill comes at a random moment of real time"
)]

mod child;
mod full;
mod kills;
mod received;
#[path = "../support/mod.rs"]
mod support;
