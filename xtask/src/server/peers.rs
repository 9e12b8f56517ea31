//! The peers: redis-server with a script, and throttlecrab-server; and where any peer is installed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use super::hosts::{Host, Ports, SERVER_CORE, free_port, pinned};
use crate::command::{cargo, run, target_directory};
use crate::wheels;

/// The smallest GCRA that Redis can run; ours, by its clock and in microseconds.
/// `ARGV[1]` is the burst's length of time, `ARGV[2]` that of one unit.
const GCRA: &str = "\
local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
local new = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + tonumber(ARGV[2])
if new - now > tonumber(ARGV[1]) then return {1, new - now - tonumber(ARGV[1])} end
redis.call('SET', KEYS[1], new, 'PX', math.ceil((new - now) / 1000))
return {0, tonumber(ARGV[1]) - (new - now)}";

/// A peer that is left out, and why.
pub type Missing = (&'static str, String);

/// Where a peer is installed.
pub fn home(name: &str) -> PathBuf {
    target_directory().join("peers").join(name)
}

/// A package of PyPI, in an environment of its own; nothing of it is built here.
pub fn install_wheel(name: &str, packages: &[&str]) -> Result<(), String> {
    let venv = home(name);
    if venv.join("bin").join(name).exists() {
        return Ok(());
    }
    let packages = [&["--only-binary", ":all:"], packages].concat();
    wheels::fresh(&venv, "python3", &packages)
}

/// LiteLLM's proxy. Later versions are not taken unseen: two of its releases on PyPI (1.82.7, 1.107.0)
/// carried what others had put there.
pub fn litellm() -> Result<PathBuf, String> {
    install_wheel("litellm", &["litellm[proxy]==1.105.7"])?;
    Ok(home("litellm/bin/litellm"))
}

/// redis-server, without persistence.
pub fn redis() -> Result<Host, String> {
    let resp = free_port()?;
    let port = resp.to_string();
    let mut command = pinned(SERVER_CORE, "redis-server");
    command.args([
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    Host::start(
        "redis",
        &mut command,
        Ports {
            resp,
            ..Ports::default()
        },
    )
}

/// Gives the script to Redis; answers the name that it is called by.
pub fn load_script(redis: &Host) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("redis: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", redis.ports.resp)).map_err(wrong)?;
    let length = GCRA.len();
    let command = format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${length}\r\n{GCRA}\r\n");
    stream.write_all(command.as_bytes()).map_err(wrong)?;
    // $40, the name, and the ends of two lines.
    let mut answer = [0; 47];
    stream.read_exact(&mut answer).map_err(wrong)?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let name = text.lines().nth(1).filter(|_| text.starts_with("$40"));
    name.map(str::to_owned).ok_or(format!("redis: {text}"))
}

/// Builds throttlecrab-server, once.
pub fn install_throttlecrab() -> Result<PathBuf, String> {
    let root = home("");
    let binary = root.join("bin/throttlecrab-server");
    if !binary.exists() {
        let root = root.display().to_string();
        let mut install = cargo(["install", "throttlecrab-server", "--version", "0.4.40"]);
        install.args(["--locked", "--root", &root]);
        install.env("CARGO_TARGET_DIR", target_directory().join("peers-build"));
        run(&mut install)?;
    }
    Ok(binary)
}

/// throttlecrab-server, all its listeners open.
pub fn throttlecrab(binary: &std::path::Path) -> Result<Host, String> {
    let ports = Ports {
        http: free_port()?,
        grpc: free_port()?,
        resp: free_port()?,
    };
    let mut command = pinned(SERVER_CORE, &binary.display().to_string());
    command.args(["--log-level", "error"]);
    for (protocol, port) in [
        ("http", ports.http),
        ("grpc", ports.grpc),
        ("redis", ports.resp),
    ] {
        command.arg(format!("--{protocol}"));
        command.args([format!("--{protocol}-host"), "127.0.0.1".to_owned()]);
        command.args([format!("--{protocol}-port"), port.to_string()]);
    }
    Host::start("throttlecrab", &mut command, ports)
}
