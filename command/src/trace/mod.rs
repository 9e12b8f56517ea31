//! Traces: what was asked of a service, and when.
//!
//! A reader for each format yields records, one for each line, and nothing
//! else: the instant and the fields as texts. What a field means (key, cost,
//! tokens) is decided once, in `extract`, for all formats alike.
//!
//! Not here: what becomes of a request; that is `replay`.

mod azure;
mod combined;
mod extract;
mod instant;
mod json_lines;
mod load;
mod open;
mod record;

pub use extract::{CostField, KeyChoice, Meaning};
pub use instant::TimeField;
pub use load::{Request, Trace, load};
pub use open::{Format, open};
