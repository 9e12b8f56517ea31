//! What the words of the command line do.

mod policy;
mod progress;
mod replay;
mod runtime;
mod token;

pub use progress::Progress;
pub use replay::replay;
pub use runtime::runtime;
pub use token::token;
