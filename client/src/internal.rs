//! For the project's own crates: nothing is promised of it.

pub use crate::heartbeat::{Lost, Renewal, keep_renewing};
pub use crate::quantity::{millis, whole};
