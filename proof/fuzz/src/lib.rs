//! Hostile input. Each file in `targets/` is one libFuzzer target; here is how
//! they make choices out of bytes.
//!
//! | room | holds |
//! |---|---|
//! | [`Feed`] | bytes as a series of choices |
//! | [`limits`] | limits of every kind |
//! | [`Play`] | a limit set, everyone who uses it, and what must hold |
//! | `held` | who holds slots, counted by hand |

mod feed;
mod held;
mod limits;
mod play;

pub use feed::Feed;
pub use limits::limits;
pub use play::Play;
