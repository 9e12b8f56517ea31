//! The document that describes the server (OpenAPI 3.1), made from what the server reads
//! and writes.
//!
//! | room | holds |
//! |---|---|
//! | `schema` | schemas from types |
//! | `takes` | what a handler's arguments take of a request |
//! | `operation` | one operation: its handler, and what is said of it |
//! | `headers` | the fields that tell of limits |
//! | `problems` | the answers that several operations share |
//! | `document` | all of it |
//!
//! The operations themselves stand in `router`.

pub(crate) mod document;
pub(crate) mod headers;
pub(crate) mod operation;
pub(crate) mod problems;
pub(crate) mod schema;
pub(crate) mod takes;
