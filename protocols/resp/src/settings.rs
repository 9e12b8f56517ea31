//! How much a server puts up with.

use std::time::Duration;

/// How much a server puts up with. Each bound is there so that memory has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The most connections at once; one more is told so and closed.
    pub max_connections: usize,
    /// The longest request, in bytes; also how much is read ahead.
    pub max_request_bytes: usize,
    /// The most requests that are answered by one write.
    pub max_pipelined: usize,
    /// How long a client may take to send its first byte, the rest of a command
    /// that it has begun, and to take its answers. A command that waits for a lease
    /// is not bounded by this.
    pub request_timeout: Duration,
    /// A connection on which nothing came for so long (and at most twice as
    /// long) is closed.
    pub idle: Duration,
    /// How long open connections are waited for when the server closes.
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_request_bytes: 64 * 1_024,
            max_pipelined: 1_024,
            request_timeout: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            drain: Duration::from_secs(10),
        }
    }
}

impl Settings {
    /// With at most so many connections.
    #[must_use]
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most;
        self
    }

    /// With requests of at most so many bytes.
    #[must_use]
    pub fn max_request_bytes(mut self, most: usize) -> Self {
        self.max_request_bytes = most;
        self
    }

    /// With at most so many requests answered by one write.
    #[must_use]
    pub fn max_pipelined(mut self, most: usize) -> Self {
        self.max_pipelined = most;
        self
    }

    /// With so much time for the first byte, for the rest of a command, and for a client
    /// to take its answers.
    #[must_use]
    pub fn request_timeout(mut self, within: Duration) -> Self {
        self.request_timeout = within;
        self
    }

    /// Closing what was silent for so long.
    #[must_use]
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Waiting for open connections for so long when the server closes.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }
}
