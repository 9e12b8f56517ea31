//! What the proto file says, in Rust.
#![allow(
    missing_docs,
    clippy::all,
    reason = "made by a tool; the proto file has the words"
)]
tonic::include_proto!("tidegate.store.v1");

/// The file itself, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tidegate.store.v1.bin"));
