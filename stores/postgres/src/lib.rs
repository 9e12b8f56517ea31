//! Remembers limits in PostgreSQL, for a fleet that shares them.
#![forbid(unsafe_code)]

mod calls;
mod definitions;
mod error;
mod link;
mod listing;
mod migrate;
mod options;
mod plan;
mod prune;
mod registry;
mod reply;
mod request;
mod store;
mod table;

pub use error::PostgresError;
pub use options::{Clock, Options, Tables};
pub use store::PostgresStore;
