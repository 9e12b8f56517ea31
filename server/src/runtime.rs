//! What runs the commands that speak with others.

use crate::trouble::{Outcome, Trouble};

/// What runs the commands that speak with others.
pub fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.map_err(Trouble::failure)
}
