//! Playing a trace through the real engine, in virtual time, or through a
//! running server (`through`).
//!
//! `world` is the event loop; `decision` what becomes of each request and what
//! it is charged; `usage` how much of each limit is in use; `woken` the wakers
//! of those who wait.

mod decision;
mod through;
mod usage;
mod woken;
mod world;

pub use decision::{Charges, Outcome, Run};
pub use through::{Server, play_through};
pub use world::play;
