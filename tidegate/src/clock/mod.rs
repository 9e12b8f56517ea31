//! The only place where a clock is read.
//!
//! | room | holds |
//! |---|---|
//! | [`Clock`] | what every set reads: the process's, a manual one, or your own |
//! | [`ManualClock`] | time that stands still until told otherwise, for tests and replays |
//! | [`TimeSource`] | bring your own; made monotone here |
//! | `timer` | what is to happen at an instant, on whichever clock |
//! | `sleep` | a future that ends at an instant |
//!
//! Whatever the source does, a limit's clock never runs backward: after a step
//! back it goes on from where it stood, at the source's pace.

mod kinds;
mod manual;
mod sleep;
mod source;
mod system;
pub(crate) mod timer;

pub use kinds::Clock;
pub(crate) use kinds::TierTimer;
pub use manual::ManualClock;
pub use source::TimeSource;

pub(crate) use sleep::Sleep;
