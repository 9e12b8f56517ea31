//! Plans, rows and leases as bytes, for a store that keeps them: what is written
//! by one version is read by every later one, or refused; never misread. And what a store
//! is asked and answers, on its way to another process.
//!
//! | room | holds |
//! |---|---|
//! | [`plan`] | a plan, and when it came into force |
//! | [`row`] | the states of one level's limits, and which plan wrote them |
//! | [`record`] | a lease |
//! | [`command`] | what a store is asked for |
//! | [`reply`] | what it answers |
//! | [`definition`] | definitions, their changes and events |
//! | `version` | what each begins with |
//! | [`reader`] | reads from the front of a slice, and never past its end |
//! | [`writer`] | writes what is read so |
//!
//! Each begins with a version of its own. States are the core's
//! ([`tidegate_core::codec`]), which have theirs.

pub mod command;
pub mod definition;
pub mod plan;
pub mod reader;
pub mod record;
pub mod reply;
pub mod row;
#[cfg(test)]
mod tests;
mod version;
pub mod writer;

pub use plan::{decode_plan, encode_plan};
pub use reader::Reader;
pub use record::{decode_record, encode_record};
pub use row::{EncodedRow, decode_row, encode_own, encode_row, row_head};
pub use version::{VERSION, versioned};
pub use writer::Writer;
