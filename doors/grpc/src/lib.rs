//! Tidegate over gRPC: `tidegate.v1`, with server reflection and the standard
//! health service. The protocol, field by field, is in
//! `proto/tidegate/v1/tidegate.proto`.
//!
//! | room | holds |
//! |---|---|
//! | [`serve()`], [`Settings`] | the door itself |
//! | [`proto`] | messages, server and client, made from the proto file |
//! | `service` | each call, over the gate |
//! | `words` | from the gate's words to the protocol's, and back |
//! | `denials` | refusals as a stream |
//!
//! Deliberately absent: deciding, and who may (the gate's); TLS (the caller
//! brings connections).
#![forbid(unsafe_code)]

mod denials;
mod serve;
mod service;
mod words;

pub use serve::{Settings, serve};

/// What the proto file says, in Rust.
pub mod proto {
    #![allow(
        missing_docs,
        clippy::all,
        reason = "made by a tool; the proto file has the words"
    )]
    tonic::include_proto!("tidegate.v1");

    /// The file itself, for reflection.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tidegate.v1.bin"));
}
