//! The binary as a user runs it.

mod common;
mod replay;
mod trouble;
