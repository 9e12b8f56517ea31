//! What the words of the command line do.

mod policy;
mod progress;
mod replay;

pub use replay::replay;
