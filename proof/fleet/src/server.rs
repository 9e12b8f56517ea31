//! `tidegate serve` as a process, on ports that were free.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tempfile::TempDir;
use tidegate_conformance::ports;

/// The name of a server's file, in its folder.
const FILE: &str = "tidegate.toml";

/// So many starts are tried: somebody else may be faster to take a port.
const STARTS: usize = 5;

/// How many threads a server decides on: fewer than there are asks that may hang.
const THREADS: &str = "2";

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Start {
    /// The program.
    pub program: PathBuf,
    /// Where state is kept, as `--store` takes it.
    pub store: String,
    /// What its file says.
    pub policies: String,
}

/// A server that runs until this is dropped.
pub struct Server {
    process: Child,
    log: Arc<Mutex<String>>,
    folder: TempDir,
    /// Where it speaks HTTP.
    pub http: SocketAddr,
    /// Where it speaks gRPC.
    pub grpc: SocketAddr,
    /// Where it speaks RESP.
    pub resp: SocketAddr,
}

impl Start {
    /// Starts it, and waits until it listens over every protocol.
    ///
    /// # Errors
    /// If it does not, with what it said.
    pub fn start(&self) -> Result<Server, String> {
        let mut said = String::new();
        for _ in 0..STARTS {
            match self.once() {
                Ok(server) => return Ok(server),
                Err(why) => said = why,
            }
        }
        Err(format!("{} does not start: {said}", self.program.display()))
    }

    fn once(&self) -> Result<Server, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        fs::write(folder.path().join(FILE), &self.policies).map_err(|error| error.to_string())?;
        let port = || ports::next_free().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let [http, grpc, resp] = [port(), port(), port()].map(|port| port.ok_or("a port is taken"));
        let (http, grpc, resp) = (http?, grpc?, resp?);
        let mut command = Command::new(&self.program);
        command.args(["serve", "--config", FILE, "--store", &self.store]);
        let is_shared = !["memory:", "file:"]
            .iter()
            .any(|one| self.store.starts_with(one));
        command.args([
            "--applied",
            if is_shared { "store" } else { "applied.toml" },
        ]);
        for (protocol, at) in [("--http", http), ("--grpc", grpc), ("--resp", resp)] {
            command.args([protocol, &at.to_string()]);
        }
        command.env("TOKIO_WORKER_THREADS", THREADS);
        command.current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let log = process.stderr.take().map(follow).unwrap_or_default();
        let said = process.stdout.take().map(BufReader::new);
        let mut server = Server {
            process,
            log,
            folder,
            http,
            grpc,
            resp,
        };
        let mut lines = said
            .into_iter()
            .flat_map(BufRead::lines)
            .map_while(Result::ok);
        for protocol in ["HTTP", "gRPC", "RESP"] {
            if !lines.any(|line| line.split_whitespace().next() == Some(protocol)) {
                // It has ended: what it had to say is there.
                let _ = server.process.wait();
                return Err(format!("{protocol} is not announced: {}", server.log()));
            }
        }
        // What it says later is read to its end, or it would block on a full pipe.
        thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }
}

impl Server {
    /// Has it read other policies.
    ///
    /// # Errors
    /// If they cannot be written, or the process is gone.
    pub fn reload(&self, policies: &str) -> Result<(), String> {
        let new = self.folder.path().join("new");
        fs::write(&new, policies).map_err(|error| error.to_string())?;
        fs::rename(new, self.folder.path().join(FILE)).map_err(|error| error.to_string())?;
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", "HUP", &id]).status();
        match sent.map_err(|error| error.to_string())?.success() {
            true => Ok(()),
            false => Err("the server is gone".to_owned()),
        }
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Tells it to stop, and waits until it has ended.
    ///
    /// # Errors
    /// If it cannot be told, or ends in trouble; with what it has logged.
    pub fn stop(mut self) -> Result<(), String> {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
        sent.map_err(|error| error.to_string())?;
        let ended = self.process.wait().map_err(|error| error.to_string())?;
        match ended.success() {
            true => Ok(()),
            false => Err(format!("{ended}: {}", self.log())),
        }
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

/// What a process logs, read as it comes so that it is never held up by it.
fn follow(mut stderr: ChildStderr) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let ours = Arc::clone(&text);
    thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok(length @ 1..) = stderr.read(&mut bytes) {
            let said = String::from_utf8_lossy(&bytes[..length]);
            let mut text = ours.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&said);
        }
    });
    text
}
