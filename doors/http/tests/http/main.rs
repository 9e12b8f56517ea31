//! The door as its clients see it.

mod bounds;
mod decide;
mod forward;
mod headers;
mod hostile;
mod lease;
mod listing;
mod live;
mod matrix;
mod openapi;
mod operate;
mod proxies;
mod silent;
mod support;
mod tokens;
mod tools;
mod undelivered;
