//! Requests out of bytes: where each argument lies, without copying any.
//!
//! | room | holds |
//! |---|---|
//! | [`Parser`] | arrays of bulk strings, resumed where the bytes ended |
//! | `inline` | lines as people type them |
//! | [`Arguments`] | a request's arguments, in the bytes they came in |
//! | [`ProtocolError`] | what no client sends; the connection ends |
//!
//! A request is an array of bulk strings, so nothing nests: an array within
//! one is an error. Every size is checked when it is declared, before a byte
//! of it is waited for.

mod arguments;
mod error;
mod inline;
mod parser;

pub use arguments::{Arguments, MAX_ARGUMENTS};
pub use error::ProtocolError;
pub use parser::Parser;
