//! Tidegate's door for RESP clients (`redis-cli`, `redis-benchmark`, and every
//! Redis library): a rate limiter's old commands and all verbs of the service.
//!
//! | room | holds |
//! |---|---|
//! | [`Door`], [`Settings`] | accepts connections, or talks on one that was made elsewhere |
//! | [`parse`] | requests out of bytes |
//! | `reply` | answers into bytes, in RESP2 and RESP3 |
//! | `connection` | reads, has everything answered that was read, writes once |
//! | `session` | who is there, and what they have said about themselves |
//! | `command` | the commands by name; each in a file of its own |
//! | `fault` | why not, as a code word and a sentence |
//!
//! Deliberately absent: TLS (hand [`Door::converse`] the stream that it makes),
//! keys and values (this is not a database), and every decision: the service's.
#![forbid(unsafe_code)]

mod command;
mod connection;
mod door;
mod fault;
pub mod parse;
mod reply;
mod session;
mod settings;

pub use door::Door;
pub use settings::Settings;
