//! How a store is opened.

use std::time::Duration;

/// See [`PostgresStore::open`](crate::PostgresStore::open).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whose clock decides.
    pub clock: Clock,
    /// How long a command may take, with everything: connecting, both ways, the
    /// server, and waiting for another's turn. One second unless said otherwise.
    pub deadline: Duration,
    /// How many connections are kept at most: so many commands are executed at
    /// once. Eight unless said otherwise.
    pub connections: usize,
    /// Whether the leases that this store makes end with it: when its process is
    /// gone, or the connection that it holds for this, they expire as soon as
    /// somebody is refused because of them, and a minute later anyway
    /// ([`prune_every`](Self::prune_every)). False unless said otherwise.
    pub leases_end_with_session: bool,
    /// How rows and leases are kept.
    pub tables: Tables,
    /// Whether an answer waits until the disk has it, as the server says
    /// (`synchronous_commit`). Without, what the last moments took may be granted
    /// again after a crash of the server; nothing else is lost. True unless said
    /// otherwise.
    pub waits_for_disk: bool,
    /// Whether a schema that is missing or older is made or brought up to date.
    /// Whoever connects must own it then. True unless said otherwise.
    pub migrate: bool,
    /// How often rows that equal "never seen" are removed by this process; never
    /// if zero. (One process at a time does it.) A minute unless said otherwise.
    pub prune_every: Duration,
}

/// Whose clock decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// The server's, for all callers alike.
    #[default]
    Server,
    /// The caller's, as it comes with each command: for tests that decide
    /// themselves what time it is. Nothing is then removed by itself.
    Caller,
}

/// How rows and leases are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tables {
    /// As they are; logged if they are made.
    #[default]
    AsTheyAre,
    /// Logged: they survive a crash, and are replicated.
    Logged,
    /// Unlogged: faster, and empty after a crash of the server or a failover.
    Unlogged,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::Server,
            deadline: Duration::from_secs(1),
            connections: 8,
            leases_end_with_session: false,
            tables: Tables::AsTheyAre,
            waits_for_disk: true,
            migrate: true,
            prune_every: Duration::from_secs(60),
        }
    }
}
