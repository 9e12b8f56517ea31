//! A PostgreSQL server for one test: in a folder of its own, on a free port,
//! stopped by its pid. The server refuses to be root; a test that is runs it as
//! the user `postgres`, whom the package made.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::missing::skip;
use crate::ports;

/// If this is set, a test that cannot find a server fails.
const REQUIRED: &str = "TIDEGATE_REQUIRE_POSTGRES";

/// If this is set, the server's programs are there, whatever the machine has: another
/// version, to which the tests are put.
const PROGRAMS: &str = "TIDEGATE_POSTGRES_PROGRAMS";

/// Who owns the databases.
const OWNER: &str = "tidegate";

/// A server that runs until this is dropped. See the [module](self).
#[derive(Debug)]
pub struct PostgresServer {
    child: Option<Child>,
    port: u16,
    programs: PathBuf,
    options: Vec<String>,
    /// Removed after the server is gone.
    folder: TempDir,
}

impl PostgresServer {
    /// A server, if this machine has one; else says that the test is skipped.
    ///
    /// # Panics
    /// If it must be there (`TIDEGATE_REQUIRE_POSTGRES`), or does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// As [`start`](Self::start), with more of the server's own settings, each as
    /// `name=value`.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with(options: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            skip("PostgreSQL is not installed (Debian: postgresql)", REQUIRED);
            return None;
        };
        let folder = cluster(&programs);
        let mut server = Self {
            child: None,
            port: 0,
            programs,
            options: options.iter().map(|&option| option.to_owned()).collect(),
            folder,
        };
        let started = ports::first(|port| server.run(port).map(|child| (child, port)));
        let (child, port) = started.expect("a port on which PostgreSQL starts");
        (server.child, server.port) = (Some(child), port);
        Some(server)
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its address as a store's URL, as the owner of the databases, who may do
    /// everything.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as(OWNER)
    }

    /// Its address for another role. No role needs a password.
    #[must_use]
    pub fn url_as(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/postgres", self.port)
    }

    /// Where its programs are, clients among them.
    #[must_use]
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// Asks it something in SQL, as the owner: what it answers, a row a line, with
    /// `|` between the columns.
    ///
    /// # Panics
    /// If it refuses, or does not answer.
    pub fn ask(&self, sql: &str) -> Vec<String> {
        let said = psql(&self.url(), sql);
        said.lines().map(str::to_owned).collect()
    }

    /// Its process.
    ///
    /// # Panics
    /// If it was killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a server that runs").id()
    }

    /// Ends it without a chance to say anything, with all it has started.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may be gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again where it was.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        // It fails until what the killed one had started is gone.
        let attempts = (0..2_000).find_map(|_| self.run(self.port));
        self.child = Some(attempts.expect("the server starts again"));
    }

    /// Starts it again where it was, as a standby of nobody: it is read, and not written.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again_as_standby(&mut self) {
        let signal = self.folder.path().join("data/standby.signal");
        std::fs::write(signal, "").expect("a file");
        self.start_again();
    }

    /// `None` if it does not start: someone else was faster to take the port.
    fn run(&self, port: u16) -> Option<Child> {
        let data = self.folder.path().join("data");
        let mut command = as_nobody_special(&self.programs.join("postgres"));
        command.args(["-D"]).arg(&data);
        command.args(["-p", &port.to_string(), "-k", ""]);
        command.args(["-c", "listen_addresses=127.0.0.1"]);
        command.args(["-c", "log_min_messages=log", "-c", "logging_collector=off"]);
        command.args([
            "-c",
            "log_checkpoints=off",
            "-c",
            "log_autovacuum_min_duration=-1",
        ]);
        for option in &self.options {
            command.args(["-c", option]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = child.stderr(Stdio::piped()).spawn();
        let mut child = child.expect("PostgreSQL runs");
        let output = child.stderr.take().expect("its output");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let ready = lines.any(|line| line.contains("ready to accept"));
        // What it says later is read to its end, or it would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        if ready {
            return Some(child);
        }
        let _ = child.kill();
        let _ = child.wait();
        None
    }
}

impl Drop for PostgresServer {
    /// At once, but with a chance to give its shared memory back.
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let mut quit = Command::new("kill");
        let quit = quit.args(["-QUIT", &child.id().to_string()]).status();
        if !quit.is_ok_and(|status| status.success()) {
            // It may be gone already.
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

/// What the database at `url` answers, without its last line's end.
pub(crate) fn psql(url: &str, sql: &str) -> String {
    // Not Debian's `psql`, which is a script that looks for this one: it takes longer
    // than most questions.
    let own = programs().map(|programs| programs.join("psql"));
    let own = own.filter(|own| own.exists());
    let mut psql = Command::new(own.unwrap_or_else(|| "psql".into()));
    psql.args(["--no-psqlrc", "-At", "-v", "ON_ERROR_STOP=1"]);
    let output = psql.arg("-c").arg(sql).arg(url).output();
    let output = output.expect("psql runs (postgresql-client)");
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sql}: {trouble}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Where the server's programs are, the newest if there are several, unless it is said
/// which.
fn programs() -> Option<PathBuf> {
    if let Some(said) = std::env::var_os(PROGRAMS) {
        return Some(said.into());
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let versions = versions.filter_map(|entry| {
        let version: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let programs = PathBuf::from(format!("/usr/lib/postgresql/{version}/bin"));
        programs
            .join("initdb")
            .exists()
            .then_some((version, programs))
    });
    versions.max().map(|(_, programs)| programs)
}

/// An empty cluster in a folder of its own.
fn cluster(programs: &Path) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    if is_root() {
        let mut chown = Command::new("chown");
        let owned = chown.arg("postgres").arg(folder.path()).status();
        assert!(owned.expect("chown runs").success(), "the user postgres");
    }
    let mut command = as_nobody_special(&programs.join("initdb"));
    command.arg("-D").arg(folder.path().join("data"));
    command.args([
        "-U",
        OWNER,
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]);
    let made = command.current_dir(folder.path()).stdout(Stdio::null());
    assert!(made.status().expect("initdb runs").success(), "a cluster");
    folder
}

/// A command of the server's that does not run as root.
fn as_nobody_special(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=postgres",
        "--regid=postgres",
        "--init-groups",
        "--",
    ]);
    command.arg(program);
    command
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
