//! `tidegate serve` among strangers: TLS, bounds, signals, what it notes.

mod bounds;
mod certificates;
mod notes;
mod stop;
mod stores;
mod support;
mod tables;
mod tls;
