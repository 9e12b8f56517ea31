//! Threads and tasks that do jobs within limits.
//!
//! | room | holds |
//! |---|---|
//! | [`Workers`] | how they are begun: [`Threads`], or `Tasks` (feature `tokio`) |
//! | [`IntoPool`] | what they may be given: nothing, limits, a set, sets, a pool |
//! | [`Worker`], [`Limits`] | what a job sees: its worker's limits, always there |
//! | [`Held`] | a lease taken in a job, which lives no longer than the attempt |
//! | [`Retry`] | how often a job that fails is run again, and after how long |
//! | [`JobError`] | a job that failed for good, or panicked |
//!
//! Deliberately absent: scheduling (jobs are taken in the order they come in,
//! by whoever is free) and results kept for later (a job's result is handed
//! over at once, or collected in order).

mod attempt;
mod crew;
mod given;
mod held;
mod job;
mod limits;
mod retry;
#[cfg(feature = "tokio")]
mod tasks;
mod threads;
mod worker;

pub use crew::Workers;
pub use given::IntoPool;
pub use held::Held;
pub use job::JobError;
pub use limits::Limits;
pub use retry::Retry;
#[cfg(feature = "tokio")]
pub use tasks::Tasks;
pub use threads::Threads;
pub use worker::Worker;
