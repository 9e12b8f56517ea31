//! The main job on the embedded default: a server, an hour of real traffic through
//! it in half a minute, and a kill that it does not forget anything by.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::command::{self, cargo, program, root, target_directory};
use crate::progress;

const POLICY: &str = "examples/llm-gateway.toml";
/// An hour of real calls; `ATTRIBUTION.md` beside it says whose.
pub const TRACE: &str = "examples/traces/azure-llm-2023-code.csv";

/// How many minutes pass in one: of the server's clock, and of the trace.
const SPEED: u64 = 120;

/// How long the trace is.
const MINUTES: u64 = 57;

/// What is built: see `Cargo.toml`. Its products lie in a folder of this name.
const PROFILE: &str = "demo";

/// The flags of the listeners, and their ports where these are free.
const PROTOCOLS: [(&str, u16); 3] = [("--http", 7400), ("--grpc", 7401), ("--resp", 7402)];

/// How often a server is looked for before it is given up, and how long in between.
const LOOKS: usize = 200;
const BETWEEN: Duration = Duration::from_millis(50);

pub fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("cargo xtask demo takes no arguments".to_owned());
    }
    let mut build = cargo(["build", "--profile", PROFILE, "--package", "tidegate-cli"]);
    // The demo needs neither a store beyond the network nor a screen.
    progress::build(build.arg("--no-default-features"))?;
    let demo = Demo::new()?;
    let server = demo.serve()?;
    progress::run(&mut demo.replay(), playing)?;
    println!("\nWhat the day has left:");
    demo.peek()?;
    println!("\nThe server is killed (-9), started again on the same file, and asked again:");
    drop(server);
    let _server = demo.serve()?;
    demo.peek()?;
    demo.say_what_else();
    Ok(())
}

/// Which minute of the trace is played, so many seconds after its start.
fn playing(seconds: u64) -> String {
    let minute = (seconds * SPEED / 60).min(MINUTES);
    format!("playing minute {minute} of {MINUTES}")
}

struct Demo {
    binary: PathBuf,
    folder: PathBuf,
    /// Of each of [`PROTOCOLS`].
    ports: [u16; 3],
}

/// Killed when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Demo {
    fn new() -> Result<Self, String> {
        // Not the folder of the profile: what was built stands there.
        let folder = target_directory().join("demo-state");
        let emptied = match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => std::fs::create_dir_all(&folder),
        };
        emptied.map_err(|error| format!("cannot empty {}: {error}", folder.display()))?;
        let mut ports = [0; 3];
        for (port, (_, usual)) in ports.iter_mut().zip(PROTOCOLS) {
            *port = free_port(usual)?;
        }
        Ok(Self {
            binary: target_directory().join(PROFILE).join("tidegate"),
            folder,
            ports,
        })
    }

    /// As one would type it from the root.
    fn tidegate<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let binary = self.binary.strip_prefix(root()).unwrap_or(&self.binary);
        let mut command = program(&binary.display().to_string());
        command.args(arguments);
        command
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// The server, once it listens.
    fn serve(&self) -> Result<Server, String> {
        let store = format!("file:{}", self.folder.join("state.redb").display());
        let mut command =
            self.tidegate(["serve", "--config", POLICY, "--speed", &SPEED.to_string()]);
        command.args(["--store", &store]);
        for ((protocol, _), port) in PROTOCOLS.iter().zip(self.ports) {
            command.args([*protocol, &format!("127.0.0.1:{port}")]);
        }
        let log = std::fs::File::create(self.folder.join("server.log"));
        let log = log.map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stderr(log);
        println!("$ {} &", command::show(&command));
        let child = command.spawn().map_err(|error| error.to_string())?;
        let mut server = Server(child);
        for _ in 0..LOOKS {
            if TcpStream::connect(("127.0.0.1", self.ports[2])).is_ok() {
                return Ok(server);
            }
            if let Ok(Some(status)) = server.0.try_wait() {
                return Err(format!(
                    "the server ended ({status}); see {}",
                    log_of(&self.folder)
                ));
            }
            std::thread::park_timeout(BETWEEN);
        }
        Err(format!(
            "the server does not listen; see {}",
            log_of(&self.folder)
        ))
    }

    fn replay(&self) -> Command {
        let mut command = self.tidegate(["replay", TRACE, "--policy", POLICY]);
        command.args([
            "--server",
            &self.url(),
            "--speed",
            &SPEED.to_string(),
            "--wait",
            "5s",
        ]);
        command.args(["--service", "ttft=200ms,per_token=20ms"]);
        command.arg("--plot").arg(self.folder.join("replay.svg"));
        command
    }

    /// Asks where everything stands; that the day has nothing left (exit code 1)
    /// is an answer, too.
    fn peek(&self) -> Result<(), String> {
        let mut command = self.tidegate(["peek", "--policy", "chat", "--key", "all"]);
        command.args(["--server", &self.url(), "daily=1"]);
        println!("$ {}", command::show(&command));
        let status = command.status().map_err(|error| error.to_string())?;
        match status.code() {
            Some(0 | 1) => Ok(()),
            _ => Err(format!("the server does not answer a peek ({status})")),
        }
    }

    fn say_what_else(&self) {
        println!(
            "\nThe picture: {}\nA server to stay, and a question to it:\n\
             $ target/{PROFILE}/tidegate serve --config {POLICY}\n\
             $ curl -s http://127.0.0.1:7400/v1/acquire -H 'content-type: application/json' \\\n      \
             -d '{{\"policy\":\"chat\",\"key\":\"alice\",\"amounts\":{{\"tpm\":1200}}}}'",
            self.folder.join("replay.svg").display()
        );
    }
}

fn log_of(folder: &Path) -> String {
    folder.join("server.log").display().to_string()
}

/// The usual port, or any other if it is taken.
fn free_port(usual: u16) -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", usual));
    let listener = listener.or_else(|_| TcpListener::bind("127.0.0.1:0"));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.map_err(|error| error.to_string())?.port())
}
