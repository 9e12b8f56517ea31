//! A row of PostgreSQL that refuses a late writer: what the locks' page says of
//! fences, done.

use std::process::Command;

use tidegate_conformance::postgres_server::PostgresServer;

/// One value, and the fence that it was written with.
pub struct Register {
    url: String,
}

impl Register {
    pub fn new(server: &PostgresServer) -> Self {
        let register = Self::of(&server.url());
        register.sql("CREATE TABLE register (value text, fence bigint NOT NULL)");
        register.sql("INSERT INTO register VALUES ('', 0)");
        register
    }

    /// The one in the database at `url`.
    pub fn of(url: &str) -> Self {
        Self {
            url: url.to_owned(),
        }
    }

    /// Writes, unless a later holder has: the check and the write are one step.
    pub fn write(&self, fence: u64, value: &str) -> bool {
        let done = self.sql(&format!(
            "UPDATE register SET value = '{value}', fence = {fence} WHERE fence <= {fence}"
        ));
        done == "UPDATE 1"
    }

    pub fn value(&self) -> String {
        self.sql("SELECT value FROM register")
    }

    fn sql(&self, words: &str) -> String {
        sql(&self.url, words)
    }
}

/// What the database at `url` answers.
pub fn sql(url: &str, words: &str) -> String {
    let mut psql = Command::new("psql");
    psql.args(["--no-psqlrc", "-At", "-v", "ON_ERROR_STOP=1"]);
    let output = psql.arg("-c").arg(words).arg(url).output();
    let output = output.expect("psql runs (postgresql-client)");
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {trouble}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
