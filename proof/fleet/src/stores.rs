//! The stores: a row each.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_conformance::Beyond;

/// A store that servers share.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// As the table names it.
    pub name: &'static str,
    /// How many servers it is asked through.
    pub servers: usize,
    /// Within this time what is set at one server holds at the other.
    pub told_within: Duration,
    open: fn() -> Option<Opened>,
}

/// All of them.
pub const STORES: &[Store] = &[
    row("memory", 1, 5, || Some(Opened::Memory)),
    row("file", 1, 5, || tempfile::tempdir().ok().map(Opened::File)),
    row("redis", 2, 1, || Beyond::redis().map(Opened::Beyond)),
    row("postgres", 2, 1, || Beyond::postgres().map(Opened::Beyond)),
    row("mariadb", 2, 5, || Beyond::mariadb().map(Opened::Beyond)),
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
        open,
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
    pub const fn is_apart(&self) -> bool {
        self.servers > 1
    }
}

/// A store that is there until this is dropped.
#[derive(Debug)]
pub enum Opened {
    /// Each server's own memory.
    Memory,
    /// A file in this folder, for each pair of servers another.
    File(TempDir),
    /// A server beyond a network.
    Beyond(Beyond),
}

impl Opened {
    /// Its address for the servers of `pair`, with these options behind the `?`.
    #[must_use]
    pub fn url(&self, pair: &str, options: &str) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::File(folder) => format!("file:{}", file(folder.path(), pair)),
            Self::Beyond(store) if options.is_empty() => store.url.clone(),
            Self::Beyond(store) => format!("{}?{options}", store.url),
        }
    }

    /// The process that is paused where the store is.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        match self {
            Self::Beyond(store) => Some(store.pid),
            Self::Memory | Self::File(_) => None,
        }
    }
}

fn file(folder: &Path, pair: &str) -> String {
    folder.join(format!("{pair}.redb")).display().to_string()
}
