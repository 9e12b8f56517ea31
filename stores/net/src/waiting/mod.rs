//! A request that waits for its turn in a line that the store keeps, of all processes.
//!
//! | room | holds |
//! |---|---|
//! | [`Waiting`] | the request, whole, and how long it waits |
//! | [`stay()`] | its way: ask, pause, ask again, until it is told or nobody is there |
//! | [`Line`] | what a store does for it |
//! | [`PollingLine`], [`Queue`] | the line of a store that wakes nobody |
//! | [`Outcome`] | what a decision is where others are before it |

#[cfg(test)]
mod fixture;
mod kept;
mod polling;
mod request;
mod stay;

pub use kept::{Outcome, kept_back, takes_anew};
pub use polling::{Pace, PollingLine, Queue};
pub use request::{Turn, Waiting};
pub use stay::{Line, Try, next_try, stay};
