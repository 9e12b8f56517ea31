//! A Redis server for one test: in a folder of its own, on a free port, without
//! persistence, stopped by its pid.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::ports;

/// If this is set, a test that cannot find a server fails.
const REQUIRED: &str = "TIDEGATE_REQUIRE_REDIS";

/// A server that runs until this is dropped. See the [module](self).
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    /// Removed after the server is gone.
    _folder: TempDir,
}

impl RedisServer {
    /// A server, if this machine has one; else says that the test is skipped.
    ///
    /// # Panics
    /// If it must be there (`TIDEGATE_REQUIRE_REDIS`), or does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// As [`start`](Self::start), with more of the server's own options.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with(options: &[&str]) -> Option<Self> {
        if !is_installed() {
            let required = std::env::var_os(REQUIRED).is_some();
            assert!(
                !required,
                "redis-server is not installed, and {REQUIRED} is set"
            );
            println!("skipped: redis-server is not installed (Debian: redis-server)");
            return None;
        }
        let server = ports::first(|port| Self::at(port, options));
        Some(server.expect("a port on which redis-server starts"))
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its address as a store's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `None` if it does not start: someone else was faster to take the port.
    fn at(port: u16, options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
        command.args(options).current_dir(folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut server = Self {
            child: child.expect("redis-server runs"),
            port,
            _folder: folder,
        };
        let output = server.child.stdout.take().expect("its output");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let ready = lines.any(|line| line.contains("Ready to accept connections"));
        // What it says later is read to its end, or it would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        ready.then_some(server)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_installed() -> bool {
    let mut version = Command::new("redis-server");
    let version = version.arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}
