//! What a replay tells: a summary as a table or as JSON, and every decision.
//!
//! Pictures are not here but in `plot`.

mod decisions;
mod json;
mod summary;
mod table;
mod words;

pub use decisions::write_decisions;
pub use json::as_json;
pub use summary::Summary;
pub use table::{Titles, write_table};
pub use words::length;
