//! How a store is opened.

use std::time::Duration;

pub use tidegate_store::optimistic::Clock;

/// See [`MysqlStore::open`](crate::MysqlStore::open).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// What the names of all SQL tables begin with, so that several systems may
    /// share a database: letters, digits and `_`, at most 32. `tidegate` unless
    /// said otherwise.
    pub prefix: String,
    /// Whose clock decides.
    pub clock: Clock,
    /// How long a command may take, with everything: a connection, both ways,
    /// waiting for whoever decides about the same root. One second unless said
    /// otherwise.
    pub deadline: Duration,
    /// How many connections are open at most, and so how many commands are under
    /// way; others wait, in order. 8 unless said otherwise.
    pub connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: "tidegate".to_owned(),
            clock: Clock::Server,
            deadline: Duration::from_secs(1),
            connections: 8,
        }
    }
}

impl Options {
    /// What makes no sense of it, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !(1..=32).contains(&self.prefix.len()) || !self.prefix.bytes().all(is_word) {
            return Err("the prefix of a MariaDB store is 1 to 32 letters, digits and underscores");
        }
        if self.deadline.is_zero() {
            return Err("the deadline of a MariaDB store is zero; give it a second");
        }
        if self.connections == 0 {
            return Err("a MariaDB store with no connection answers nothing; give it 8");
        }
        Ok(())
    }
}
