//! How a store is opened.

use std::fmt;
use std::time::Duration;

/// See [`RemoteStore::open`](crate::RemoteStore::open).
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// The token to authenticate with, if the address has none: one with the scope `store`.
    pub token: Option<String>,
    /// What the names of all tables begin with, so that several systems may share a server
    /// and know nothing of each other. None unless said otherwise.
    pub prefix: Option<String>,
    /// How long a command may take, with everything: connecting, both ways, the server. One
    /// second unless said otherwise.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            prefix: None,
            deadline: Duration::from_secs(1),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("token", &self.token.as_ref().map(|_| "***"))
            .field("prefix", &self.prefix)
            .field("deadline", &self.deadline)
            .finish()
    }
}
