//! A row of PostgreSQL that refuses a late writer: what the locks' page says of
//! fences, done.

use crate::postgres_server::{PostgresServer, psql};

/// One value, and the fence that it was written with.
#[derive(Debug)]
pub struct Register {
    url: String,
}

impl Register {
    /// A new one, of a server that has none.
    ///
    /// # Panics
    /// If the server does not make it.
    #[must_use]
    pub fn new(server: &PostgresServer) -> Self {
        let register = Self::of(&server.url());
        register.sql("CREATE TABLE register (value text, fence bigint NOT NULL)");
        register.sql("INSERT INTO register VALUES ('', 0)");
        register
    }

    /// The one in the database at `url`.
    #[must_use]
    pub fn of(url: &str) -> Self {
        Self {
            url: url.to_owned(),
        }
    }

    /// Writes, unless a later holder has: the check and the write are one step.
    /// True if it was written.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    pub fn write(&self, fence: u64, value: &str) -> bool {
        let done = self.sql(&format!(
            "UPDATE register SET value = '{value}', fence = {fence} WHERE fence <= {fence}"
        ));
        done == "UPDATE 1"
    }

    /// What was written last.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    pub fn value(&self) -> String {
        self.sql("SELECT value FROM register")
    }

    fn sql(&self, words: &str) -> String {
        psql(&self.url, words)
    }
}
