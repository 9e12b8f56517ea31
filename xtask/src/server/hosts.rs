//! Servers, each on the first core, on free ports of loopback.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::command::{output, program};

/// Where servers run, and where clients do; the same on a machine of one core.
pub const SERVER_CORE: &str = "0";

/// How long a server may take to listen: four thousand times this.
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
        for _ in 0..4_000 {
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

    /// CPU time so far, user and system, in seconds (proc(5), `stat`), with that of the processes that
    /// it has started.
    pub fn cpu_secs(&self) -> Result<f64, String> {
        let family = self.family();
        let ticks: f64 = family.iter().flat_map(|one| one.ticks).sum();
        match family.is_empty() {
            false => Ok(ticks / ticks_a_second()),
            true => Err(format!("{} has ended", self.name)),
        }
    }

    /// Resident memory, in bytes, with that of the processes that it has started.
    pub fn resident(&self) -> Result<f64, String> {
        let resident = self.family().into_iter().map(|Stat { id, .. }| {
            let path = format!("/proc/{id}/status");
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            let line = text.lines().find(|line| line.starts_with("VmRSS:"));
            let kilobytes =
                line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
            Ok(kilobytes.ok_or("no VmRSS")? * 1_024.0)
        });
        resident.sum()
    }

    /// The process, and those that it has started.
    fn family(&self) -> Vec<Stat> {
        let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
        let all: Vec<Stat> = ids.filter_map(Stat::read).collect();
        let mut family = vec![self.process.id()];
        let mut known = 0;
        while let Some(parent) = family.get(known).copied() {
            let children = all.iter().filter(|one| one.parent == parent);
            family.extend(children.map(|one| one.id));
            known += 1;
        }
        all.into_iter()
            .filter(|one| family.contains(&one.id))
            .collect()
    }
}

/// What `/proc/ID/stat` says of a process.
struct Stat {
    id: u32,
    parent: u32,
    /// Of CPU time: user and system.
    ticks: [f64; 2],
}

impl Stat {
    fn read(id: u32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The second field is a name in brackets, which may hold blanks.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        Some(Self {
            id,
            parent: fields.get(1)?.parse().ok()?,
            ticks: [ticks(11)?, ticks(12)?],
        })
    }
}

fn ticks_a_second() -> f64 {
    let said = output(program("getconf").arg("CLK_TCK"));
    said.and_then(|text| text.trim().parse().ok())
        .unwrap_or(100.0)
}

impl Drop for Host {
    fn drop(&mut self) {
        for one in self
            .family()
            .iter()
            .filter(|one| one.id != self.process.id())
        {
            let _ = program("kill").arg(one.id.to_string()).output();
        }
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
