//! A server to ask, and the command that asks it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

pub const POLICY: &str = "[policy.chat.limits]\nrpm = { calls = 3, per = '1h' }\n\
                          tpm = { rate = 1000, per = '1h' }\n\n\
                          [policy.jobs.limits]\nrunning = { concurrency = 1 }\n";

/// A server on a free port, killed when it is dropped.
pub struct Server {
    process: Child,
    pub url: String,
    folder: tempfile::TempDir,
}

impl Server {
    /// A server that forgets, with these policies.
    pub fn start(policies: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tidegate.toml"), policies).expect("written");
        Self::start_in(folder, "127.0.0.1:0", &["--store", "memory:"])
    }

    /// A server in a folder that has a `tidegate.toml`, at this address.
    pub fn start_in(folder: tempfile::TempDir, http: &str, more: &[&str]) -> Self {
        let mut command = tidegate();
        command.args(["serve", "--config", "tidegate.toml", "--http", http]);
        command.args(["--grpc", "off", "--resp", "off"]).args(more);
        command.current_dir(folder.path());
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let mut words = said.lines().map(|line| line.expect("text"));
        let line = words.find(|line| line.trim_start().starts_with("HTTP"));
        let line = line.expect("the address is announced");
        let url = line.split_whitespace().nth(1).expect("an address");
        Self {
            url: url.to_owned(),
            process,
            folder,
        }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Ends it at once; its folder stays.
    pub fn kill(mut self) -> tempfile::TempDir {
        self.process.kill().expect("killed");
        self.process.wait().expect("ended");
        let empty = tempfile::tempdir().expect("a folder");
        std::mem::replace(&mut self.folder, empty)
    }

    /// The command, told to ask this server.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tidegate();
        command.args(arguments).env("TIDEGATE_SERVER", &self.url);
        command
    }

    /// What a path answers.
    pub fn get(&self, path: &str) -> String {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    /// What comes of a line that is typed into a shell.
    pub fn types(&self, line: &str) -> Said {
        let program = Path::new(env!("CARGO_BIN_EXE_tidegate"));
        let folder = program.parent().expect("it is in a folder");
        let mut path = folder.as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = unsaid(Command::new("sh"));
        shell.args(["-c", line]).env("PATH", path);
        shell.env("TIDEGATE_SERVER", &self.url);
        Said::from(shell.output().expect("a shell runs"))
    }

    /// Asks, and answers what came of it.
    pub fn request(&self, arguments: &[&str]) -> Said {
        Said::from(self.command(arguments).output().expect("the program runs"))
    }
}

/// What comes of a command whose output nobody reads, as behind `| head` in the end.
pub fn unread(mut command: Command) -> Said {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let child = command.stdout(writer).stderr(Stdio::piped()).spawn();
    drop(command);
    let ended = child.expect("the program runs").wait_with_output();
    Said::from(ended.expect("it ended"))
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a command has said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub error: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it ended by itself"),
            out: String::from_utf8(output.stdout).expect("text"),
            error: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

impl Said {
    /// The one JSON object that was printed.
    pub fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code, with what was said if it is another.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// The command, without what the tests' own surroundings say.
pub fn tidegate() -> Command {
    unsaid(Command::new(env!("CARGO_BIN_EXE_tidegate")))
}

/// The same, without what the tests' own surroundings say.
fn unsaid(mut command: Command) -> Command {
    for name in [
        "SERVER",
        "TOKEN",
        "NAMESPACE",
        "POLICY",
        "KEY",
        "LEASE",
        "CONFIG",
        "STORE",
    ] {
        command.env_remove(format!("TIDEGATE_{name}"));
    }
    command
}

/// Until `done`, or for some twenty seconds.
#[track_caller]
pub fn wait_for(mut done: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if done() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("it never came");
}

/// Sends a signal to a process of ours.
pub fn signal(name: &str, id: u32) {
    let id = id.to_string();
    let sent = Command::new("kill").args(["-s", name, &id]).status();
    assert!(sent.expect("kill runs").success());
}

/// What a file holds, once it is there and its last line is ended.
pub fn written(path: &Path) -> String {
    let mut text = String::new();
    wait_for(|| {
        text = std::fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    });
    text.trim_end().to_owned()
}
