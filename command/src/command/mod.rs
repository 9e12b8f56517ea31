//! What the words of the command line do.

mod policy;
mod progress;
mod replay;
mod token;

pub use progress::Progress;
pub use replay::replay;
pub use token::token;
