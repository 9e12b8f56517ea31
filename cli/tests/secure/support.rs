//! A server as a process, and clients that nobody here wrote.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

pub const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 1000, per = '1h' }\n\
                          running = { concurrency = 1 }\n";

pub const CONFIG: [&str; 4] = ["--config", "tidegate.toml", "--store", "memory:"];

/// Where what a server says on standard error is kept.
const SAID: &str = "said";

/// A server on free ports, killed when it is dropped.
pub struct Server {
    pub process: Child,
    pub http: SocketAddr,
    pub grpc: SocketAddr,
    pub resp: SocketAddr,
    folder: PathBuf,
}

impl Server {
    /// With the policies of the folder, in memory.
    pub fn start(folder: &Path, more: &[&str]) -> Self {
        Self::spawn(folder, serve(folder).args(CONFIG).args(more))
    }

    pub fn spawn(folder: &Path, command: &mut Command) -> Self {
        let said = std::fs::File::create(folder.join(SAID)).expect("created");
        let command = command.stderr(said);
        let mut process = command.spawn().expect("the program runs");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let mut lines = said.lines().map(|line| line.expect("text"));
        let mut address = |protocol: &str| {
            let Some(line) = lines.find(|line| line.trim_start().starts_with(protocol)) else {
                let _ = process.wait();
                let faults = std::fs::read_to_string(folder.join(SAID));
                panic!(
                    "{protocol} is not announced: {}",
                    faults.unwrap_or_default()
                );
            };
            let at = line.split_whitespace().nth(1).expect("an address");
            let at = at.rsplit('/').next().expect("an address");
            at.parse().expect("an address")
        };
        let (http, grpc, resp) = (address("HTTP"), address("gRPC"), address("RESP"));
        Self {
            process,
            http,
            grpc,
            resp,
            folder: folder.to_owned(),
        }
    }

    pub fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// How it ends, of itself.
    pub fn ended(mut self) -> (i32, String) {
        let status = self.process.wait().expect("it ends");
        (status.code().expect("by itself"), self.said())
    }

    /// What it has said so far on standard error.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join(SAID)).expect("text")
    }

    /// `curl` with these arguments, in its folder.
    pub fn curl(&self, arguments: &[&str]) -> Output {
        let mut curl = Command::new("curl");
        curl.current_dir(&self.folder)
            .args(["--silent", "--show-error", "--max-time", "20"]);
        curl.args(arguments).output().expect("curl runs")
    }

    /// `redis-cli` with these arguments, in its folder.
    pub fn redis(&self, arguments: &[&str]) -> Output {
        let mut redis = Command::new("redis-cli");
        redis.current_dir(&self.folder).stdin(Stdio::null());
        redis.args(["-h", "127.0.0.1", "-p", &self.resp.port().to_string()]);
        redis.args(arguments).output().expect("redis-cli runs")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `tidegate serve` on free ports.
pub fn serve(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("serve").current_dir(folder);
    for protocol in ["TIDEGATE_HTTP", "TIDEGATE_GRPC", "TIDEGATE_RESP"] {
        command.env(protocol, "127.0.0.1:0");
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What `tidegate serve` says when it does not start.
pub fn refusal(folder: &Path, more: &[&str]) -> String {
    let output = serve(folder).args(CONFIG).args(more).output().unwrap();
    assert!(!output.status.success());
    text(&output.stderr)
}

pub fn folder(policy: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tidegate.toml"), policy).expect("written");
    folder
}

/// Until `done`, or for some ten seconds.
pub fn wait_for(mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("it never came");
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
