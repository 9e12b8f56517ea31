//! How a store is opened.

use std::time::Duration;

/// See [`RedisStore::open`](crate::RedisStore::open).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// What the names of all keys begin with, so that several systems may share
    /// a server. `tidegate` unless said otherwise.
    pub prefix: String,
    /// Whose clock decides.
    pub clock: Clock,
    /// How long a command may take, with everything: connecting, both ways, the
    /// server. One second unless said otherwise.
    pub deadline: Duration,
    /// Whether functions are loaded into the server where it allows that (Redis 7,
    /// Valkey); it otherwise defines the same anew for every call, as scripts. True
    /// unless said otherwise.
    pub functions: bool,
}

/// Whose clock decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// The server's, for all callers alike.
    #[default]
    Server,
    /// The caller's, as it comes with each command: for tests that decide
    /// themselves what time it is. Nothing then expires by itself.
    Caller,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: "tidegate".to_owned(),
            clock: Clock::Server,
            deadline: Duration::from_secs(1),
            functions: true,
        }
    }
}
