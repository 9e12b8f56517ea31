//! An ask that waits for its turn in a line that the store keeps, of all processes.
//!
//! | room | holds |
//! |---|---|
//! | [`Waiting`] | the ask, whole, and how long it waits |
//! | [`stay()`] | its way: ask, pause, ask again, until it is told or nobody is there |
//! | [`Line`] | what a store does for it |

mod ask;
mod stay;

pub use ask::Waiting;
pub use stay::{Line, Try, next_try, stay};
