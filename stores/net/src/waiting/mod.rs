//! A request that waits for its turn in a line that the store keeps, of all processes.
//!
//! | room | holds |
//! |---|---|
//! | [`Waiting`] | the request, whole, and how long it waits |
//! | [`stay()`] | its way: ask, pause, ask again, until it is told or nobody is there |
//! | [`Line`] | what a store does for it |

mod request;
mod stay;

pub use request::Waiting;
pub use stay::{Line, Try, next_try, stay};
