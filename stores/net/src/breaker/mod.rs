//! A circuit breaker, between a store that may be away and those who ask it.
//!
//! A store beyond a network may be gone, or answer nothing until its deadline.
//! Were everyone to wait for that, each request would take as long as the deadline,
//! and when the store comes back all would fall upon it at once. [`BreakerStore`] is a
//! store around another that, once several answers in a row did not come, answers
//! *cannot tell* at once for a while; then one request tries, and as its answers come
//! the others are let through, twice as many each time.
//!
//! | room | holds |
//! |---|---|
//! | [`Settings`] | how long it is patient |
//! | [`CircuitBreaker`] | when a store is asked, and when it is not |
//! | `circuit` | its states, without clock or lock |
//! | [`BreakerStore`] | the store around a store |
//! | `ignored` | errors that say nothing of the store |
//!
//! What is answered meanwhile is the policy's failure mode, and not decided here.
//! The pattern is that of M. Nygard, *Release It!*, chapter 5.

mod circuit;
pub(crate) mod ignored;
mod settings;
mod shared;
mod store;

pub use circuit::{Change, Position};
pub use settings::Settings;
pub use shared::{CircuitBreaker, Watcher};
pub use store::BreakerStore;
#[cfg(test)]
pub(crate) use store::end;
