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
//! The same may be written in YAML (feature `yaml`): the name of the file tells.
//!
//! What is here, in the order in which a file passes through it:
//! `language` (which it is in), `toml` and `yaml` (their readers), `tree` (what
//! they read, for everyone after them), `source` (places in a text), `fields`
//! (typed look-ups in a table), `span` (lengths of time as people write them),
//! `limit` (one limit), `levels`, `members`, `definition` (one policy), `file`
//! (all of them), `desired` (entities and
//! overrides that a server is to keep), `models` (tables by models), `price` and `token_weight` (what
//! tokens of models cost, and how much they count), `config` (a server's file), `fault` (what is wrong with it),
//! `suggest` (did you mean), `shape` (a policy as plain values again).
//! Not here: reading from disk, which is the caller's, and watching for changes.

mod common;
mod config;
mod credential;
mod definition;
mod desired;
#[cfg(all(test, feature = "yaml"))]
mod differential;
mod fault;
mod fields;
mod file;
mod language;
mod levels;
mod limit;
mod members;
mod models;
mod price;
mod scope;
mod shape;
mod source;
mod span;
mod suggest;
#[cfg(test)]
mod tests;
mod tier;
mod token_weight;
mod toml;
mod tree;
#[cfg(feature = "yaml")]
mod yaml;

pub use config::{
    Config, MOST_AUDIT_EVENTS, ServerSettings, StoreCheck, parse_config, parse_config_for,
};
pub use credential::{
    Credential, DEFAULT_NAMESPACE, EVERY_NAMESPACE, LONGEST_NAMESPACE, wrong_namespace,
};
pub use definition::{FailureMode, Policy, RESERVED};
pub use desired::{
    DesiredEntity, DesiredKey, DesiredOverride, DesiredState, FIXED_SETTINGS, LONGEST_ENTITY_ID,
    LONGEST_METADATA, LONGEST_NAME, LONGEST_REASON, MOST_METADATA, parse_desired, wrong_entity_id,
    wrong_metadata, wrong_name, wrong_reason,
};
pub use fault::{Fault, PolicyErrors};
pub use file::{PolicyFile, parse};
pub use language::Language;
pub use limit::{Kind, LimitSyntax};
pub use members::PolicyMember;
pub use price::ModelPrice;
pub use scope::Scope;
pub use shape::Shape;
pub use span::{SpanError, parse_duration};
pub use token_weight::ModelWeight;
