//! Tidegate over gRPC: `tidegate.v1`, with server reflection and the standard
//! health service. The protocol, field by field, is in
//! `proto/tidegate/v1/tidegate.proto`.
//!
//! | room | holds |
//! |---|---|
//! | [`serve()`], [`serve_on()`] | the door itself |
//! | [`Settings`] | what it allows |
//! | `front` | where each call goes |
//! | `unasked` | health and reflection, which need no token: how many, and for how long |
//! | `handover` | a lease that nobody received is given back |
//! | `connection`, `places`, `hurry` | how many, and how slow they may be |
//! | [`proto`] | messages, server and client, made from the proto file |
//! | `methods` | each call, over the service |
//! | `words` | from the service's words to the protocol's, and back |
//! | `listing` | keys and leases, and a lease that is revoked |
//! | `overrides` | limits in place of what the policies say |
//! | `denials` | refusals as a stream |
//!
//! Deliberately absent: deciding, and who may (the service's); TLS (whoever calls
//! [`serve_on()`] brings connections).
#![forbid(unsafe_code)]

mod connection;
mod denials;
mod front;
mod handover;
mod hurry;
mod listing;
mod methods;
mod overrides;
mod places;
pub mod proto;
mod serve;
mod settings;
mod unasked;
mod words;

pub use serve::{serve, serve_on};
pub use settings::{Settings, Trace};
