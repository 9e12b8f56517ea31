//! Policies as text: a TOML file that describes limit sets by name.
//!
//! ```toml
//! [policy.chat]
//! [policy.chat.limits]
//! rpm     = { calls = 300, per = "1m" }
//! tpm     = { rate = 600_000, per = "1m", burst = 900_000 }
//! daily   = { budget = 25_000_000, per = "day", zone = "Europe/Berlin" }
//! running = { concurrency = 24, ttl = "2m" }
//! ```
//!
//! A file is read as a whole: [`parse`] answers with every policy, or with
//! every fault at once, each with its place, the line it stands on and what to
//! write instead. Who corrects one mistake should not meet the next by running
//! the program again.
//!
//! What is here, in the order in which a file passes through it:
//! `source` (places in a text), `fields` (typed look-ups in a table), `span`
//! (lengths of time as people write them), `limit` (one limit), `file` (all of
//! them), `config` (a server's file), `fault` (what is wrong with it), `suggest` (did you mean).
//! Not here: reading from disk, which is the caller's, and watching for changes.

#[cfg(feature = "gate")]
mod config;
mod fault;
mod fields;
mod file;
mod limit;
mod source;
mod span;
mod suggest;
#[cfg(test)]
mod tests;

#[cfg(feature = "gate")]
pub use config::{Config, ServerSettings, parse_config};
pub use fault::{Fault, PolicyErrors};
pub use file::{FailureMode, Policy, PolicyFile, parse};
pub use limit::{Kind, Written};
pub use span::{SpanError, parse_duration};
