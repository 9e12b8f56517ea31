//! Another process: the same test, which is told what to do by its environment and says on
//! its standard output what it was told.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::Signal;

/// What its lines begin with: the harness writes others.
const MARK: &str = "> ";

/// A process that a test has started. It is killed when this is dropped.
pub struct Other {
    child: Child,
    said: BufReader<ChildStdout>,
    /// While it is open, a deed that waits for its end goes on.
    input: Option<ChildStdin>,
}

impl Other {
    /// Starts `deed` on the segment in `dir`.
    pub fn start(dir: &Path, deed: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test's path"));
        child.args(["deeds_of_another_process", "--exact", "--nocapture"]);
        child.env("TIDEGATE_DIR", dir).env("TIDEGATE_DEED", deed);
        child.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().expect("a process");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        Self {
            input: child.stdin.take(),
            child,
            said,
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next that it says; `None`: it has ended.
    pub fn says(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.said.read_line(&mut line).expect("a pipe") == 0 {
                return None;
            }
            // The harness says that the test begins on the same line.
            if let Some((_, said)) = line.split_once(MARK) {
                return Some(said.trim_end().to_owned());
            }
        }
    }

    /// It says this next.
    pub fn has_said(&mut self, expected: &str) {
        assert_eq!(self.says().as_deref(), Some(expected));
    }

    /// It [hears](hears) this next.
    pub fn hears(&mut self, what: &str) {
        let input = self.input.as_mut().expect("it was not let go");
        writeln!(input, "{what}").expect("it is there");
    }

    /// Kills it, and waits until it has ended.
    pub fn kill(mut self) {
        self.child.kill().expect("it is there");
        self.child.wait().expect("it ends");
    }

    /// Waits until it has ended by itself.
    pub fn ends(self) {
        let status = self.ended();
        assert!(status.success(), "{status}");
    }

    /// Waits until it was killed, or has ended by itself: one that fails, as by a panic, is
    /// neither.
    pub fn ends_or_is_killed(self) {
        let status = self.ended();
        let is_killed = status.signal() == Some(Signal::KILL.as_raw());
        assert!(is_killed || status.success(), "{status}");
    }

    fn ended(mut self) -> ExitStatus {
        drop(self.input.take());
        self.child.wait().expect("it ends")
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills a process that this one has started and not waited for.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Has such a process stand still.
pub fn stop(pid: u32) {
    signal(pid, Signal::STOP);
}

fn signal(pid: u32, signal: Signal) {
    use rustix::process::{Pid, kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a number"), signal).expect("it is there");
}

/// In the other process: where the segment is, and the deed.
pub fn asked() -> Option<(PathBuf, String)> {
    let dir = PathBuf::from(std::env::var_os("TIDEGATE_DIR")?);
    Some((dir, std::env::var("TIDEGATE_DEED").expect("it is given")))
}

/// In the other process: says something.
pub fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    let line = format!("{MARK}{what}\n");
    out.write_all(line.as_bytes()).expect("a pipe");
    out.flush().expect("a pipe");
}

/// In the other process: the next line that the test tells it; `None`: it was let go.
pub fn hears() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).expect("a pipe");
    (read > 0).then(|| line.trim_end().to_owned())
}

/// In the other process: until the test lets go of it.
pub fn until_let_go() {
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
}
