//! What a server allows.

use std::time::Duration;

use tonic::codegen::http::Request;
use tracing::Span;

/// Makes the span that a call runs in, from its head.
#[derive(Clone, Copy, Debug)]
pub struct Trace(pub fn(&Request<()>) -> Span);

impl PartialEq for Trace {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Trace {}

/// What a server allows.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The most connections at once; one more is closed.
    pub max_connections: usize,
    /// How many calls of one connection may be open at once.
    pub max_streams: u32,
    /// How many requests are read and answered at once, on all connections;
    /// more are told so. Who waits for a lease does not count: those are
    /// bounded by each policy's `max_waiting`.
    pub max_in_flight: usize,
    /// How many batch streams and streams of denials may be open at once.
    pub max_long_calls: usize,
    /// How many of these one token may have; all of them where there are no tokens.
    pub max_long_calls_of_one: usize,
    /// How many streams that need no token may be open at once: those of the health
    /// service's `Watch`, and of reflection.
    pub max_open_streams: usize,
    /// How many of these one connection may have.
    pub max_open_streams_of_one: usize,
    /// How long nothing may be said on one of these before it is ended
    /// (`UNAVAILABLE`; whoever watches opens it again).
    pub stream_idle: Duration,
    /// The largest message, in bytes.
    pub max_message_bytes: usize,
    /// The most that a call's headers may come to, in bytes.
    pub max_head_bytes: u32,
    /// How long a client may take to begin to speak HTTP/2.
    pub opening: Duration,
    /// How long the message of a call that has one may take to arrive.
    pub body_timeout: Duration,
    /// How long a connection is silent before it is asked whether it lives, and
    /// how long it may take to say so.
    pub keepalive: Duration,
    /// Who traces calls; nobody if not set.
    pub trace: Option<Trace>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_streams: 1_024,
            max_in_flight: 4_096,
            max_long_calls: 1_024,
            max_long_calls_of_one: 512,
            max_open_streams: 256,
            max_open_streams_of_one: 8,
            stream_idle: Duration::from_secs(300),
            max_message_bytes: 256 * 1_024,
            max_head_bytes: 32 * 1_024,
            opening: Duration::from_secs(30),
            body_timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(30),
            trace: None,
        }
    }
}
