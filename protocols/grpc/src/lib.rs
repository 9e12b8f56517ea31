//! Tidegate over gRPC: `tidegate.v1`, with server reflection and the standard
//! health service. The protocol, field by field, is in
//! `proto/tidegate/v1/tidegate.proto`.
//!
//! | room | holds |
//! |---|---|
//! | [`Server`] | what is served, and on which connections |
//! | [`Settings`] | what it allows |
//! | `routes` | where each call goes |
//! | `entry` | who makes a call, and whether one more of theirs may be inside |
//! | `unasked` | health and reflection, which need no token: how many, and for how long |
//! | `connection`, `unary`, `long_calls` | how many, and how slow they may be |
//! | [`proto`] | messages, server and client, made from the proto file |
//! | `app` | each call, over the service |
//! | `parse`, `render` | calls out of messages, and answers into them |
//! | `audit`, `entities`, `namespaces` | the same of audit events, of entities and of namespaces |
//! | `error` | what is said instead: a status |
//! | `denials` | refusals as a stream |
//! | `offered` | the server's store, offered to others |
//!
//! Deliberately absent: deciding, and who may (the service's); TLS (the listener's).
#![forbid(unsafe_code)]

mod app;
mod audit;
mod connection;
mod denials;
mod entities;
mod entry;
mod error;
mod listen;
mod long_calls;
mod namespaces;
mod offered;
mod parse;
pub mod proto;
mod render;
mod routes;
mod settings;
mod unary;
mod unasked;

pub use listen::Server;
pub use settings::{Settings, Trace};
pub use tidegate_protocol::Listener;
