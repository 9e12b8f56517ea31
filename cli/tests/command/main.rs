//! The binary as a user runs it.

mod common;
mod readme;
mod replay;
mod trouble;
