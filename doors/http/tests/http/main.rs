//! The door as its clients see it.

mod bounds;
mod decide;
mod forward;
mod headers;
mod hostile;
mod lease;
mod operate;
mod support;
mod tokens;
