//! Our gateways, as processes on one store.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_conformance::ports;

use crate::front::{FRONTS, Front};
use crate::http;
use crate::provider::PRICE;
use crate::store::Store;

/// 10 dollars for a key. What a killed gateway held expires after three seconds.
const POLICY: &str = "\
[policy.llm]
ttl = '3s'
[policy.llm.limits]
usd = { budget = '10', per = '365d', algorithm = 'first_use_window', unit = '0.000001' }
";

/// So many starts are tried: somebody else may be faster to take a port.
const STARTS: usize = 5;

/// How often leases are looked for, and how long at most: a hundred times what they last.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: usize = 3_000;

/// Gateways until this is dropped.
#[derive(Debug)]
pub struct Gateways {
    program: PathBuf,
    upstream: SocketAddr,
    store: Store,
    folder: TempDir,
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    /// Where it takes calls, and where it is a server.
    at: SocketAddr,
    http: SocketAddr,
}

impl Gateways {
    /// Four, before a provider.
    ///
    /// # Errors
    /// If they do not start.
    pub fn open(program: &Path, store: Store, upstream: SocketAddr) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = folder.path().join("tidegate.toml");
        fs::write(file, POLICY).map_err(|error| error.to_string())?;
        let mut gateways = Self {
            program: program.to_owned(),
            upstream,
            store,
            folder,
            running: Vec::new(),
        };
        for _ in 0..FRONTS {
            let started = (0..STARTS).find_map(|_| gateways.anywhere().ok());
            let started = started.ok_or("a gateway does not start on free ports")?;
            gateways.running.push(started);
        }
        Ok(gateways)
    }

    fn anywhere(&self) -> Result<Running, String> {
        let port = || ports::next_free().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let (at, http) = (port(), port());
        self.run(at.ok_or("a port is taken")?, http.ok_or("a port is taken")?)
    }

    fn run(&self, at: SocketAddr, http: SocketAddr) -> Result<Running, String> {
        let mut command = Command::new(&self.program);
        command.args(["gateway", "--config", "tidegate.toml"]);
        command.args([
            "--upstream",
            &format!("sim=openai@http://{}", self.upstream),
        ]);
        command.args(["--price", &format!("m={},{}", PRICE.0, PRICE.1)]);
        command.args(["--key-header", "x-key", "--wait", "1s"]);
        command.args(["--store", &self.store.url(), "--applied", "store"]);
        command.args(["--listen", &at.to_string(), "--http", &http.to_string()]);
        command.args(["--grpc", "off", "--resp", "off"]);
        command.env("TOKIO_WORKER_THREADS", "2");
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let said = process.stdout.take().map(BufReader::new);
        let mut lines = said
            .into_iter()
            .flat_map(BufRead::lines)
            .map_while(Result::ok);
        let is_up = lines.any(|line| line.trim_start().starts_with("LLM"));
        // What it says later is read to its end, or it would block on a full pipe.
        thread::spawn(move || lines.for_each(drop));
        let running = Running { process, at, http };
        match is_up {
            true => Ok(running),
            false => Err(format!("no gateway starts at {at}")),
        }
    }

    /// What `read` finds in the answer of the first, once there is that: a store that was restarted
    /// may not answer yet, nor one whose machine has much else to do.
    #[expect(
        clippy::disallowed_methods,
        reason = "nobody is told when a lease of a killed process has expired"
    )]
    fn told<T>(
        &self,
        (method, path, body): (&str, &str, &str),
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, String> {
        let mut last = String::new();
        for _ in 0..LOOKS {
            match http::json(self.running[0].http, method, path, body) {
                Ok(said) => match read(&said) {
                    Some(told) => return Ok(told),
                    None => last = said.to_string(),
                },
                Err(error) => last = error,
            }
            thread::sleep(LOOK);
        }
        Err(format!("{path} never tells it: {last}"))
    }

    /// Waits until no lease is held: all is settled, or has expired.
    fn settled(&self) -> Result<(), String> {
        let leases = ("GET", "/v1/leases?policy=llm", "");
        self.told(leases, |said| {
            said["leases"].as_array()?.is_empty().then_some(())
        })
    }
}

impl Front for Gateways {
    fn at(&self) -> [SocketAddr; FRONTS] {
        std::array::from_fn(|which| self.running[which].at)
    }

    fn kill(&mut self, which: usize) {
        self.running[which].end();
    }

    fn start(&mut self, which: usize) -> Result<(), String> {
        let (at, http) = (self.running[which].at, self.running[which].http);
        let again = (0..STARTS).find_map(|_| self.run(at, http).ok());
        self.running[which] = again.ok_or("a killed gateway does not start again")?;
        Ok(())
    }

    fn restart_store(&mut self) -> Result<(), String> {
        self.store.restart();
        Ok(())
    }

    fn fields(&self, key: &str, call: &str) -> Vec<(&'static str, String)> {
        vec![
            ("x-key", key.to_owned()),
            ("authorization", format!("Bearer {call}")),
        ]
    }

    fn spent(&self, key: &str) -> Result<u64, String> {
        self.settled()?;
        let question =
            format!(r#"{{"policy":"llm","key":"{key}","amounts":{{"usd":"0.000001"}}}}"#);
        self.told(("POST", "/v1/peek", &question), |said| {
            let usd = &said["limits"]["usd"];
            let units = |name: &str| usd[name].as_str().and_then(millionths);
            Some(units("limit")? + units("debt")? - units("remaining")?)
        })
    }
}

/// `1.25`, in millionths.
fn millionths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    Some(whole * 1_000_000 + part)
}

impl Running {
    fn end(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
