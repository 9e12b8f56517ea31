//! The document that describes the server (OpenAPI 3.1), made from what the server reads
//! and writes. A test makes it, and compares it with `openapi.json`, which is served: what it is made
//! by is in no server.
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

#![cfg_attr(
    not(test),
    allow(
        dead_code,
        clippy::extra_unused_type_parameters,
        reason = "the document is made by a test"
    )
)]

#[cfg(test)]
pub(crate) mod document;
#[cfg(test)]
pub(crate) mod headers;
pub(crate) mod operation;
#[cfg(test)]
pub(crate) mod problems;
pub(crate) mod schema;
pub(crate) mod takes;
