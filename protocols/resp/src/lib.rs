//! Tidegate for RESP clients (`redis-cli`, `redis-benchmark`, and every
//! Redis library): a rate limiter's old commands and all verbs of the service.
//!
//! | room | holds |
//! |---|---|
//! | [`Server`], [`Settings`] | talks on connections |
//! | [`parse`] | requests out of bytes |
//! | `render` | answers into bytes, in RESP2 and RESP3 |
//! | `connection` | reads, has everything answered that was read, writes once |
//! | `session` | who is there, and what they have said about themselves |
//! | `command` | the commands by name; each in a file of its own |
//! | `error` | why not, as a code word and a sentence |
//!
//! Deliberately absent: TLS (the listener's),
//! keys and values (this is not a database), and every decision: the service's.
#![forbid(unsafe_code)]

mod command;
mod connection;
mod error;
mod listen;
pub mod parse;
mod render;
mod session;
mod settings;

pub use listen::Server;
pub use settings::Settings;
pub use tidegate_protocol::Listener;
