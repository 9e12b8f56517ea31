//! `tidegate serve` as a process, on ports that were free.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_conformance::{Beyond, with_options};

/// Nothing takes so long, on however busy a machine, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The name of the server's file, in its folder.
pub const FILE: &str = "tidegate.toml";

/// A folder with a file of policies.
pub fn folder(policies: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(FILE), policies).expect("written");
    folder
}

/// Microseconds since the Unix epoch.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.expect("after 1970").as_micros()).expect("before the year 500,000")
}

/// The store's address, with a deadline for a busy machine.
pub fn patient(store: &Beyond) -> String {
    with_options(&store.url, "deadline=50s")
}

/// Waits until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: it never came");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A process that may not have said yet where it listens; killed when dropped.
pub struct Started {
    process: Child,
    said: BufReader<ChildStdout>,
    log: Log,
}

/// A server that listens over every protocol.
pub struct Server {
    started: Started,
    pub http: SocketAddr,
    pub grpc: SocketAddr,
    pub resp: SocketAddr,
}

impl Started {
    /// On the file store in `folder`, synced like this.
    pub fn on_file(folder: &Path, sync: &str) -> Self {
        let store = format!("file:state.redb?sync={sync}");
        Self::with(folder, &["--store", &store], 4_096)
    }

    /// With more arguments, and with so many open files allowed.
    pub fn with(folder: &Path, more: &[&str], files: u64) -> Self {
        let mut command = Command::new("sh");
        let allowed = format!("ulimit -S -n {files}; exec \"$0\" \"$@\"");
        command.args(["-c", &allowed, env!("CARGO_BIN_EXE_tidegate"), "serve"]);
        command.args(["--config", FILE]).args(more);
        for protocol in ["--http", "--grpc", "--resp"] {
            command.args([protocol, "127.0.0.1:0"]);
        }
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program runs");
        Self {
            said: BufReader::new(process.stdout.take().expect("piped")),
            log: Log::follow(process.stderr.take().expect("piped")),
            process,
        }
    }

    /// Waits until it listens.
    pub fn listening(mut self) -> Server {
        let mut said = String::new();
        let mut address = |protocol: &str| {
            loop {
                said.clear();
                let length = self.said.read_line(&mut said).expect("text");
                assert!(
                    length > 0,
                    "{protocol} is not announced: {}",
                    self.log.text()
                );
                let mut words = said.split_whitespace();
                if words.next() == Some(protocol) {
                    let at = words.next().expect("an address");
                    return at.trim_start_matches("http://").parse().expect("a socket");
                }
            }
        };
        let (http, grpc, resp) = (address("HTTP"), address("gRPC"), address("RESP"));
        Server {
            started: self,
            http,
            grpc,
            resp,
        }
    }

    /// kill -9, and waits for its end.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        self.process.wait().expect("it ends");
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Server {
    pub fn start(folder: &Path, more: &[&str]) -> Self {
        Started::with(folder, more, 4_096).listening()
    }

    pub fn kill(&mut self) {
        self.started.kill();
    }

    /// What it holds in memory, in KiB.
    pub fn memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.started.process.id());
        let status = std::fs::read_to_string(status).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.expect("a number").parse().expect("a number")
    }

    /// Has it read its file again.
    pub fn hang_up(&self) {
        self.signal("HUP");
    }

    /// Tells it to stop, and waits until it has.
    pub fn stop(&mut self) {
        self.signal("TERM");
        let mut ended = || self.started.process.try_wait().expect("it is ours");
        until("it stops", || ended().is_some());
        assert_eq!(ended().and_then(|status| status.code()), Some(0));
    }

    fn signal(&self, name: &str) {
        let id = self.started.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// How often its log says `words`.
    pub fn logged(&self, words: &str) -> usize {
        self.started.log.text().matches(words).count()
    }
}

/// What a process logs, read as it comes so that it is never held up by it.
struct Log {
    text: Arc<Mutex<String>>,
    _reader: JoinHandle<()>,
}

impl Log {
    fn follow(mut stderr: ChildStderr) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let ours = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(length @ 1..) = stderr.read(&mut bytes) {
                let said = String::from_utf8_lossy(&bytes[..length]);
                ours.lock().expect("no panic").push_str(&said);
            }
        });
        Self {
            text,
            _reader: reader,
        }
    }

    fn text(&self) -> String {
        self.text.lock().expect("no panic").clone()
    }
}
