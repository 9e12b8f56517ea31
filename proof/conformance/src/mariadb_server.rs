//! A MariaDB server for one test: in a folder of its own, on a free port, stopped
//! by its pid. It does not wait for the disk, but what it has committed is in the
//! operating system's hands: it survives a kill.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::missing::skip;
use crate::ports;

/// If this is set, a test that cannot find a server fails.
const REQUIRED: &str = "TIDEGATE_REQUIRE_MARIADB";

/// Where Debian puts a server.
const SERVER: &str = "/usr/sbin/mariadbd";

/// How long it may take to start, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long until it is looked at again while it starts.
const GLANCE: Duration = Duration::from_millis(20);

/// A server that runs until this is dropped. See the [module](self).
#[derive(Debug)]
pub struct MariadbServer {
    child: Child,
    port: u16,
    options: Vec<String>,
    /// Removed after the server is gone.
    folder: TempDir,
}

impl MariadbServer {
    /// A server with an empty database `tidegate`, if this machine has one; else
    /// says that the test is skipped.
    ///
    /// # Panics
    /// If it must be there (`TIDEGATE_REQUIRE_MARIADB`), or does not start.
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
        if !Path::new(SERVER).exists() {
            skip(
                "MariaDB is not installed (Debian: mariadb-server)",
                REQUIRED,
            );
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        install(folder.path());
        let options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
        let started = ports::first(|port| Some((launch(folder.path(), port, &options)?, port)));
        let (child, port) = started.expect("a port on which MariaDB starts");
        Some(Self {
            child,
            port,
            folder,
            options,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its address as a store's URL: the user `root`, who has no password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/tidegate", self.port)
    }

    /// Asks it something in SQL: what it answers, a row a line, with tabs between the
    /// columns.
    ///
    /// # Panics
    /// If it refuses, or does not answer.
    pub fn ask(&self, sql: &str) -> Vec<String> {
        self.try_ask(sql)
            .unwrap_or_else(|trouble| panic!("{sql}: {trouble}"))
    }

    /// The same, where it may refuse.
    ///
    /// # Errors
    /// What the client says of it.
    ///
    /// # Panics
    /// If there is no client.
    pub fn try_ask(&self, sql: &str) -> Result<Vec<String>, String> {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--user=root", "--host=127.0.0.1"]);
        client
            .arg("--protocol=tcp")
            .arg(format!("--port={}", self.port));
        client.args(["--skip-column-names", "--batch"]);
        let output = client.args(["tidegate", "--execute", sql]).output();
        let output = output.expect("mariadb runs (mariadb-client)");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(said.lines().map(str::to_owned).collect())
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, at any instruction.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(&mut self) {
        self.child.kill().expect("its process is ours");
        self.child.wait().expect("it ends");
    }

    /// Starts it again where it was left, on the same port.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        let child = launch(self.folder.path(), self.port, &self.options);
        self.child = child.expect("it starts on its own port");
    }
}

impl Drop for MariadbServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes the server's own tables.
fn install(folder: &Path) {
    let mut install = Command::new("mariadb-install-db");
    install.args(places(folder));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    install.args(["--skip-name-resolve", "--user", &user()]);
    let output = install.output().expect("mariadb-install-db runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::create_dir_all(folder.join("data/tidegate")).expect("a database is a folder");
}

/// `None` if it does not start: someone else was faster to take the port.
fn launch(folder: &Path, port: u16, options: &[String]) -> Option<Child> {
    let mut command = Command::new(SERVER);
    command.args(places(folder));
    command.arg(format!("--socket={}", folder.join("socket").display()));
    command
        .arg(format!("--port={port}"))
        .arg("--bind-address=127.0.0.1");
    command.args(["--skip-name-resolve", "--user", &user()]);
    command.args([
        "--innodb-flush-log-at-trx-commit=2",
        "--innodb-buffer-pool-size=32M",
    ]);
    command.args(["--performance-schema=off", "--max-connections=200"]);
    command.args(options);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let log = std::fs::File::create(folder.join("log")).expect("a log");
    let mut child = command.stderr(log).spawn().expect("mariadbd runs");
    listens(&mut child, port).then_some(child)
}

/// Waits until it accepts connections; false if it has ended.
#[expect(
    clippy::disallowed_methods,
    reason = "another process starts, and does not say when it has"
)]
fn listens(child: &mut Child, port: u16) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if child.try_wait().expect("its process is ours").is_some() {
            return false;
        }
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        std::thread::sleep(GLANCE);
    }
    panic!("MariaDB does not start within {PATIENCE:?}");
}

/// Where the server has its files: none of them is another's.
fn places(folder: &Path) -> [String; 4] {
    [
        "--no-defaults".to_owned(),
        format!("--datadir={}", folder.join("data").display()),
        format!("--tmpdir={}", folder.display()),
        "--innodb-log-file-size=8M".to_owned(),
    ]
}

/// Who runs the test; the server refuses to be root unless told so.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
