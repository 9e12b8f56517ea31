//! The stores: a row each.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_conformance::{Beyond, with_options};

use crate::program;
use crate::server::{Server, Start};

/// A store that servers share.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// As the table names it.
    pub name: &'static str,
    /// How many servers it is asked through.
    pub servers: usize,
    /// Within this time what is set at one server holds at the other.
    pub told_within: Duration,
    /// Locks the row of a key in the database at an address, where one can be locked.
    pub lock: Option<Lock>,
    open: fn() -> Option<Opened>,
}

/// Locks the row of a key until what it answers is dropped.
type Lock = fn(&str, &str) -> Result<Locked, String>;

/// All of them.
pub const STORES: &[Store] = &[
    row("memory", 1, 5, || Some(Opened::Memory)),
    row("file", 1, 5, || tempfile::tempdir().ok().map(Opened::File)),
    row("shm", 2, 1, || segment().map(Opened::Segment)),
    row("redis", 2, 1, || Beyond::redis().map(Opened::Beyond)),
    Store {
        lock: Some(lock_in_postgres),
        ..row("postgres", 2, 1, || Beyond::postgres().map(Opened::Beyond))
    },
    Store {
        lock: Some(lock_in_mariadb),
        ..row("mariadb", 2, 5, || Beyond::mariadb().map(Opened::Beyond))
    },
    row("dynamodb", 2, 5, || Beyond::dynamodb().map(Opened::Beyond)),
    row("tidegate", 2, 5, || offering().map(Opened::Offered)),
];

const fn row(
    name: &'static str,
    servers: usize,
    seconds: u64,
    open: fn() -> Option<Opened>,
) -> Store {
    Store {
        name,
        servers,
        told_within: Duration::from_secs(seconds),
        lock: None,
        open,
    }
}

/// A row that is locked until this is dropped: its transaction ends with its client.
#[derive(Debug)]
pub struct Locked(Child);

impl Drop for Locked {
    fn drop(&mut self) {
        // It ends by itself when nobody tells it more.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn lock_in_postgres(url: &str, key: &str) -> Result<Locked, String> {
    let mut client = Command::new("psql");
    client.args(["--no-psqlrc", "-qAt", url]);
    lock(
        client,
        &format!("BEGIN; SELECT 'locked' FROM tidegate.rows WHERE key = '{key}' FOR UPDATE;"),
    )
}

fn lock_in_mariadb(url: &str, key: &str) -> Result<Locked, String> {
    let address = url
        .split(['@', '/', '?'])
        .find(|part| part.contains("127.0.0.1"));
    let (_, port) = address
        .and_then(|address| address.split_once(':'))
        .ok_or("no port")?;
    let mut client = Command::new("mariadb");
    client.args([
        "--no-defaults",
        "--user=root",
        "--host=127.0.0.1",
        "--protocol=tcp",
    ]);
    client.arg(format!("--port={port}"));
    client.args(["--skip-column-names", "--batch", "--unbuffered", "tidegate"]);
    // By its whole index: what else is looked at is locked, too.
    let find = format!("SELECT table_id INTO @t FROM tidegate_rows WHERE name = '{key}' LIMIT 1;");
    let take = format!(
        "SELECT 'locked' FROM tidegate_rows WHERE table_id = @t AND name = '{key}' FOR UPDATE;"
    );
    lock(client, &format!("{find} BEGIN; {take}"))
}

/// Has a client say this, and waits until it has the lock.
fn lock(mut client: Command, sql: &str) -> Result<Locked, String> {
    client.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = client.spawn().map_err(|error| error.to_string())?;
    let said = child.stdin.as_mut().map(|stdin| writeln!(stdin, "{sql}"));
    let output = child.stdout.take().map(BufReader::new);
    let locked = Locked(child);
    said.ok_or("no input")?.map_err(|error| error.to_string())?;
    let mut lines = output
        .into_iter()
        .flat_map(BufRead::lines)
        .map_while(Result::ok);
    match lines.any(|line| line.trim() == "locked") {
        true => Ok(locked),
        false => Err(format!("nothing is locked by {sql}")),
    }
}

impl Store {
    /// Opens one of its own; `None`, with the reason printed, where there is none.
    #[must_use]
    pub fn open(&self) -> Option<Opened> {
        (self.open)()
    }

    /// Whether it is a process of its own, which can be paused.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        self.servers > 1 && self.name != "shm"
    }
}

/// A store that is there until this is dropped.
#[derive(Debug)]
pub enum Opened {
    /// Each server's own memory.
    Memory,
    /// A file in this folder, for each pair of servers another.
    File(TempDir),
    /// A segment in this folder, in memory, for each pair of servers another.
    Segment(TempDir),
    /// A server beyond a network.
    Beyond(Beyond),
    /// One of ours, which offers its memory to others.
    Offered(Server),
}

impl Opened {
    /// Its address for the servers of `pair`, with these options behind the `?`.
    #[must_use]
    pub fn url(&self, pair: &str, options: &str) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::File(folder) => format!("file:{}", file(folder.path(), pair)),
            Self::Segment(folder) => {
                let name = pair.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
                with_options(
                    &format!("shm:{name}?dir={}", folder.path().display()),
                    options,
                )
            }
            Self::Beyond(store) => with_options(&store.url, options),
            Self::Offered(server) => with_options(&format!("tidegate://{}", server.grpc), options),
        }
    }

    /// The process that is paused where the store is.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        match self {
            Self::Beyond(store) => Some(store.pid),
            Self::Offered(server) => Some(server.process()),
            Self::Memory | Self::File(_) | Self::Segment(_) => None,
        }
    }
}

/// A server has a policy of its own, at least.
const OWN_POLICY: &str = "[policy.own.limits]\ncalls = { calls = 1, per = '1m' }\n";

/// A server that offers its memory.
fn offering() -> Option<Server> {
    let start = Start {
        program: program::program().expect("a program"),
        store: "memory:".to_owned(),
        policies: format!("[server]\noffers_store = true\n{OWN_POLICY}"),
    };
    Some(start.start().expect("it starts"))
}

/// A folder in memory, where there is one.
fn segment() -> Option<TempDir> {
    tempfile::tempdir_in("/dev/shm").ok()
}

fn file(folder: &Path, pair: &str) -> String {
    folder.join(format!("{pair}.redb")).display().to_string()
}
