//! Servers, each on the first core, on free ports of loopback.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::command::{output, program};

/// Where servers run, and where clients do; the same on a machine of one core.
pub const SERVER_CORE: &str = "0";

/// How long a server may take to listen: a thousand times this.
const PATIENCE: Duration = Duration::from_millis(50);

/// A server, killed when it is dropped.
pub struct Host {
    pub name: &'static str,
    process: Child,
    pub ports: Ports,
}

/// Where its listeners are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ports {
    pub http: u16,
    pub grpc: u16,
    pub resp: u16,
}

/// The last core of the machine.
pub fn client_core() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores - 1).to_string()
}

/// A program on one core.
pub fn pinned(core: &str, name: &str) -> Command {
    let mut command = program("taskset");
    command.args(["--cpu-list", core, name]);
    command
}

/// A port that is free now.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0");
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.map_err(|error| error.to_string())?.port())
}

impl Host {
    /// A server that says nothing of itself: it is there once its ports answer.
    pub fn start(name: &'static str, command: &mut Command, ports: Ports) -> Result<Self, String> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let mut host = Self {
            name,
            process,
            ports,
        };
        for port in [ports.http, ports.grpc, ports.resp] {
            host.await_port(port)?;
        }
        Ok(host)
    }

    /// Our own server, which says where it listens.
    pub fn tidegate(binary: &Path, folder: &Path, store: &str) -> Result<Self, String> {
        let mut command = pinned(SERVER_CORE, &binary.display().to_string());
        command.args(["serve", "--store", store, "--config", "bench.toml"]);
        for protocol in ["--http", "--grpc", "--resp"] {
            command.args([protocol, "127.0.0.1:0"]);
        }
        command
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let said = process.stdout.take().ok_or("no output of the server")?;
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let mut port = |protocol: &str| {
            let line = lines.find(|line| line.trim_start().starts_with(protocol))?;
            line.split_whitespace()
                .nth(1)?
                .rsplit_once(':')?
                .1
                .parse()
                .ok()
        };
        let ports = [port("HTTP"), port("gRPC"), port("RESP")];
        let [Some(http), Some(grpc), Some(resp)] = ports else {
            return Err("our server has not said where it listens".to_owned());
        };
        let ports = Ports { http, grpc, resp };
        Ok(Self {
            name: "tidegate",
            process,
            ports,
        })
    }

    fn await_port(&mut self, port: u16) -> Result<(), String> {
        for _ in 0..1_000 {
            if port == 0 || TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(format!("{} has ended ({status})", self.name));
            }
            std::thread::park_timeout(PATIENCE);
        }
        Err(format!("{} does not listen at {port}", self.name))
    }

    /// CPU time so far, user and system, in seconds (proc(5), `stat`).
    pub fn cpu_secs(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/stat", self.process.id());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        // The second field is a name in brackets, which may hold blanks.
        let fields: Vec<&str> = text
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split_whitespace()
            .collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let (user, system) = (ticks(11).unwrap_or(0.0), ticks(12).unwrap_or(0.0));
        Ok((user + system) / ticks_a_second())
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/status", self.process.id());
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        Ok(kilobytes.ok_or("no VmRSS")? * 1_024.0)
    }
}

fn ticks_a_second() -> f64 {
    let said = output(program("getconf").arg("CLK_TCK"));
    said.and_then(|text| text.trim().parse().ok())
        .unwrap_or(100.0)
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
