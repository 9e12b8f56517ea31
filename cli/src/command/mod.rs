//! What the words of the command line do.

mod policy;
mod progress;
mod replay;
mod token;

use crate::trouble::{Outcome, Trouble};

pub use replay::replay;
pub use token::token;

/// What runs the commands that speak with others.
pub fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.map_err(Trouble::failure)
}
