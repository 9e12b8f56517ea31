//! What is asked: a room for each question, with its rows.

mod answers;
mod beside;
mod common;
pub mod crowd;
mod hot;
mod list;
mod paused;
mod reloaded;
mod retried;
mod rolled;
mod tiered;
mod told;
mod woken;

pub use list::QUESTIONS;
